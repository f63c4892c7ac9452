//! What the cells do to the figures on the row: leases, due times, counters, dispatches.

use super::*;
use crate::limits::{CRASHES_IN_ALL, MAX_CHUNKS, RETENTION};

/// Background, and claimed at `NOW` by "a".
fn claimed() -> Run {
    take(&accepted(Executor::Background), &claim_as("a"), NOW)
}

fn external() -> Run {
    let Command::Claim(claim) = claim_as("a") else {
        unreachable!()
    };
    let lease = secs(300);
    take(
        &accepted(Executor::External),
        &Command::Claim(Claim { lease, ..claim }),
        NOW,
    )
}

#[test]
fn a_claim_starts_lease_epoch_and_dispatch_anew() {
    let run = claimed();
    assert_eq!((run.epoch, run.counters.chunks), (1, 1));
    assert_eq!(run.lease_expires_at, Some(NOW + secs(30)));
    assert_eq!(run.due_at, run.lease_expires_at);
    assert_eq!(run.dispatch, Default::default());
    assert_eq!(run.last_sign_of_life, Some(NOW));
}

#[test]
fn no_lease_outlives_the_run() {
    let mut run = accepted(Executor::Background);
    run.ends_at = NOW + secs(12);
    let run = take(&run, &claim_as("a"), NOW);
    assert_eq!(run.lease_expires_at, Some(NOW + secs(12)));
    let run = take(&run, &beat_as("a"), NOW + secs(10));
    assert_eq!(run.lease_expires_at, Some(NOW + secs(12)));
}

#[test]
fn a_beat_that_comes_late_or_from_a_slow_clock_moves_nothing_back() {
    let ahead = take(&claimed(), &beat_as("a"), NOW + secs(20));
    let behind = take(&ahead, &beat_as("a"), NOW + secs(5));
    assert_eq!(behind.lease_expires_at, Some(NOW + secs(50)));
    assert_eq!(behind.last_sign_of_life, Some(NOW + secs(20)));
}

#[test]
fn a_holder_that_ignores_a_stop_is_cut_off_60_seconds_after_it() {
    let mut run = take(&claimed(), &STOP, NOW + secs(1));
    for at in [10, 25, 35, 45, 55, 59] {
        run = take(&run, &beat_as("a"), NOW + secs(at));
    }
    assert_eq!(run.lease_expires_at, Some(NOW + secs(61)));
    let cut_off = take(&run, &due(0), NOW + secs(61));
    assert_eq!(
        (cut_off.status, cut_off.reason),
        (Status::Cancelled, Some(Reason::Stopped))
    );
}

#[test]
fn an_external_worker_has_one_lease_after_a_stop() {
    let beat = Command::Beat(Beat {
        holder: held_by("a"),
        lease: secs(300),
    });
    let stopped = take(&external(), &STOP, NOW + secs(200));
    let beaten = take(&stopped, &beat, NOW + secs(250));
    assert_eq!(beaten.lease_expires_at, Some(NOW + secs(500)));
    assert_eq!(
        take(&beaten, &beat, NOW + secs(499)).lease_expires_at,
        beaten.lease_expires_at
    );
}

#[test]
fn a_repeated_stop_keeps_the_time_of_the_first() {
    let stopped = take(&claimed(), &STOP, NOW + secs(1));
    let forced = take(&stopped, &STOP, NOW + secs(9));
    assert_eq!(forced.stop_requested_at, Some(NOW + secs(1)));
    assert_eq!(forced.status, Status::Cancelled);
}

#[test]
fn who_carries_a_queued_run_on_depends_on_its_executor() {
    let check = |executor: Executor, then: Then, due_in: Option<u64>| {
        let run = take(&accepted(executor), &claim_as("a"), NOW);
        let change = apply(&run, &hand_off_as("a", true), NOW).unwrap();
        assert_eq!(change.then, then, "{executor:?}");
        let due_at = due_in.map_or(run.ends_at, |seconds| NOW + secs(seconds));
        assert_eq!(change.run.due_at, Some(due_at), "{executor:?}");
    };
    check(Executor::Background, Then::Dispatch, Some(60));
    check(Executor::Inline, Then::Nothing, Some(60));
    check(Executor::External, Then::Nothing, None);
}

