//! Retrying: what remains of an ended run becomes a new one, and what it does twice it does under the same keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::tool::Repeat;
use outlast_agent::{Tool, ToolCall};
use outlast_core::{EventBody, RunId, Status};
use outlast_engine::BodyError;
use outlast_engine::accept::AcceptedRun;
use outlast_engine::remainder::{RemainingState, remainder};
use outlast_engine::retry::{NotRetried, RetryRequest, retry};
use outlast_tests::rig::{Rig, RigOptions};
use serde_json::{Value, json};

/// What each body was called with, by step: fails, doesn't know, or succeeds, as its step's script says.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

#[async_trait]
impl Tool for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn description(&self) -> &'static str {
        "Does what its step's input says, one word an attempt."
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::AtMostOnce {
            timeout: Duration::from_secs(5),
        }
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let name = call.input["name"].as_str().unwrap_or_default().to_owned();
        let mut calls = self.0.lock().unwrap();
        let calls = calls.entry(name).or_default();
        let word = call.input["does"][calls.len()].as_str().unwrap_or("done").to_owned();
        calls.push(call.step.idempotency_key.clone());
        match word.as_str() {
            "fail" => Err(BodyError::permanent("broken", "it can't be done")),
            "vanish" => Err(BodyError::unknown("vanished", "nobody can tell")),
            _ => Ok(json!(word)),
        }
    }
}

fn step(name: &str, does: &[&str]) -> Value {
    json!({"key": name, "tool": "scripted", "input": {"name": name, "does": does}})
}

fn rig() -> (Rig, Scripted) {
    let (mut options, _) = RigOptions::in_memory();
    let tool = Scripted::default();
    options.app = assistant::app().tool(tool.clone());
    (Rig::new(options), tool)
}

async fn retried(rig: &Rig, run: &RunId, include_unknown: bool, turn: Option<&str>) -> Result<AcceptedRun, NotRetried> {
    let request = RetryRequest {
        owner: rig.owner.clone(),
        run: run.clone(),
        include_unknown,
        turn: turn.map(str::to_owned),
    };
    retry(&rig.engine, request).await
}

#[tokio::test]
async fn what_failed_is_done_by_a_new_run_and_what_is_unknown_only_if_asked_for() {
    let (rig, tool) = rig();
    let plan = json!({"steps": [
        step("a", &["done"]),
        step("b", &["fail", "done"]),
        step("c", &["vanish", "done"]),
        step("d", &["fail", "fail", "done"]),
    ]});
    let first = rig.start(&plan).await;
    assert_eq!(rig.ended(&first).await.run.status, Status::Incomplete);

    let second = retried(&rig, &first, false, None).await.unwrap().run.id;
    let view = rig.ended(&second).await;
    assert_eq!(
        (view.totals.planned, view.totals.committed, view.totals.failed),
        (2, 1, 1)
    );
    assert_eq!(view.run.retry_of.as_ref(), Some(&first));
    let accepted = rig.log(&second).await.remove(0).body;
    assert!(matches!(accepted, EventBody::RunAccepted { retry_of: Some(of), .. } if of == first));

    // The rest of the rest; and of the first run, what nobody could tell.
    let third = retried(&rig, &second, false, None).await.unwrap().run.id;
    assert_eq!(rig.ended(&third).await.run.status, Status::Completed);
    let remaining = remainder(&rig.engine, &rig.owner, &first).await.unwrap().steps;
    let states: Vec<_> = remaining.iter().map(|step| (step.key.as_str(), step.state)).collect();
    let (failed, unknown) = (RemainingState::Failed, RemainingState::Unknown);
    assert_eq!(states, [("b", failed), ("c", unknown), ("d", failed)]);
    let all = retried(&rig, &first, true, None).await.unwrap().run.id;
    let view = rig.ended(&all).await;
    assert_eq!((view.run.status, view.totals.committed), (Status::Completed, 3));

    // Whoever receives them can tell a repetition: the first run's key, in whichever run of the chain.
    let calls = tool.0.lock().unwrap();
    for (name, times) in [("a", 1), ("b", 3), ("c", 2), ("d", 4)] {
        assert_eq!(calls[name], vec![format!("{first}/{name}"); times], "{name}");
    }
}

#[tokio::test]
async fn nothing_is_retried_that_is_done_lives_or_cannot_be_told() {
    let (rig, _) = rig();
    let done = rig.start(&json!({"steps": [step("a", &["done"])]})).await;
    rig.ended(&done).await;
    let refused = retried(&rig, &done, true, None).await;
    assert!(
        matches!(refused, Err(NotRetried::NothingRemains { unknown: 0 })),
        "{refused:?}"
    );
    let unknown = rig.start(&json!({"steps": [step("u", &["vanish"])]})).await;
    rig.ended(&unknown).await;
    let refused = retried(&rig, &unknown, false, None).await;
    assert!(
        matches!(refused, Err(NotRetried::NothingRemains { unknown: 1 })),
        "{refused:?}"
    );
    rig.set_deliver(outlast_tests::rig::Deliver::Hold);
    let live = rig.start(&json!({"steps": [step("l", &["done"])]})).await;
    assert!(matches!(retried(&rig, &live, true, None).await, Err(NotRetried::Live)));
    let nobody = RunId::new("0190f5c2-7a53-7cc3-98c4-dc0c0c07398f");
    assert!(matches!(
        retried(&rig, &nobody, true, None).await,
        Err(NotRetried::Engine(_))
    ));
}

#[tokio::test]
async fn r34_the_same_retry_again_is_the_same_run_and_a_thread_stays_one_conversation() {
    let (rig, _) = rig();
    let mut request = rig.request(&json!({"steps": [step("a", &["fail", "fail", "done"])]}));
    request.thread = Some("conversation".into());
    let first = rig.try_start(request.clone()).await.unwrap().run.id;
    rig.ended(&first).await;
    rig.set_deliver(outlast_tests::rig::Deliver::Hold);
    let second = retried(&rig, &first, false, Some("again")).await.unwrap();
    let again = retried(&rig, &first, false, Some("again")).await.unwrap();
    assert_eq!((&again.run.id, again.repeated), (&second.run.id, true));
    assert_eq!(second.run.thread.as_str(), "conversation");
    let busy = retried(&rig, &first, false, None).await;
    assert!(matches!(busy, Err(NotRetried::NotAccepted(_))), "{busy:?}");
}
