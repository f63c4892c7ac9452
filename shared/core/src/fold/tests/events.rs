//! Events as they are stored: each kind comes back as it went in, under the name that it has for ever.

use super::*;
use crate::event::wire_json;

/// Its name in the log. A new kind of event breaks this match: give it a line here and one in [`one_of_each`].
fn type_of(body: &EventBody) -> &'static str {
    match body {
        EventBody::RunAccepted { .. } => "run.accepted",
        EventBody::RunClaimed { .. } => "run.claimed",
        EventBody::PlanDeclared { .. } => "plan.declared",
        EventBody::StepStarted { .. } => "step.started",
        EventBody::StepRetrying { .. } => "step.retrying",
        EventBody::StepCommitted { .. } => "step.committed",
        EventBody::StepFailed { .. } => "step.failed",
        EventBody::StepUnknown { .. } => "step.unknown",
        EventBody::AutoContinue { .. } => "auto_continue",
        EventBody::RunParked { .. } => "run.parked",
        EventBody::RunLost { .. } => "run.lost",
        EventBody::RunPaused => "run.paused",
        EventBody::RunResumed => "run.resumed",
        EventBody::StopRequested => "stop.requested",
        EventBody::StepReleased { .. } => "step.released",
        EventBody::WaitStarted { .. } => "wait.started",
        EventBody::WaitEnded { .. } => "wait.ended",
        EventBody::ParallelEnded { .. } => "parallel.ended",
        EventBody::ApprovalRequired { .. } => "approval.required",
        EventBody::AnswerRecorded { .. } => "answer.recorded",
        EventBody::Emit { .. } => "emit",
        EventBody::RunCompleted(_) => "run.completed",
        EventBody::RunIncomplete(_) => "run.incomplete",
        EventBody::RunFailed(_) => "run.failed",
        EventBody::RunCancelled(_) => "run.cancelled",
    }
}

const KINDS: usize = 25;

fn outcome(reason: Option<Reason>) -> Outcome {
    Outcome {
        reason,
        totals: Totals {
            planned: 4,
            committed: 3,
            failed: 1,
            unknown: 0,
            released: 2,
        },
        failures_handled: 1,
        remaining: 1,
        remainder_digest: Some("0a".into()),
        remainder: vec![key("a/b%20c")],
        verification: Some(Verification {
            checked: 3,
            missing: vec![key("a")],
            unsettled: 1,
            ..Verification::default()
        }),
        error: Some(error().at(key("a"))),
        value: Some(json(r#"{"z":1.0,"a":12345678901234567890123}"#)),
    }
}

fn one_of_each() -> Vec<EventBody> {
    let mut bodies = vec![
        accepted(),
        claimed(7),
        plan(&["a", "b"]),
        started("a"),
        retrying("a"),
        committed("a"),
        failed("a"),
        unknown("a"),
        lost(7),
        parked(Some(NOW)),
        parked(None),
        EventBody::RunParked {
            until: None,
            awaits: vec![key("ask"), key("a/b")],
        },
        EventBody::StepReleased { key: key("a") },
        wait_started("nap"),
        EventBody::WaitEnded { key: key("nap") },
        EventBody::ParallelEnded {
            key: key("fan"),
            result: json(r#"{"items":[]}"#),
        },
        asked("ask"),
        EventBody::ApprovalRequired {
            key: key("ask"),
            expires_at: None,
            default: Some(json("null")),
            schema: Some(json(r#"{"type":"object"}"#)),
        },
        EventBody::RunPaused,
        EventBody::RunResumed,
        EventBody::StopRequested,
        answered("ask"),
        refused("ask"),
        expired("ask", None),
        expired("ask", Some("7")),
        EventBody::Emit {
            key: key("note"),
            data: json(r#"[{"deep":[1,2.50]}]"#),
        },
    ];
    let reasons = [
        ContinueReason::RunTimeout,
        ContinueReason::Paused,
        ContinueReason::LeaseInDoubt,
        ContinueReason::ShutDown,
        ContinueReason::Answered,
    ];
    bodies.extend(reasons.map(|reason| EventBody::AutoContinue {
        reason,
        interrupted: vec![StepKey::new("cut")],
    }));
    let endings = std::iter::once(None).chain(Reason::ALL.map(Some));
    bodies.extend(endings.map(|reason| EventBody::terminal(outcome(reason))));
    bodies
}

#[test]
fn each_kind_comes_back_as_it_went_in() {
    let mut kinds = std::collections::BTreeSet::new();
    for body in one_of_each() {
        let kind = type_of(&body);
        kinds.insert(kind);
        let event = Event { seq: 3, at: NOW, body };
        let stored = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&stored).unwrap(), event, "{stored}");
        for text in [stored, wire_json(&event)] {
            let fields: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((fields["type"].as_str(), fields["seq"].as_u64()), (Some(kind), Some(3)));
        }
    }
    assert_eq!(kinds.len(), KINDS, "one_of_each lacks a kind");
}

#[test]
fn the_terminal_events_and_no_others_end_a_log() {
    for body in one_of_each() {
        let ends = ["run.completed", "run.incomplete", "run.failed", "run.cancelled"].contains(&type_of(&body));
        assert_eq!((body.is_terminal(), body.outcome().is_some()), (ends, ends));
        if let Some(outcome) = body.outcome() {
            assert_eq!(type_of(&body), format!("run.{}", outcome.status().as_str()));
        }
    }
}

#[test]
fn what_an_event_lacks_is_read_as_absent() {
    let text = r#"{"seq":1,"at":0,"type":"run.incomplete","reason":"time_limit",
        "totals":{"planned":2,"committed":1,"failed":0,"unknown":0},"remaining":1,"a_later_field":true}"#;
    let event: Event = serde_json::from_str(text).unwrap();
    let outcome = event.body.outcome().unwrap();
    assert_eq!((outcome.remainder.len(), &outcome.value), (0, &None));
    let started =
        r#"{"seq":1,"at":0,"type":"step.started","key":"a","attempt":1,"idempotent":true,"input_digest":"d"}"#;
    assert!(serde_json::from_str::<Event>(started).is_ok());
}

#[test]
fn a_kind_that_this_code_does_not_know_is_refused_loudly() {
    let text = r#"{"seq":1,"at":0,"type":"step.teleported","key":"a"}"#;
    let error = serde_json::from_str::<Event>(text).unwrap_err().to_string();
    assert!(error.contains("step.teleported"), "{error}");
}