#[test]
fn an_inline_run_that_nobody_continues_is_carried_by_whoever_looks() {
    let run = take(&accepted(Executor::Inline), &claim_as("a"), NOW);
    let handed_off = take(&run, &hand_off_as("a", true), NOW);
    let early = apply(&handed_off, &due(0), NOW + secs(59)).unwrap();
    assert_eq!((early.then, &early.run), (Then::Nothing, &handed_off));
    // It isn't moved: until somebody does carry it, it stays due, and the longest waiting comes first.
    for after in [60, 61, 3600] {
        let change = apply(&handed_off, &due(0), NOW + secs(after)).unwrap();
        assert_eq!((change.then, &change.run), (Then::Carry, &handed_off));
    }
}

#[test]
fn an_inline_run_that_waited_is_carried_as_soon_as_its_time_has_come() {
    let run = take(&accepted(Executor::Inline), &claim_as("a"), NOW);
    let until = NOW + secs(300);
    let parked = Command::Park {
        holder: held_by("a"),
        until: Some(until),
    };
    let parked = take(&run, &parked, NOW);
    assert_eq!(apply(&parked, &due(0), NOW + secs(299)), Err(Refusal::NotReady));
    let change = apply(&parked, &due(0), until).unwrap();
    assert_eq!((change.then, change.run.status), (Then::Carry, Status::Queued));
    assert_eq!(change.run.due_at, Some(until));
}

#[test]
fn a_background_run_of_a_deployment_that_no_longer_dispatches_is_carried_by_whoever_looks() {
    let look = Command::Due {
        committed: 0,
        timing: TIMING,
        dispatches: false,
    };
    // Nobody has tried to start it, so nobody gives it up, and it stays due until somebody carries it.
    let queued = accepted(Executor::Background);
    for after in [60, 3600, 10 * 3600] {
        let change = apply(&queued, &look, NOW + secs(after)).unwrap();
        assert_eq!((change.then, &change.run), (Then::Carry, &queued));
    }
    let claimed = take(&queued, &claim_as("a"), NOW);
    let lapsed_at = claimed.lease_expires_at.unwrap();
    let lost = apply(&claimed, &look, lapsed_at).unwrap();
    assert_eq!((lost.then, lost.run.status), (Then::Carry, Status::Lost));
    assert_eq!((lost.run.due_at, lost.run.dispatch.attempts), (Some(lapsed_at), 0));
    let until = NOW + secs(300);
    let park = Command::Park {
        holder: held_by("a"),
        until: Some(until),
    };
    let woken = apply(&take(&claimed, &park, NOW), &look, until).unwrap();
    assert_eq!((woken.then, woken.run.status), (Then::Carry, Status::Queued));
    assert_eq!((woken.run.due_at, woken.run.dispatch.attempts), (Some(until), 0));
}

#[test]
fn a_lost_dispatch_is_repeated_with_growing_waits_and_then_given_up() {
    let mut run = accepted(Executor::Background);
    let mut sent = vec![0];
    while !run.status.is_terminal() {
        let at = run.due_at.unwrap();
        run = take(&run, &due(0), at);
        sent.push(at.since(NOW).as_secs() / 60);
    }
    assert_eq!(sent, [0, 1, 3, 7, 15, 30, 45, 60, 75, 90, 105, 120]);
    assert_eq!(run.reason, Some(Reason::NeverStarted));
}

#[test]
fn a_claim_starts_the_count_of_dispatches_again() {
    let late = NOW + secs(7000);
    let run = take(&accepted(Executor::Background), &claim_as("a"), late);
    let run = take(&run, &hand_off_as("a", true), late);
    assert_eq!((run.dispatch.attempts, run.dispatch.first_at), (1, Some(late)));
}

