//! What a dispatched invocation does: check the delivery, claim, work. A duplicate loses the claim and leaves no trace.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::run::DispatchStage;
use outlast_core::time_budget::{ChunkTime, HostKind};

use crate::claim::claim;
use crate::dispatch::{DeliveryError, check_delivery, note_delivery_failure};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::work::{Worked, work};

/// A delivery as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub body: &'a [u8],
    pub token: Option<&'a str>,
}

/// The invocation that took it.
#[derive(Clone, Copy, Debug)]
pub struct Invocation {
    pub host: HostKind,
    pub time: ChunkTime,
    /// The longest that a body may take in any chunk of this host: soft cap and grace.
    pub longest_body: Duration,
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
    let dispatch = check_delivery(engine, delivery.body, delivery.token, invocation.host).await?;
    let store = engine.store.metered();
    let claimed = claim(
        engine,
        &store,
        &dispatch.run_id,
        Some(dispatch.expected_epoch),
        invocation.host,
    )
    .await;
    let claimed = match claimed {
        Ok(claimed) => claimed,
        Err(error @ (EngineError::Refused(_) | EngineError::NotFound)) => {
            tracing::info!(run = %dispatch.run_id, %error, "a delivery found nothing to claim");
            return Ok(Processed::NotClaimed(error));
        }
        Err(error) => {
            let stage = DispatchStage::SetUp;
            note_delivery_failure(
                engine,
                &dispatch.run_id,
                dispatch.expected_epoch,
                stage,
                error.to_string(),
            )
            .await;
            return Err(error.into());
        }
    };
    if invocation.time.implausible_deadline {
        tracing::warn!(run = %dispatch.run_id, "the invocation's deadline is implausible; the soft cap alone counts");
    }
    let worked = work(engine, store, claimed, invocation.time, invocation.longest_body).await?;
    Ok(Processed::Worked(worked))
}
