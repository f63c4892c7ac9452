//! Retrying: what remains of an ended run becomes a new run, linked to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_core::run::Retry;
use outlast_core::{Owner, Payload, RunId, StepKey};
use thiserror::Error;

use crate::accept::{AcceptedRun, NotAccepted, RunRequest, accept};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::remainder::{Remainder, RemainingState, remainder};

/// Which run, and how much of it.
#[derive(Clone, Debug)]
pub struct RetryRequest {
    pub owner: Owner,
    pub run: RunId,
    /// Also steps of which nobody can tell what they did. They may then have acted twice.
    pub include_unknown: bool,
    /// The idempotency key.
    pub turn: Option<String>,
}

/// Nothing was stored.
#[derive(Debug, Error)]
pub enum NotRetried {
    #[error("the run has not ended: there is nothing to retry before it has")]
    Live,
    #[error("nothing remains of this run that could be run again")]
    NothingRemains { unknown: u64 },
    #[error("the agent `{0}` doesn't say how a part of its work is done anew")]
    NotRetryable(String),
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Accepts the new run: the same agent and, if it had one of its own name, the same thread. Bodies get the idempotency keys that
/// they had in the first run of the chain.
pub async fn retry(engine: &Arc<Engine>, request: RetryRequest) -> Result<AcceptedRun, NotRetried> {
    let remainder = remainder(engine, &request.owner, &request.run).await?;
    let run = &remainder.run;
    if !run.status.is_terminal() {
        return Err(NotRetried::Live);
    }
    let (keys, unknown) = to_run_again(&remainder, request.include_unknown);
    if keys.is_empty() {
        return Err(NotRetried::NothingRemains { unknown });
    }
    let agent = engine.agents.get(&run.agent);
    let agent = agent.ok_or_else(|| NotAccepted::UnknownAgent(run.agent.to_string()))?;
    let input = remainder.fold.input.clone().unwrap_or_else(Payload::null);
    let input = agent.input_of_remainder(&input, &keys);
    let input = input.ok_or_else(|| NotRetried::NotRetryable(run.agent.to_string()))?;
    let is_own_thread = run.thread.as_str() == run.id.as_str();
    let retried = RunRequest {
        owner: request.owner.clone(),
        agent: run.agent.clone(),
        input,
        thread: (!is_own_thread).then(|| run.thread.to_string()),
        turn: request.turn.clone(),
        ends_at: None,
        retry: Some(Retry {
            of: run.id.clone(),
            first: run.first_of_chain().clone(),
        }),
    };
    Ok(accept(engine, retried).await?)
}

/// The keys, and how many unknown ones were left out.
fn to_run_again(remainder: &Remainder, include_unknown: bool) -> (BTreeSet<StepKey>, u64) {
    let is_unknown = |state| state == RemainingState::Unknown;
    let left_out = remainder
        .steps
        .iter()
        .filter(|step| !include_unknown && is_unknown(step.state));
    let unknown = left_out.count() as u64;
    let again = remainder
        .steps
        .iter()
        .filter(|step| include_unknown || !is_unknown(step.state));
    (again.map(|step| step.key.clone()).collect(), unknown)
}