#[test]
fn what_a_failed_dispatch_said_is_kept_and_bounded() {
    let failed = |error: String| Command::DispatchFailed {
        epoch: 0,
        stage: DispatchStage::Token,
        error,
    };
    let run = take(&accepted(Executor::Background), &failed("é".repeat(150)), NOW);
    assert_eq!(run.dispatch.error.as_deref(), Some("é".repeat(100).as_str()));
    assert_eq!(run.dispatch.stage, DispatchStage::Token);
    let run = take(&run, &failed(format!("x{}", "é".repeat(150))), NOW);
    assert_eq!(run.dispatch.error.map(|error| error.len()), Some(199));
}

#[test]
fn what_is_paused_is_due_at_its_end_and_what_is_resumed_at_once() {
    let check = |run: &Run| {
        let paused = take(run, &Command::Pause, NOW + secs(1));
        assert_eq!(paused.due_at, Some(run.ends_at), "{:?}", run.status);
        let resumed = take(&paused, &RESUME, NOW + secs(5));
        assert!(resumed.due_at.unwrap() <= NOW + secs(65), "{:?}", run.status);
    };
    check(&accepted(Executor::Background));
    check(&take(&claimed(), &park_as("a", Some(NOW + secs(600))), NOW));
    check(&take(&claimed(), &due(0), NOW + secs(31)));
}

#[test]
fn a_run_that_was_paused_and_then_parks_is_left_alone_until_it_is_resumed() {
    let paused = take(&claimed(), &Command::Pause, NOW);
    let parked = take(&paused, &park_as("a", Some(NOW + secs(600))), NOW);
    assert_eq!(parked.due_at, Some(parked.ends_at));
    let resumed = take(&parked, &RESUME, NOW + secs(700));
    assert_eq!(take(&resumed, &due(0), NOW + secs(700)).status, Status::Queued);
}

#[test]
fn a_lapse_of_a_paused_run_is_a_lapse() {
    let paused = take(&claimed(), &Command::Pause, NOW);
    assert_eq!(paused.due_at, Some(NOW + secs(30)));
    let change = apply(&paused, &due(0), NOW + secs(31)).unwrap();
    assert_eq!((change.run.status, change.run.counters.crashes), (Status::Lost, 1));
    assert_eq!((change.then, change.run.due_at), (Then::Nothing, Some(paused.ends_at)));
}

#[test]
fn three_crashes_in_a_row_end_a_run_and_a_step_between_them_forgives() {
    let check = |committed: [u64; 4], survives: bool| {
        let mut run = accepted(Executor::Background);
        let mut now = NOW;
        for (crash, committed) in committed.into_iter().enumerate() {
            if run.status.is_terminal() {
                break;
            }
            run = take(&run, &claim_as(&format!("c{crash}")), now);
            now = now + secs(31);
            run = take(&run, &due(committed), now);
        }
        assert_eq!(!run.status.is_terminal(), survives, "{committed:?}");
        assert!(survives || run.reason == Some(Reason::CrashLimit));
    };
    check([0, 0, 0, 0], false);
    check([1, 1, 1, 1], false);
    check([0, 0, 1, 1], true);
    check([1, 2, 3, 4], true);
    check([0, 1, 1, 1], false);
    check([5, 5, 6, 6], true);
}

#[test]
fn twenty_five_crashes_end_a_run_however_much_it_does() {
    let mut run = accepted(Executor::Background);
    let mut now = NOW;
    let mut crashes = 0;
    while !run.status.is_terminal() {
        run = take(&run, &claim_as(&format!("c{crashes}")), now);
        now = now + secs(31);
        crashes += 1;
        run = take(&run, &due(crashes), now);
    }
    assert_eq!((crashes, run.counters.crashes), (CRASHES_IN_ALL, CRASHES_IN_ALL));
    assert_eq!(run.reason, Some(Reason::CrashLimit));
}

#[test]
fn the_time_limit_comes_before_the_crash_limit_whoever_finds_it() {
    let mut run = claimed();
    run.counters.crashes_in_a_row = 2;
    run.ends_at = NOW + secs(30);
    for command in [claim_as("b"), due(0)] {
        let ended = take(&run, &command, NOW + secs(40));
        assert_eq!(ended.reason, Some(Reason::TimeLimit), "{command:?}");
        assert_eq!(ended.counters.crashes, 1, "{command:?}");
    }
}

