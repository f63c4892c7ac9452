//! What holds whatever the commands, whoever sends them, and whatever their clocks say.

use proptest::prelude::*;

use super::*;
use crate::limits::LEASE_AFTER_STOP;

/// A command as it is drawn; who sends it and with which token is decided when it meets the run.
#[derive(Clone, Debug)]
enum Sent {
    Claim { expects: Option<u64>, committed: u64 },
    ClaimAgain,
    Beat { who: Who, committed: u64 },
    HandOff { who: Who, progressed: bool },
    Park { who: Who, wait: Option<u64> },
    Finish { who: Who, reason: Option<Reason> },
    Answer { awaited: bool },
    Pause,
    Resume,
    Stop { force: bool },
    Due { committed: u64 },
    DispatchFailed { epoch: u64 },
    DeclareLapsed,
}

/// The last claimant, or one of those before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Last,
    Before(usize),
}

/// What is sent, how long after what came before, and how far the sender's clock is off.
type Step = (Sent, u64, i64);

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![4 => Just(Who::Last), 1 => (0usize..5).prop_map(Who::Before)]
}

fn ending() -> impl Strategy<Value = Option<Reason>> {
    prop_oneof![Just(None), proptest::sample::select(&Reason::ALL[..]).prop_map(Some)]
}

fn sent() -> impl Strategy<Value = Sent> {
    let epoch = || proptest::option::weighted(0.2, 0u64..4);
    prop_oneof![
        6 => (epoch(), 0u64..4).prop_map(|(expects, committed)| Sent::Claim { expects, committed }),
        1 => Just(Sent::ClaimAgain),
        4 => (who(), 0u64..9).prop_map(|(who, committed)| Sent::Beat { who, committed }),
        3 => (who(), any::<bool>()).prop_map(|(who, progressed)| Sent::HandOff { who, progressed }),
        2 => (who(), proptest::option::of(0u64..600)).prop_map(|(who, wait)| Sent::Park { who, wait }),
        1 => (who(), ending()).prop_map(|(who, reason)| Sent::Finish { who, reason }),
        2 => any::<bool>().prop_map(|awaited| Sent::Answer { awaited }),
        1 => Just(Sent::Pause),
        2 => Just(Sent::Resume),
        1 => proptest::bool::weighted(0.2).prop_map(|force| Sent::Stop { force }),
        5 => (0u64..9).prop_map(|committed| Sent::Due { committed }),
        1 => (0u64..6).prop_map(|epoch| Sent::DispatchFailed { epoch }),
        1 => Just(Sent::DeclareLapsed),
    ]
}

fn steps(clocks_off_by: i64) -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![4 => 0u64..20_000, 2 => 20_000u64..90_000, 1 => 90_000u64..4_000_000];
    proptest::collection::vec((sent(), wait, -clocks_off_by..=clocks_off_by), 1..60)
}

fn start() -> impl Strategy<Value = Run> {
    let executor = proptest::sample::select(vec![Executor::Inline, Executor::Background, Executor::External]);
    (executor, 30u64..20_000, proptest::bool::weighted(0.1)).prop_map(|(executor, life, blocked)| {
        let mut run = accepted(executor);
        run.ends_at = NOW + secs(life);
        run.due_at = Some((NOW + secs(60)).min(run.ends_at));
        run.blocked = blocked;
        if blocked {
            run.due_at = Some(run.ends_at);
        }
        run
    })
}

/// A command, and whether it is one of a holder that was superseded.
fn command(sent: &Sent, run: &Run, claims: &mut u64, now: Timestamp) -> (Command, bool) {
    let token_of = |who: &Who, claims: u64| match who {
        Who::Last => format!("c{claims}"),
        Who::Before(back) => format!("c{}", claims.saturating_sub(1 + *back as u64)),
    };
    let is_superseded = |name: &str| run.claim_token != Some(token(name));
    let holder = |name: &str, committed| Held {
        cost: Cost {
            write_requests: 1,
            ..Cost::default()
        },
        ..held_with(name, committed)
    };
    let claim = |name: String, expected_epoch, committed| {
        Command::Claim(Claim {
            token: token(&name),
            holder: name,
            lease: TIMING.lease,
            expected_epoch,
            committed,
        })
    };
    match sent {
        Sent::Claim { expects, committed } => {
            *claims += 1;
            let expected = expects.map(|behind| run.epoch.saturating_sub(behind));
            (claim(format!("c{claims}"), expected, *committed), false)
        }
        Sent::ClaimAgain => (claim(format!("c{claims}"), None, 0), false),
        Sent::Beat { who, committed } => {
            let name = token_of(who, *claims);
            let beat = Beat {
                holder: holder(&name, *committed),
                lease: TIMING.lease,
            };
            (Command::Beat(beat), is_superseded(&name))
        }
        Sent::HandOff { who, progressed } => {
            let name = token_of(who, *claims);
            (hand_off_as(&name, *progressed), is_superseded(&name))
        }
        Sent::Park { who, wait } => {
            let name = token_of(who, *claims);
            (park_as(&name, wait.map(|wait| now + secs(wait))), is_superseded(&name))
        }
        Sent::Finish { who, reason } => {
            let name = token_of(who, *claims);
            (finish_as(&name, *reason), is_superseded(&name))
        }
        Sent::Answer { awaited } => {
            let answer = Command::Answer {
                awaited: *awaited,
                timing: TIMING,
            };
            (answer, false)
        }
        Sent::Pause => (Command::Pause, false),
        Sent::Resume => (RESUME, false),
        Sent::Stop { force } => (Command::Stop { force: *force }, false),
        Sent::Due { committed } => (due(*committed), false),
        Sent::DispatchFailed { epoch } => {
            let failed = Command::DispatchFailed {
                epoch: *epoch,
                stage: DispatchStage::SetUp,
                error: "no".into(),
            };
            (failed, false)
        }
        Sent::DeclareLapsed => (Command::DeclareLapsed, false),
    }
}

