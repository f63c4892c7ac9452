//! Endings are computed: M of N, the remainder, and the reason that comes first.

use super::*;
use crate::digest::sha256_hex;
use crate::limits::REMAINDER_KEYS;
use crate::run::Status;

fn returned() -> AgentResult {
    AgentResult::Returned {
        value: json(r#""All done! Everything went perfectly.""#),
        verification: None,
    }
}

fn verified(missing: &[&str]) -> AgentResult {
    AgentResult::Returned {
        value: json("1"),
        verification: Some(Verification {
            checked: 1,
            missing: missing.iter().map(|name| key(name)).collect(),
            unsettled: 0,
            ..Verification::default()
        }),
    }
}

fn log(bodies: Vec<EventBody>) -> Fold {
    begun().holder(1, bodies).fold
}

#[track_caller]
fn check(bodies: Vec<EventBody>, result: AgentResult, reason: Option<Reason>, remainder: &[&str]) {
    let outcome = log(bodies).outcome(result);
    assert_eq!(outcome.reason, reason);
    assert_eq!(
        outcome.remainder.iter().map(StepKey::as_str).collect::<Vec<_>>(),
        remainder
    );
    assert_eq!(outcome.remaining, remainder.len() as u64);
    assert_eq!(outcome.remainder_digest.is_some(), !remainder.is_empty());
}

#[test]
fn r33_six_of_ten_is_incomplete_whatever_the_agent_says() {
    let names: Vec<String> = (1..=10).map(|n| format!("s{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bodies = vec![plan(&names)];
    for name in &names[..6] {
        bodies.extend([started(name), committed(name)]);
    }
    let outcome = log(bodies).outcome(returned());
    assert_eq!(
        (outcome.status(), outcome.reason),
        (Status::Incomplete, Some(Reason::StepsNotRun))
    );
    assert_eq!((outcome.totals.committed, outcome.totals.planned), (6, 10));
    assert_eq!(outcome.remaining, 4);
    assert_eq!(outcome.remainder, ["s07", "s08", "s09", "s10"].map(key));
    let digest = sha256_hex(b"s07\ns08\ns09\ns10\n");
    assert_eq!(outcome.remainder_digest, Some(digest));
    assert!(outcome.value.is_some(), "what it said is kept, and decides nothing");
}

#[test]
fn r33_ten_of_ten_after_a_retry_is_completed() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut bodies = vec![plan(&names), started("a"), retrying("a"), started_as("a", 2, true)];
    bodies.push(committed("a"));
    for name in &names[1..] {
        bodies.extend([started(name), committed(name)]);
    }
    let outcome = log(bodies).outcome(returned());
    assert_eq!((outcome.status(), outcome.reason), (Status::Completed, None));
    assert_eq!(
        (outcome.totals.committed, outcome.totals.planned, outcome.totals.failed),
        (10, 10, 0)
    );
    assert_eq!((outcome.remaining, outcome.remainder_digest), (0, None));
}

#[test]
fn nothing_planned_and_nothing_done_is_completed() {
    check(vec![EventBody::RunPaused], returned(), None, &[]);
}

#[test]
fn a_planned_failure_bars_completion_and_a_handled_one_outside_the_plan_does_not() {
    check(
        vec![plan(&["a"]), started("a"), failed("a")],
        returned(),
        Some(Reason::StepsFailed),
        &["a"],
    );
    let handled = vec![plan(&["a"]), started("a"), committed("a"), started("x"), failed("x")];
    check(handled.clone(), returned(), None, &[]);
    assert_eq!(log(handled.clone()).outcome(returned()).failures_handled, 1);
    let unhandled = log(handled).outcome(AgentResult::Failed(error()));
    assert_eq!(
        (unhandled.reason, unhandled.failures_handled),
        (Some(Reason::AgentError), 0)
    );
}

#[test]
fn an_open_step_bars_completion_planned_or_not() {
    check(
        vec![started("x"), unknown("x")],
        returned(),
        Some(Reason::StepsUnknown),
        &["x"],
    );
    check(vec![started("x")], returned(), Some(Reason::StepsUnknown), &["x"]);
    check(
        vec![started("x"), retrying("x")],
        returned(),
        Some(Reason::StepsNotRun),
        &["x"],
    );
    check(vec![plan(&["a"])], returned(), Some(Reason::StepsNotRun), &["a"]);
    check(
        vec![plan(&["a"]), started("a"), retrying("a")],
        returned(),
        Some(Reason::StepsNotRun),
        &["a"],
    );
}

#[test]
fn the_reason_that_comes_first() {
    // Each next line leaves out the reason of the line before it.
    let all = || {
        let open = ["failed", "unknown", "never", "done"];
        let mut bodies = vec![plan(&open), started("failed"), failed("failed")];
        bodies.extend([
            started("unknown"),
            unknown("unknown"),
            started("done"),
            committed("done"),
        ]);
        bodies
    };
    let mut stopped = all();
    stopped.push(EventBody::StopRequested);
    let remainder = ["failed", "unknown", "never"];
    for result in [
        returned(),
        AgentResult::Failed(error()),
        AgentResult::Nondeterministic(error()),
        AgentResult::Ended(Reason::TimeLimit),
    ] {
        check(stopped.clone(), result, Some(Reason::Stopped), &remainder);
    }
    check(
        all(),
        AgentResult::Failed(error()),
        Some(Reason::AgentError),
        &remainder,
    );
    check(
        all(),
        AgentResult::Nondeterministic(error()),
        Some(Reason::Nondeterminism),
        &remainder,
    );
    check(
        all(),
        verified(&["done"]),
        Some(Reason::StepsFailed),
        &["failed", "unknown", "never", "done"],
    );
    let without_failed = vec![plan(&["unknown", "never"]), started("unknown"), unknown("unknown")];
    check(
        without_failed,
        returned(),
        Some(Reason::StepsUnknown),
        &["unknown", "never"],
    );
    let without_unknown = || vec![plan(&["done", "never"]), started("done"), committed("done")];
    check(
        without_unknown(),
        verified(&["done"]),
        Some(Reason::StepsNotRun),
        &["done", "never"],
    );
    let all_done = || vec![plan(&["done"]), started("done"), committed("done")];
    check(all_done(), verified(&["done"]), Some(Reason::NotVerified), &["done"]);
    check(all_done(), verified(&[]), None, &[]);
}

#[test]
fn every_reason_that_is_not_the_agents_is_the_ending() {
    for reason in Reason::ALL {
        let outcome = log(vec![plan(&["a"]), started("a"), committed("a")]).outcome(AgentResult::Ended(reason));
        assert_eq!((outcome.reason, outcome.status()), (Some(reason), reason.status()));
        assert_eq!((outcome.error, outcome.value), (None, None));
    }
}

#[test]
fn a_verification_that_misses_what_nobody_planned_says_so() {
    check(
        vec![plan(&["a"]), started("a"), committed("a")],
        verified(&["never heard of"]),
        Some(Reason::NotVerified),
        &["never heard of"],
    );
}

#[test]
fn a_long_remainder_is_counted_and_digested_whole_and_listed_in_part() {
    let names: Vec<String> = (0..250).rev().map(|n| format!("s{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcome = log(vec![plan(&names)]).outcome(returned());
    assert_eq!((outcome.remaining, outcome.remainder.len()), (250, REMAINDER_KEYS));
    assert_eq!(outcome.remainder[0], key("s249"), "in the plan's order");
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let lines: String = sorted.iter().map(|name| format!("{name}\n")).collect();
    assert_eq!(outcome.remainder_digest, Some(sha256_hex(lines.as_bytes())));
}

#[test]
fn bodies_that_may_still_act_are_unsettled() {
    let until = |name: &str, deadline| EventBody::StepStarted {
        key: key(name),
        attempt: 1,
        idempotent: false,
        input_digest: "d".into(),
        deadline,
    };
    let later = Timestamp::from_millis(NOW.as_millis() + 1);
    let fold = log(vec![
        until("past", Some(NOW)),
        until("open", Some(later)),
        until("no deadline", None),
        until("done", None),
        committed("done"),
    ]);
    assert_eq!((fold.unsettled(NOW), fold.unsettled(later)), (2, 1));
}

#[test]
fn every_reason_has_a_status_and_one_spelling() {
    for reason in Reason::ALL {
        assert!(reason.status().is_terminal());
        assert_ne!(reason.status(), Status::Completed);
        let spelled = serde_json::to_string(&reason).unwrap();
        assert_eq!(spelled, format!("{:?}", reason.as_str()));
        assert_eq!(serde_json::from_str::<Reason>(&spelled).unwrap(), reason);
    }
}
