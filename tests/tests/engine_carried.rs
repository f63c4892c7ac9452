//! Chunks that the sweep carries, because nobody else would.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::App;
use outlast_core::limits::{NEVER_STARTED_AFTER, Timing};
use outlast_core::outcome::ErrorInfo;
use outlast_core::run::DispatchStage;
use outlast_core::step::StepPolicy;
use outlast_core::time_budget::HostKind;
use outlast_core::{AgentName, Payload, RunId, Status};
use outlast_engine::sweep::{Swept, sweep, sweep_and_carry};
use outlast_engine::{Agent, BadInput, BodyError, Ctx, EngineError, Returned, StepCall, StepError};
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable, Request, gate};
use outlast_tests::rig::{Deliver, Rig, RigOptions, invocation, quick_plan};
use serde_json::json;

const CAP: Duration = Duration::from_secs(40);
const MINUTE: Duration = Duration::from_secs(60);

fn options() -> (RigOptions, Arc<MemoryTable>) {
    let (mut options, table) = RigOptions::in_memory();
    (options.timing, options.dispatches) = (Timing::LAMBDA, false);
    (options, table)
}

fn sleeps(count: usize, ms: u64) -> serde_json::Value {
    let step = |n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": ms } });
    json!({ "steps": (0..count).map(step).collect::<Vec<_>>() })
}

async fn swept(rig: &Rig) -> Result<Swept, EngineError> {
    let chunk = || invocation(&rig.engine, HostKind::Foreground, CAP);
    sweep_and_carry(&rig.engine, chunk).await
}

/// Of a run that nobody has begun, a minute ago.
async fn abandoned(rig: &Rig, plan: &serde_json::Value) -> RunId {
    let run = rig.start(plan).await;
    tokio::time::advance(MINUTE).await;
    run
}

#[tokio::test(start_paused = true)]
async fn e18_a_schedule_that_does_not_wait_for_its_answer_makes_no_crash() {
    let rig = Rig::new(options().0);
    let run = abandoned(&rig, &sleeps(3, 5_000)).await;
    let hurried = tokio::time::timeout(Duration::from_secs(7), swept(&rig)).await;
    assert!(hurried.is_err(), "the caller went away first");
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.run.counters.crashes), (Status::Completed, 0));
    assert_eq!(ended.run.counters.chunks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_pass_takes_nothing_from_the_chunk_behind_it() {
    let (options, table) = options();
    let rig = Rig::new(options);
    let run = abandoned(&rig, &sleeps(1, 38_000)).await;
    // The last part of the index answers after half a minute.
    let (gate, turnstile) = gate();
    let index = |request: &Request| request.queried.as_ref().is_some_and(|(_, index, _)| index.is_some());
    table.fault(Fault::new(Effect::HoldReply(turnstile), index).after(15));
    let opens = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(gate);
    };
    let (pass, ()) = tokio::join!(swept(&rig), opens);
    assert_eq!(pass.unwrap().carried, 1);
    let row = rig.row(&run).await;
    assert_eq!((row.status, row.totals.committed), (Status::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_index_that_does_not_answer_starves_nobody_of_another_part() {
    let (options, table) = options();
    let rig = Rig::new(options);
    // Enough of them that most parts of the index have one.
    for _ in 0..40 {
        rig.start(&quick_plan(1)).await;
    }
    tokio::time::advance(MINUTE).await;
    table.fault(Fault::new(Effect::Reject, |request| request.kind == Kind::Query));
    table.forget_requests();
    let told = swept(&rig).await;
    assert!(told.is_err(), "what could not be read is told all the same");
    let claimed = table.requests().iter().any(|request| request.is_write());
    assert!(claimed, "somebody was carried");
}

#[tokio::test(start_paused = true)]
async fn g8_background_runs_of_a_deployment_that_dispatches_no_more_are_not_given_up() {
    let (mut before, table) = RigOptions::in_memory();
    (before.timing, before.deliver) = (Timing::LAMBDA, Deliver::Hold);
    let clock = before.clock.clone();
    let before = Rig::new(before);
    let run = before.start(&sleeps(2, 30_000)).await;
    let mut after = RigOptions::new(table);
    (after.timing, after.dispatches, after.clock, after.seed) = (Timing::LAMBDA, false, clock, 2);
    let after = Rig::new(after);

    // The schedule has others to carry for longer than a run may go without a start.
    for _ in 0..=NEVER_STARTED_AFTER.as_secs() / 60 {
        tokio::time::advance(MINUTE).await;
        sweep(&after.engine).await.unwrap();
    }
    assert_eq!(after.row(&run).await.status, Status::Queued);
    assert_eq!(swept(&after).await.unwrap().carried, 1);
    // Its hand-off had nobody to go to, and the row says so.
    let row = after.row(&run).await;
    assert_eq!((row.status, row.totals.committed), (Status::Queued, 1));
    assert_eq!(row.dispatch.stage, DispatchStage::Refused);
    tokio::time::advance(MINUTE).await;
    assert_eq!(swept(&after).await.unwrap().carried, 1);
    assert_eq!(after.row(&run).await.status, Status::Completed);
}

/// Asks for a step that has no room in this chunk, and goes on without it as soon as another is done.
struct Hurried;

#[async_trait]
impl Agent for Hurried {
    fn name(&self) -> AgentName {
        AgentName::new("hurried")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        let nap = async |key: &str, policy: StepPolicy| {
            let body = |_: StepCall| async {
                ctx.pause(Duration::from_secs(5)).await;
                Ok::<(), BodyError>(())
            };
            ctx.step(key, &(), policy, body).await.map_err(StepError::into_info)
        };
        tokio::select! {
            done = nap("long", StepPolicy::at_most_once(Duration::from_secs(100))) => done?,
            done = nap("short", StepPolicy::IDEMPOTENT) => done?,
        }
        nap("next", StepPolicy::IDEMPOTENT).await?;
        nap("last", StepPolicy::IDEMPOTENT).await?;
        Ok(Returned {
            value: Payload::null(),
            verification: None,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn r27_a_step_that_was_turned_away_and_dropped_ends_no_chunk() {
    let (mut options, _) = options();
    options.app = App::new("hurried").agent(Hurried);
    let rig = Rig::new(options);
    let mut request = rig.request(&json!({}));
    request.agent = AgentName::new("hurried");
    let run = rig.try_start(request).await.unwrap().run.id;
    tokio::time::advance(MINUTE).await;
    assert_eq!(swept(&rig).await.unwrap().carried, 1);
    let row = rig.row(&run).await;
    assert_eq!((row.status, row.totals.committed), (Status::Completed, 3));
}