/// Sends the steps and shows each that wasn't refused: the run before, the command, what came of it, and when.
fn play(
    mut run: Run,
    steps: &[Step],
    mut seen: impl FnMut(&Run, &Command, &Change, Timestamp) -> Result<(), TestCaseError>,
) -> Result<Run, TestCaseError> {
    let mut claims = 0;
    let mut true_time = NOW;
    for (sent, wait, off) in steps {
        true_time = true_time + Duration::from_millis(*wait);
        let now = Timestamp::from_millis(true_time.as_millis() + off);
        let (command, is_superseded) = command(sent, &run, &mut claims, now);
        match apply(&run, &command, now) {
            Ok(change) => {
                prop_assert!(!is_superseded, "{command:?} came from a superseded holder");
                seen(&run, &command, &change, now)?;
                run = change.run;
            }
            Err(refusal) => {
                prop_assert!(
                    !is_superseded || refusal == Refusal::LeaseLost,
                    "{command:?}: {refusal}"
                );
            }
        }
    }
    Ok(run)
}

/// What stays of a run from its acceptance on; the version and write id are the store's.
fn identity(run: &Run) -> Run {
    Run {
        id: run.id.clone(),
        owner: run.owner.clone(),
        agent: run.agent.clone(),
        thread: run.thread.clone(),
        turn: run.turn.clone(),
        executor: run.executor,
        created_at: run.created_at,
        ends_at: run.ends_at,
        version: run.version,
        write_id: run.write_id.clone(),
        blocked: run.blocked,
        ..accepted(Executor::Inline)
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn epochs_rise_by_one_a_claim_and_tell_claims(run in start(), steps in steps(20_000)) {
        play(run, &steps, |before, _, change, _| {
            let claimed = u64::from(change.log == Log::Claimed);
            prop_assert_eq!(change.run.epoch, before.epoch + claimed);
            if claimed == 1 {
                prop_assert!(before.claim_token != change.run.claim_token);
                prop_assert_eq!(change.run.status, Status::Running);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_run_ends_once_and_then_nothing_changes(run in start(), steps in steps(20_000)) {
        let mut endings = 0;
        let end = play(run, &steps, |before, command, change, _| {
            if before.status.is_terminal() {
                prop_assert_eq!(before, &change.run, "{:?}", command);
                prop_assert_eq!((change.log, change.then), (Log::Nothing, Then::Nothing));
            }
            let ends = matches!(change.log, Log::Ended(_));
            prop_assert_eq!(ends, change.run.status.is_terminal() && !before.status.is_terminal());
            if let Log::Ended(reason) = change.log {
                prop_assert_eq!(change.run.reason, reason);
                prop_assert_eq!(change.run.status, crate::outcome::terminal_status(reason));
            }
            endings += u64::from(ends);
            Ok(())
        })?;
        prop_assert_eq!(endings, u64::from(end.status.is_terminal()));
    }

    #[test]
    fn what_a_run_is_never_changes(run in start(), steps in steps(20_000)) {
        let first = identity(&run);
        play(run, &steps, |_, _, change, _| {
            prop_assert_eq!(&identity(&change.run), &first);
            Ok(())
        })?;
    }

    #[test]
    fn g8_a_live_run_is_due_at_its_end_at_the_latest(run in start(), steps in steps(20_000)) {
        play(run, &steps, |_, _, change, _| {
            let Change { run, then, .. } = change;
            match run.due_at {
                None => prop_assert!(run.status.is_terminal()),
                Some(due_at) => prop_assert!(!run.status.is_terminal() && due_at <= run.ends_at),
            }
            if run.paused || run.blocked {
                prop_assert_eq!(*then, Then::Nothing);
                prop_assert!(matches!(run.status, Status::Running) || run.status.is_terminal() || run.due_at == Some(run.ends_at));
            }
            Ok(())
        })?;
    }

    /// However a run was left, somebody who looks whenever it is due brings it to an end in a bounded number of looks.
    #[test]
    fn g8_the_sweep_alone_brings_every_run_to_its_end(run in start(), steps in steps(0)) {
        let mut last = NOW;
        let mut run = play(run, &steps, |_, _, _, now| { last = now; Ok(()) })?;
        let mut looks = 0;
        while let Some(due_at) = run.due_at {
            // A live lease is looked at again when it ends.
            let mut now = due_at.max(last);
            if let Phase::Live = Phase::of(&run, now) {
                now = run.lease_expires_at.unwrap_or(now);
            }
            last = now;
            let looked = apply(&run, &due(0), now);
            let change = looked.map_err(|refusal| TestCaseError::fail(refusal.to_string()))?;
            run = change.run;
            if change.then == Then::Carry {
                // It may die in every chunk: that is an end too.
                run = take(&run, &claim_as(&format!("sweep-{looks}")), now);
            }
            looks += 1;
            prop_assert!(looks < 500, "still {:?} after {} looks", run.status, looks);
        }
    }

    #[test]
    fn g5_progress_and_costs_never_go_back(run in start(), steps in steps(20_000)) {
        play(run, &steps, |before, _, change, _| {
            let run = &change.run;
            prop_assert_eq!(run.totals.max(before.totals), run.totals);
            prop_assert_eq!(before.cost + (run.cost - before.cost), run.cost);
            prop_assert!(run.counters.crashes >= before.counters.crashes);
            Ok(())
        })?;
    }

    #[test]
    fn no_lease_outlives_the_run_nor_a_stop_by_more_than_a_minute(run in start(), steps in steps(0)) {
        play(run, &steps, |_, _, change, _| {
            let Some(lease) = change.run.lease_expires_at else {
                return Ok(());
            };
            prop_assert!(lease <= change.run.ends_at);
            if let Some(stopped_at) = change.run.stop_requested_at {
                prop_assert!(lease <= stopped_at + LEASE_AFTER_STOP);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_beat_never_moves_back_whatever_the_clocks_say(run in start(), steps in steps(20_000)) {
        play(run, &steps, |before, command, change, _| {
            if let Command::Beat(_) = command {
                prop_assert!(change.run.lease_expires_at >= before.lease_expires_at);
                prop_assert!(change.run.last_sign_of_life >= before.last_sign_of_life);
                prop_assert_eq!(change.run.due_at, before.due_at);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_crash_is_counted_once_an_epoch_and_a_holder_that_speaks_is_none(run in start(), steps in steps(20_000)) {
        let mut crashed_epochs = std::collections::BTreeSet::new();
        play(run, &steps, |before, command, change, now| {
            let counted = change.run.counters.crashes - before.counters.crashes;
            if counted > 0 {
                prop_assert_eq!(counted, 1);
                prop_assert_eq!(Phase::of(before, now), Phase::Lapsed);
                prop_assert!(matches!(command, Command::Claim(_) | Command::Due { .. }), "{:?}", command);
                prop_assert!(crashed_epochs.insert(before.epoch), "epoch {} twice", before.epoch);
            }
            if matches!(change.log, Log::Lost { .. }) {
                prop_assert_eq!(counted, 1);
            }
            Ok(())
        })?;
    }

    #[test]
    fn g7_after_a_stop_a_run_is_never_claimed_and_only_ever_cancelled(run in start(), steps in steps(20_000)) {
        let end = play(run, &steps, |before, _, change, _| {
            if before.stopping {
                prop_assert!(change.run.stopping);
                prop_assert!(change.log != Log::Claimed);
                prop_assert!(!change.run.status.is_terminal() || change.run.status == Status::Cancelled);
                prop_assert_eq!(change.run.stop_requested_at, before.stop_requested_at);
            }
            Ok(())
        })?;
        prop_assert!(!end.stopping || matches!(end.status, Status::Running | Status::Cancelled));
    }

    #[test]
    fn only_a_running_run_has_a_lease_and_only_a_queued_one_is_dispatched(run in start(), steps in steps(20_000)) {
        play(run, &steps, |_, _, change, _| {
            let Change { run, then, .. } = change;
            prop_assert_eq!(run.lease_expires_at.is_some(), run.status == Status::Running);
            prop_assert!(run.claim_token.is_some() || run.status != Status::Running);
            if *then == Then::Dispatch {
                prop_assert!(matches!(run.status, Status::Queued | Status::Lost));
                prop_assert_eq!(run.executor, Executor::Background);
                prop_assert!(run.dispatch.attempts >= 1 && run.dispatch.first_at.is_some());
            }
            Ok(())
        })?;
    }
}
