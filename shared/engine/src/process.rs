//! What a dispatched invocation does: check the delivery, claim, work. A duplicate loses the claim and leaves no trace.

use std::sync::Arc;

use outlast_core::dispatch_token::DispatchBody;
use outlast_core::run::DispatchStage;

use crate::carry::{Invocation, carry};
use crate::dispatch::{DeliveryError, check_delivery, note_delivery_failure};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::work::Worked;

/// A delivery as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub body: &'a [u8],
    pub token: Option<&'a str>,
}

/// What became of a delivery.
#[derive(Debug)]
pub enum Processed {
    Worked(Worked),
    /// The run was not to be had: a duplicate, a late delivery, a stop in between. Nothing was changed.
    NotClaimed(EngineError),
}

/// Why a delivery was turned away or ended in an error.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Carries one chunk; returns when it has closed, so that nothing is left to run behind the reply.
///
/// An error of the store leaves the run to its lease: the sweep finds it lapsed, or never claimed, and sends it on.
pub async fn process(
    engine: &Arc<Engine>,
    delivery: Delivery<'_>,
    invocation: Invocation,
) -> Result<Processed, ProcessError> {
    let dispatch = check_delivery(engine, delivery, invocation.host).await?;
    let carried = carry(engine, &dispatch.run_id, Some(dispatch.expected_epoch), invocation).await;
    Ok(processed(engine, &dispatch, carried).await?)
}

/// What a chunk's end means for the delivery that began it.
pub async fn processed(
    engine: &Engine,
    dispatch: &DispatchBody,
    carried: Result<Worked, EngineError>,
) -> Result<Processed, EngineError> {
    match carried {
        Ok(worked) => Ok(Processed::Worked(worked)),
        Err(error @ (EngineError::Refused(_) | EngineError::NotFound)) => {
            tracing::info!(run = %dispatch.run_id, %error, "a delivery found nothing to claim");
            Ok(Processed::NotClaimed(error))
        }
        Err(error) => {
            // If it was claimed before it failed, its epoch has moved on and the note finds nothing to be written to.
            let (stage, said) = (DispatchStage::SetUp, error.to_string());
            note_delivery_failure(engine, &dispatch.run_id, dispatch.expected_epoch, stage, said).await;
            Err(error)
        }
    }
}
