//! What has gone wrong for others with leases and sweeps.

use super::*;

#[test]
fn r21_a_claim_half_a_minute_after_the_dispatch_is_in_time() {
    let run = accepted(Executor::Background);
    assert_eq!(take(&run, &due(0), NOW + secs(30)), run, "the sweep leaves it");
    let claimed = take(&run, &claim_as("a"), NOW + secs(30));
    assert_eq!((claimed.status, claimed.counters.crashes), (Status::Running, 0));
    assert_eq!(apply(&claimed, &due(0), NOW + secs(59)), Err(Refusal::NotDue));
}

#[test]
fn r21_a_paused_run_is_left_alone_until_its_end() {
    let paused = take(&accepted(Executor::Background), &Command::Pause, NOW);
    for at in [secs(61), secs(3 * 3600), secs(6 * 24 * 3600)] {
        assert_eq!(take(&paused, &due(0), NOW + at), paused, "{at:?}");
    }
    assert_eq!(take(&paused, &due(0), paused.ends_at).reason, Some(Reason::TimeLimit));
}

#[test]
fn r21_a_waiting_run_is_left_alone_until_its_time() {
    let claimed = take(&accepted(Executor::Background), &claim_as("a"), NOW);
    let until = NOW + secs(3 * 3600);
    let waiting = take(&claimed, &park_as("a", Some(until)), NOW);
    assert_eq!(waiting.due_at, Some(until));
    for at in [NOW + secs(31), NOW + secs(7200), until - secs(1)] {
        assert_eq!(apply(&waiting, &due(0), at), Err(Refusal::NotReady));
    }
    assert_eq!(take(&waiting, &due(0), until).status, Status::Queued);
    let for_an_answer = take(&claimed, &park_as("a", None), NOW);
    assert_eq!(apply(&for_an_answer, &due(0), until), Err(Refusal::NotReady));
}

#[test]
fn r21_what_nobody_dispatches_waits_for_its_worker() {
    let run = accepted(Executor::External);
    for at in [secs(61), secs(3 * 3600)] {
        let after = take(&run, &due(0), NOW + at);
        assert_eq!((after.status, after.due_at), (Status::Queued, Some(run.ends_at)));
    }
}

/// Claimed at `NOW`, beaten for the last time ten seconds later.
fn silent_since_10() -> Run {
    let run = take(&accepted(Executor::Background), &claim_as("a"), NOW);
    take(&run, &beat_as("a"), NOW + secs(10))
}

#[test]
fn r22_a_loss_is_dated_by_the_last_sign_of_life() {
    let change = apply(&silent_since_10(), &due(0), NOW + secs(500)).unwrap();
    let lost = Log::Lost {
        epoch: 1,
        last_sign_of_life: NOW + secs(10),
        crashes: 1,
    };
    assert_eq!(change.log, lost);
    assert_eq!(change.run.last_sign_of_life, Some(NOW + secs(10)));
}

#[test]
fn r22_a_run_that_a_lapse_ends_ended_with_its_last_sign_of_life() {
    let mut run = silent_since_10();
    run.counters.crashes_in_a_row = 2;
    for command in [due(0), claim_as("b")] {
        let ended = take(&run, &command, NOW + secs(500));
        assert_eq!(ended.reason, Some(Reason::CrashLimit));
        assert_eq!(ended.ended_at, Some(NOW + secs(10)), "{command:?}");
        let kept_until = (NOW + secs(500) + crate::limits::RETENTION).as_ttl_seconds();
        assert_eq!(ended.expires_at, Some(kept_until), "kept from when it could be seen");
    }
}

#[test]
fn r22_an_ending_is_never_dated_before_the_stop_that_asked_for_it() {
    let stopping = take(&silent_since_10(), &STOP, NOW + secs(20));
    let ended = take(&stopping, &due(0), NOW + secs(500));
    assert_eq!(
        (ended.reason, ended.ended_at),
        (Some(Reason::Stopped), Some(NOW + secs(20)))
    );
}

#[test]
fn r22_a_beat_or_an_ending_between_look_and_write_leaves_the_sweep_nothing() {
    let seen = silent_since_10();
    let now = NOW + secs(41);
    assert!(apply(&seen, &due(0), now).is_ok(), "what the sweep would have written");
    let beaten = take(&seen, &beat_as("a"), now);
    assert_eq!(apply(&beaten, &due(0), now), Err(Refusal::NotDue));
    let ended = take(&seen, &finish_as("a", None), now);
    assert_eq!(apply(&ended, &due(0), now), Err(Refusal::Ended));
}

#[test]
fn r22_a_second_sweep_counts_nothing_again() {
    let now = NOW + secs(41);
    let lost = take(&silent_since_10(), &due(0), now);
    assert_eq!(take(&lost, &due(0), now), lost);
}

/// A lease of one second that nobody has extended for two, and no sweep has come by.
fn lapsed_by_a_second() -> (Run, Timestamp) {
    let Command::Claim(claim) = claim_as("a") else {
        unreachable!()
    };
    let lease = secs(1);
    let run = take(
        &accepted(Executor::External),
        &Command::Claim(Claim { lease, ..claim }),
        NOW,
    );
    (run, NOW + secs(2))
}

#[test]
fn r24_a_late_holder_goes_on_until_someone_else_has_the_lease() {
    let (run, now) = lapsed_by_a_second();
    let beaten = take(&run, &beat_as("a"), now);
    assert!(matches!(apply(&beaten, &claim_as("b"), now), Err(Refusal::Held { .. })));
    assert_eq!(beaten.counters.crashes, 0);
    let finished = take(&run, &finish_as("a", None), now);
    assert_eq!(apply(&finished, &claim_as("b"), now), Err(Refusal::Ended));
    assert_eq!((finished.status, finished.counters.crashes), (Status::Completed, 0));
}

#[test]
fn r24_whoever_lost_the_lease_to_a_claim_can_do_nothing() {
    let (run, now) = lapsed_by_a_second();
    let taken = take(&run, &claim_as("b"), now);
    assert_eq!((taken.epoch, taken.counters.crashes), (2, 1));
    for late in [
        beat_as("a"),
        hand_off_as("a", true),
        park_as("a", None),
        finish_as("a", None),
    ] {
        assert_eq!(apply(&taken, &late, now), Err(Refusal::LeaseLost), "{late:?}");
    }
    assert!(apply(&taken, &finish_as("b", None), now).is_ok());
}

#[test]
fn r25_a_second_delivery_of_a_dispatch_leaves_no_trace() {
    let delivery = |token: &str| {
        let Command::Claim(claim) = claim_as(token) else {
            unreachable!()
        };
        Command::Claim(Claim {
            expected_epoch: Some(0),
            ..claim
        })
    };
    let run = take(&accepted(Executor::Background), &delivery("a"), NOW);
    assert!(matches!(apply(&run, &delivery("b"), NOW), Err(Refusal::Held { .. })));
    let handed_on = take(&run, &hand_off_as("a", true), NOW + secs(1));
    let stale = Refusal::StaleDispatch { expected: 0, actual: 1 };
    assert_eq!(apply(&handed_on, &delivery("b"), NOW + secs(2)), Err(stale.clone()));
    assert_eq!(
        apply(&run, &delivery("b"), NOW + secs(60)),
        Err(stale),
        "nor after a lapse"
    );
    let ended = take(&run, &finish_as("a", None), NOW);
    assert_eq!(apply(&ended, &delivery("b"), NOW), Err(Refusal::Ended));
}
