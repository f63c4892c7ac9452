//! The sweep: look at every run that is due, decide, write conditionally. Losing a write is a skip; two sweeps at once
//! are harmless.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use outlast_core::limits::RUN_WALL_CLOCK;
use outlast_core::transition::Log;
use outlast_core::{Command, Refusal, Run, RunId, Status, Then, Timestamp};
use outlast_store::StoreError;
use outlast_store::schema::DUE_SHARDS;

use crate::carry::{Invocation, begin};
use crate::control::change_run;
use crate::dispatch::dispatch;
use crate::engine::Engine;
use crate::error::EngineError;

/// A row that can't be read is looked at again after this.
const UNREADABLE_AFTER: Duration = Duration::from_secs(15 * 60);
const AT_ONCE: usize = 16;

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    pub looked_at: u64,
    pub lost: u64,
    pub dispatched: u64,
    pub ended: u64,
    /// Chunks that this invocation carried itself, because nobody else would: at most one.
    pub carried: u64,
    /// Rows that could not be read or written; they are named in the log and looked at again later.
    pub failed: u64,
    /// Whoever waits here is carried by nobody, the longest waiting first.
    #[serde(skip)]
    abandoned: Vec<(Timestamp, RunId)>,
}

/// One pass; then one chunk of a run that nobody else carries.
///
/// `invocation` is asked when the pass is done: a chunk that began with what a long pass had left over could be too short for
/// the run's next step, and three such chunks would end it for getting nowhere. The chunk has a task of its own: a caller
/// that goes away must not make it a crash.
pub async fn sweep_and_carry(engine: &Arc<Engine>, invocation: impl Fn() -> Invocation) -> Result<Swept, EngineError> {
    let (mut swept, unanswered) = pass(engine).await;
    swept.abandoned.sort_unstable();
    for (_, run) in std::mem::take(&mut swept.abandoned) {
        let invocation = invocation();
        if engine.seams.now() >= invocation.time.soft_cap_at {
            break;
        }
        match begin(engine, run.clone(), None, invocation).ended().await {
            Ok(_) => {
                swept.carried += 1;
                break;
            }
            // Its client came back, or somebody ended it.
            Err(EngineError::Refused(_) | EngineError::NotFound) => {}
            Err(error) => {
                swept.failed += 1;
                tracing::error!(%run, %error, "a run that nobody continues can't be carried");
            }
        }
    }
    unanswered.map_or(Ok(swept), |error| Err(error.into()))
}

/// One pass over all that is due. To be called each minute in a deployment; more often is harmless. Fails only if the index
/// can't be read: a run that can't be brought on is counted in [`Swept::failed`].
pub async fn sweep(engine: &Arc<Engine>) -> Result<Swept, EngineError> {
    let (swept, unanswered) = pass(engine).await;
    unanswered.map_or(Ok(swept), |error| Err(error.into()))
}

/// What it did, and why a part of the index could not be read.
async fn pass(engine: &Arc<Engine>) -> (Swept, Option<StoreError>) {
    let now = engine.seams.now();
    let mut swept = Swept::default();
    let mut unanswered = None;
    for shard in 0..DUE_SHARDS {
        let due = match engine.store.due_runs(shard, now).await {
            Ok(due) => due,
            // One shard that does not answer must not keep the others waiting.
            Err(error) => {
                swept.failed += 1;
                unanswered = Some(error);
                continue;
            }
        };
        let mut looks = futures::stream::iter(due)
            .map(|id| async move { (attend(engine, &id).await, id) })
            .buffer_unordered(AT_ONCE);
        while let Some((looked, id)) = looks.next().await {
            swept.looked_at += 1;
            match looked {
                Ok(did) => {
                    swept.lost += u64::from(did.lost);
                    swept.dispatched += u64::from(did.dispatched);
                    swept.ended += u64::from(did.ended);
                    swept.abandoned.extend(did.abandoned_since.map(|since| (since, id)));
                }
                Err(error) => {
                    swept.failed += 1;
                    tracing::error!(run = %id, %error, "the sweep can't bring this run on");
                    postpone(engine, &id, &error).await;
                }
            }
        }
    }
    (swept, unanswered)
}

/// What a person who asks for one run may rely on: the sweep's decision for it, made now. `None`: it isn't there.
pub async fn look_at(engine: &Arc<Engine>, id: &RunId) -> Result<Option<Run>, EngineError> {
    attend(engine, id).await?;
    Ok(engine.store.load_run(id).await?)
}

#[derive(Default)]
struct Did {
    lost: bool,
    dispatched: bool,
    ended: bool,
    abandoned_since: Option<Timestamp>,
}

async fn attend(engine: &Arc<Engine>, id: &RunId) -> Result<Did, EngineError> {
    // The index is a hint: the row is read, consistently, and every decision is a condition on what was read.
    let Some(run) = engine.store.load_run(id).await? else {
        return Ok(Did::default());
    };
    let is_lapsed = run.is_lapsed(engine.seams.now());
    let committed = match is_lapsed {
        true => engine
            .store
            .tail_page(id)
            .await?
            .map_or(0, |page| page.totals.committed),
        false => 0,
    };
    let command = Command::Due {
        committed,
        timing: engine.timing,
        dispatches: engine.dispatching.is_some(),
    };
    let change = match change_run(engine, &engine.store, run, &command).await {
        Ok(change) => change,
        Err(EngineError::Refused(Refusal::NotDue | Refusal::NotReady | Refusal::Ended)) => return Ok(Did::default()),
        Err(error) => return Err(error),
    };
    let dispatched = change.then == Then::Dispatch;
    if dispatched {
        dispatch(engine, &change.run).await;
    }
    let last_sign_of_life = change.run.last_sign_of_life.unwrap_or(change.run.created_at);
    Ok(Did {
        lost: matches!(change.log, Log::Lost { .. }),
        dispatched,
        ended: matches!(change.log, Log::Ended(_)),
        abandoned_since: (change.then == Then::Carry).then_some(last_sign_of_life),
    })
}

/// Moves what can't be read out of the way of the others, for a while.
async fn postpone(engine: &Engine, id: &RunId, error: &EngineError) {
    let EngineError::Store(StoreError::Corrupt(_) | StoreError::UnknownSchema(_)) = error else {
        return;
    };
    let until = engine.seams.now() + UNREADABLE_AFTER;
    if let Err(error) = engine.store.postpone_unreadable(id, until).await {
        tracing::error!(run = %id, %error, "nor can its due time be moved");
    }
}

/// Declares the leases of holders lapsed that are known to be dead, and brings their runs on. For a host that is the only
/// one on its tables.
pub async fn recover(engine: &Arc<Engine>) -> Result<Swept, EngineError> {
    let far_ahead = engine.seams.now() + RUN_WALL_CLOCK * 2;
    for shard in 0..DUE_SHARDS {
        for id in engine.store.due_runs(shard, far_ahead).await? {
            if let Err(error) = take_up(engine, &id).await {
                tracing::error!(run = %id, %error, "this run of the former process can't be taken up");
            }
        }
    }
    sweep(engine).await
}

async fn take_up(engine: &Arc<Engine>, id: &RunId) -> Result<(), EngineError> {
    let Some(run) = engine.store.load_run(id).await? else {
        return Ok(());
    };
    if run.status == Status::Running {
        match change_run(engine, &engine.store, run, &Command::DeclareLapsed).await {
            Ok(_) | Err(EngineError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        attend(engine, id).await?;
    } else if matches!(run.status, Status::Queued | Status::Lost) && !run.paused {
        dispatch(engine, &run).await;
    }
    Ok(())
}
