//! An agent whose code is a test's, and a schedule for its runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::App;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Event, EventBody, Payload, RunId, Status};
use outlast_engine::show::RunView;
use outlast_engine::sweep::sweep;
use outlast_engine::{Agent, BadInput, BodyError, Ctx, Returned, StepCall, StepError};
use outlast_store::memory::MemoryTable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::rig::{Rig, RigOptions};

pub type Code = Pin<Box<dyn Future<Output = Result<Value, ErrorInfo>> + Send>>;

/// What it returns is the run's value.
pub struct Scripted<F>(pub F);

#[async_trait]
impl<F: Fn(Ctx) -> Code + Send + Sync> Agent for Scripted<F> {
    fn name(&self) -> AgentName {
        AgentName::new("scripted")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        Ok(Returned {
            value: payload(&(self.0)(ctx).await?),
            verification: None,
        })
    }
}

pub fn payload(value: &(impl Serialize + ?Sized)) -> Payload {
    Payload::of(value).expect("JSON")
}

/// Options for an engine whose agent runs this code, on a table in memory.
pub fn scripted<F>(code: F) -> (RigOptions, Arc<MemoryTable>)
where
    F: Fn(Ctx) -> Code + Send + Sync + 'static,
{
    let (mut options, table) = RigOptions::in_memory();
    options.app = App::new("scripted").agent(Scripted(code));
    (options, table)
}

/// A run of the scripted agent.
pub async fn start(rig: &Rig) -> RunId {
    let mut request = rig.request(&json!({}));
    request.agent = AgentName::new("scripted");
    rig.try_start(request).await.expect("it is accepted").run.id
}

/// An idempotent step whose body takes this long.
pub async fn nap(ctx: &Ctx, key: &str, ms: u64) -> Result<u64, StepError> {
    let body = |_: StepCall| async move {
        ctx.pause(Duration::from_millis(ms)).await;
        Ok::<u64, BodyError>(ms)
    };
    ctx.step(key, &(), StepPolicy::IDEMPOTENT, body).await
}

/// Lets time pass, with a pass of the sweep after each `every`, until the run has this status; at most `most`.
pub async fn swept_until(rig: &Rig, run: &RunId, status: Status, every: Duration, most: Duration) {
    let mut passed = Duration::ZERO;
    while rig.row(run).await.status != status {
        assert!(
            passed < most,
            "not {status:?} within {most:?}: {:#?}",
            rig.log(run).await
        );
        crate::wait::after(every).await;
        passed += every;
        sweep(&rig.engine).await.expect("a pass");
    }
}

/// The same until it has ended, with a pass each minute.
pub async fn swept_to_its_end(rig: &Rig, run: &RunId, most: Duration) -> RunView {
    let mut passed = Duration::ZERO;
    while !rig.row(run).await.status.is_terminal() {
        assert!(passed < most, "not ended within {most:?}: {:#?}", rig.log(run).await);
        let minute = Duration::from_secs(60);
        crate::wait::after(minute).await;
        passed += minute;
        sweep(&rig.engine).await.expect("a pass");
    }
    rig.show(run).await
}

/// The run's value, decoded.
pub fn value_of(view: &RunView) -> Value {
    let value = view.outcome.as_ref().and_then(|outcome| outcome.value.as_ref());
    value.map_or(Value::Null, |value| value.decode().expect("JSON"))
}

/// The log, a word or two an event: its kind, and the key it is about.
pub fn story(log: &[Event]) -> Vec<String> {
    let line = |event: &Event| {
        let fields = serde_json::to_value(event).expect("an event is JSON");
        match (fields["type"].as_str(), fields["key"].as_str()) {
            (Some(kind), Some(key)) => format!("{kind} {key}"),
            (kind, _) => kind.unwrap_or_default().to_owned(),
        }
    };
    log.iter().map(line).collect()
}

/// How often the log has an event such as this.
pub fn count(log: &[Event], such: impl Fn(&EventBody) -> bool) -> usize {
    log.iter().filter(|event| such(&event.body)).count()
}
