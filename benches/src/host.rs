//! An engine in this process, put together as a deployment's is, whose dispatches the benchmark delivers itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use outlast_agent::App;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::{BACKGROUND_SOFT_CAP, Timing};
use outlast_core::time_budget::{HostKind, chunk_time};
use outlast_core::{AgentName, Owner, Payload, Run, RunId, Status};
use outlast_engine::Engine;
use outlast_engine::accept::{RunRequest, accept};
use outlast_engine::carry::Invocation;
use outlast_engine::dispatch::{DispatchError, Dispatcher, Dispatching, SignedDispatch};
use outlast_engine::process::{Delivery, Processed, process};
use outlast_engine::work::Worked;
use outlast_runtime::local_dynamodb;
use outlast_runtime::wiring::{self, Wiring};
use outlast_store::schema::TableNames;
use tokio::sync::{Mutex, mpsc};

use crate::script::Script;

/// The one owner on loopback.
pub fn owner() -> Owner {
    Owner::new("local")
}

pub struct Host {
    pub engine: Arc<Engine>,
    dispatches: Mutex<mpsc::UnboundedReceiver<SignedDispatch>>,
}

struct Outbox(mpsc::UnboundedSender<SignedDispatch>);

#[async_trait]
impl Dispatcher for Outbox {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        let sent = self.0.send(dispatch.clone());
        sent.map_err(|_| DispatchError("the benchmark has ended".into()))
    }
}

impl Host {
    pub fn new(dynamodb: &str, agents: impl IntoIterator<Item = Script>) -> anyhow::Result<Arc<Host>> {
        let app = agents.into_iter().fold(App::new("benches"), App::agent);
        let (outbox, dispatches) = mpsc::unbounded_channel();
        let names = TableNames::default();
        let secret = "nobody else can reach this process's tables";
        let engine = wiring::engine(
            app,
            Wiring {
                dynamodb: local_dynamodb::client(dynamodb),
                heartbeat_dynamodb: local_dynamodb::heartbeat_client(dynamodb, Timing::LOCAL),
                runs_table: names.runs,
                events_table: names.events,
                dispatching: Some(Dispatching {
                    dispatcher: Arc::new(Outbox(outbox)),
                    keys: DispatchKeys::new(secret.to_owned().into(), None)?,
                    to: HostKind::Background,
                }),
                timing: Timing::LOCAL,
                holder: format!("bench-{}", std::process::id()),
            },
        );
        Ok(Arc::new(Host {
            engine,
            dispatches: Mutex::new(dispatches),
        }))
    }

    /// Accepts a run of an agent; its dispatch waits to be delivered.
    pub async fn accept(&self, agent: &str) -> anyhow::Result<RunId> {
        let request = RunRequest {
            owner: owner(),
            agent: AgentName::new(agent),
            input: Payload::null(),
            thread: None,
            turn: None,
            ends_at: None,
            retry: None,
        };
        Ok(accept(&self.engine, request).await?.run.id)
    }

    /// The next dispatch, whichever run it is of.
    pub async fn dispatched(&self) -> anyhow::Result<SignedDispatch> {
        let mut dispatches = self.dispatches.lock().await;
        let dispatch = tokio::time::timeout(Duration::from_secs(10), dispatches.recv());
        dispatch
            .await
            .context("no dispatch within 10 s")?
            .context("the engine is gone")
    }

    /// Delivers a dispatch to the background in this process, on a task of its own; the run as its chunk left it.
    pub async fn deliver(self: &Arc<Self>, dispatch: SignedDispatch) -> anyhow::Result<Run> {
        let host = self.clone();
        let chunk = tokio::spawn(async move { host.process(&dispatch).await });
        // Whoever gives up on this gives up on the chunk too.
        let _abort = AbortOnDrop(chunk.abort_handle());
        chunk.await?
    }

    async fn process(&self, dispatch: &SignedDispatch) -> anyhow::Result<Run> {
        let now = self.engine.seams().now();
        let time = chunk_time(HostKind::Background, BACKGROUND_SOFT_CAP, None, now);
        let invocation = Invocation {
            host: HostKind::Background,
            time,
            longest_body: BACKGROUND_SOFT_CAP,
        };
        let delivery = Delivery {
            body: dispatch.body.as_bytes(),
            token: Some(&dispatch.token),
        };
        match process(&self.engine, delivery, invocation).await? {
            Processed::Worked(Worked::Closed(run)) => Ok(*run),
            Processed::Worked(Worked::Fenced) => bail!("the chunk was fenced"),
            Processed::NotClaimed(error) => bail!("the run was not claimed: {error}"),
        }
    }

    /// A whole run, from its acceptance to its end.
    pub async fn run(self: &Arc<Self>, agent: &str) -> anyhow::Result<Run> {
        self.accept(agent).await?;
        let run = self.deliver(self.dispatched().await?).await?;
        completed(run)
    }
}

/// A run that didn't complete measured something else than it should have.
pub fn completed(run: Run) -> anyhow::Result<Run> {
    if run.status != Status::Completed {
        bail!("run {} ended {:?}: {:?}", run.id, run.status, run.reason);
    }
    Ok(run)
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
