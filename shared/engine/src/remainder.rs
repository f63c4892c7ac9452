//! What remains of a run: of an ended one for good, of a live one by now.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_core::outcome::ErrorInfo;
use outlast_core::step::{Step, StepState};
use outlast_core::{Fold, Owner, Run, RunId, StepKey};
use serde::Serialize;

use crate::control::{owned_run, read_on};
use crate::engine::Engine;
use crate::error::EngineError;

/// A step that is not done, or whose effect was not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remaining {
    pub key: StepKey,
    pub state: RemainingState,
    /// Of the last attempt; zero if there was none.
    pub attempt: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemainingState {
    NotStarted,
    /// Its body began, has no result, and may be run again.
    Interrupted,
    /// An attempt failed, and another is to follow.
    Retrying,
    Failed,
    /// Its body began and may not be run again: nobody can tell what it did.
    Unknown,
    /// It was committed, and the verification did not find its effect.
    NotVerified,
}

/// Everything that remains, in the plan's order; behind it, what only the verification names (of that the log keeps the first
/// hundred).
#[derive(Clone, Debug)]
pub struct Remainder {
    pub run: Run,
    pub(crate) fold: Fold,
    pub steps: Vec<Remaining>,
}

/// Reads the whole log.
pub async fn remainder(engine: &Arc<Engine>, owner: &Owner, id: &RunId) -> Result<Remainder, EngineError> {
    let run = owned_run(engine, owner, id).await?;
    let mut fold = Fold::default();
    read_on(&engine.store, id, &mut fold).await?;
    let mut steps: Vec<Remaining> = fold.remaining().map(|(key, step)| of_step(key, step)).collect();
    let known: BTreeSet<StepKey> = steps.iter().map(|step| step.key.clone()).collect();
    let missing = missing(engine, &run).await?;
    let missing = missing.into_iter().filter(|key| !known.contains(key));
    steps.extend(missing.map(|key| Remaining {
        attempt: fold.steps.get(&key).map_or(0, |step| step.attempt),
        key,
        state: RemainingState::NotVerified,
        error: None,
    }));
    Ok(Remainder { run, fold, steps })
}

/// What an ended run's verification did not find.
async fn missing(engine: &Engine, run: &Run) -> Result<Vec<StepKey>, EngineError> {
    if !run.status.is_terminal() {
        return Ok(Vec::new());
    }
    let tail = engine.store.tail_page(&run.id).await?;
    let last = tail.as_ref().and_then(|page| page.events.last());
    let verification = last.and_then(|event| event.body.outcome()?.verification.as_ref());
    Ok(verification.map(|seen| seen.missing.clone()).unwrap_or_default())
}

fn of_step(key: &StepKey, step: &Step) -> Remaining {
    let (state, error) = match &step.state {
        StepState::Planned => (RemainingState::NotStarted, None),
        StepState::Started { .. } if step.idempotent => (RemainingState::Interrupted, None),
        StepState::Started { .. } | StepState::Unknown => (RemainingState::Unknown, None),
        StepState::Retrying { error, .. } => (RemainingState::Retrying, Some(error.clone())),
        StepState::Failed { error } => (RemainingState::Failed, Some(error.clone())),
        // Of these only a verification that names them remains.
        StepState::Committed { .. } | StepState::Released => (RemainingState::NotVerified, None),
    };
    Remaining {
        key: key.clone(),
        state,
        attempt: step.attempt,
        error,
    }
}