#[test]
fn chunks_after_a_wait_do_not_count_towards_the_limit() {
    let mut run = accepted(Executor::Background);
    for wait in 0..2 * MAX_CHUNKS {
        let at = NOW + secs(600 * wait);
        run = take(&run, &claim_as(&format!("c{wait}")), at);
        assert_eq!(run.counters.chunks, 1);
        run = take(&run, &park_as(&format!("c{wait}"), Some(at + secs(60))), at);
        run = take(&run, &due(0), at + secs(60));
    }
    assert_eq!(run.epoch, 2 * MAX_CHUNKS);
    let mut chunks = 0;
    while !run.status.is_terminal() {
        run = take(&run, &claim_as("again"), NOW);
        run = take(&run, &hand_off_as("again", true), NOW);
        chunks += 1;
    }
    assert_eq!((chunks, run.reason), (MAX_CHUNKS, Some(Reason::ChunkLimit)));
}

#[test]
fn r14_chunks_without_progress_are_counted_on_the_row() {
    let check = |chunks: &[bool], ended: bool| {
        let mut run = accepted(Executor::Background);
        for progressed in chunks {
            run = take(&run, &claim_as("a"), NOW);
            run = take(&run, &hand_off_as("a", *progressed), NOW);
        }
        assert_eq!(run.status.is_terminal(), ended, "{chunks:?}");
    };
    check(&[false, false], false);
    check(&[false, false, false], true);
    check(&[false, false, true, false, false], false);
    let mut run = claimed();
    run.counters.stalled = 2;
    assert_eq!(take(&run, &park_as("a", None), NOW).counters.stalled, 0);
}

#[test]
fn r32_an_older_progress_never_wins() {
    let beat = |committed| {
        Command::Beat(Beat {
            holder: held_with("a", committed),
            lease: TIMING.lease,
        })
    };
    let run = take(&claimed(), &beat(50), NOW);
    let run = take(&run, &beat(40), NOW + secs(1));
    assert_eq!((run.totals.committed, run.totals.planned), (50, 50));
}

#[test]
fn a_finish_gets_its_own_answer_again_and_no_other() {
    let ended = take(&claimed(), &finish_as("a", Some(Reason::StepsFailed)), NOW);
    assert_eq!(
        take(&ended, &finish_as("a", Some(Reason::StepsFailed)), NOW + secs(9)),
        ended
    );
    for other in [finish_as("a", None), finish_as("b", Some(Reason::StepsFailed))] {
        assert_eq!(apply(&ended, &other, NOW), Err(Refusal::LeaseLost));
    }
    let stopped = take(&claimed(), &Command::Stop { force: true }, NOW);
    assert_eq!(
        take(&stopped, &finish_as("a", None), NOW),
        stopped,
        "it is cancelled as it would have been"
    );
}

#[test]
fn what_has_ended_is_kept_for_the_retention() {
    let run = take(&claimed(), &finish_as("a", None), NOW + secs(5));
    let gone = NOW + secs(5) + RETENTION;
    assert_eq!(run.ended_at, Some(NOW + secs(5)));
    assert!(!run.is_expired(gone - secs(1)));
    assert!(run.is_expired(gone));
    assert!(!claimed().is_expired(gone));
}

#[test]
fn a_process_that_knows_of_its_death_need_not_wait() {
    let run = take(&claimed(), &Command::DeclareLapsed, NOW + secs(3));
    assert!(run.is_lapsed(NOW + secs(3)));
    assert_eq!(run.due_at, Some(NOW + secs(3)));
    assert_eq!(take(&run, &due(0), NOW + secs(3)).status, Status::Lost);
}

#[test]
fn every_refusal_has_a_code_of_its_own() {
    let refusals = [
        Refusal::Held { until: NOW },
        Refusal::NotReady,
        Refusal::Paused,
        Refusal::Blocked,
        Refusal::StaleDispatch { expected: 1, actual: 2 },
        Refusal::LeaseLost,
        Refusal::Ended,
        Refusal::NotDue,
    ];
    let codes: std::collections::BTreeSet<&str> = refusals.iter().map(Refusal::code).collect();
    assert_eq!(codes.len(), refusals.len());
}
