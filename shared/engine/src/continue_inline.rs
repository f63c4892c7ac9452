//! Continuing an inline run: its client asks for the next chunk, which the client's own request carries.

use std::sync::Arc;

use outlast_core::{Executor, Owner, Run, RunId};
use thiserror::Error;

use crate::carry::{Invocation, Underway, begin};
use crate::control::owned_run;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::sweep::look_at;

/// What there is to follow.
#[derive(Debug)]
pub enum Continued {
    /// A chunk, claimed.
    Underway(Underway),
    /// Nothing more: the run has ended.
    Ended(Box<Run>),
}

/// Why there is nothing to continue.
#[derive(Debug, Error)]
pub enum NotContinued {
    #[error("the run isn't carried in its client's requests: it goes on by itself")]
    NotInline,
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Claims an inline run and begins its next chunk.
///
/// Refused with `held` while another request carries it, with `not_ready` while it waits.
pub async fn continue_inline(
    engine: &Arc<Engine>,
    owner: &Owner,
    id: &RunId,
    invocation: Invocation,
) -> Result<Continued, NotContinued> {
    let run = owned_run(engine, owner, id).await?;
    if run.executor != Executor::Inline {
        return Err(NotContinued::NotInline);
    }
    // A wait may be over, or a holder gone, without the sweep having come by.
    let run = look_at(engine, id).await?.ok_or(EngineError::NotFound)?;
    if run.status.is_terminal() {
        return Ok(Continued::Ended(Box::new(run)));
    }
    let mut underway = begin(engine, id.clone(), None, invocation);
    match underway.claimed().await {
        Ok(()) => Ok(Continued::Underway(underway)),
        // A limit ended it, or a stop, and this claim was what found out.
        Err(EngineError::Refused(outlast_core::Refusal::Ended)) => {
            let run = owned_run(engine, owner, id).await?;
            Ok(Continued::Ended(Box::new(run)))
        }
        Err(error) => Err(error.into()),
    }
}
