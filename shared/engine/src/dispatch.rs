//! Dispatch: ids and a token, never content, to where the work will happen. Accepted is not started: only a claim is.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::dispatch_token::{DispatchBody, TokenError};
use outlast_core::run::DispatchStage;
use outlast_core::time_budget::HostKind;
use outlast_core::{Command, Run, RunId};
use thiserror::Error;

use crate::control::change_run;
use crate::engine::Engine;

/// The header that carries the token.
pub const TOKEN_HEADER: &str = "x-outlast-dispatch-token";

/// Where dispatches go.
#[async_trait]
pub trait Dispatcher: Send + Sync {
    /// Hands over one dispatch; returns when it is accepted.
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError>;
}

/// What a dispatch consists of. Its size does not depend on the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDispatch {
    /// JSON: [`DispatchBody`].
    pub body: String,
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DispatchError(pub String);

/// Dispatches a run that can be claimed. A failure is written to its row and left to the sweep.
pub async fn dispatch(engine: &Engine, run: &Run) {
    let body = DispatchBody {
        run_id: run.id.clone(),
        expected_epoch: run.epoch,
        host: HostKind::Background,
    };
    let signed = sign(engine, &body);
    if let Err(error) = engine.dispatcher.send(&signed).await {
        tracing::warn!(run = %run.id, epoch = run.epoch, %error, "dispatch refused");
        note_failure(
            engine,
            run.clone(),
            run.epoch,
            DispatchStage::Refused,
            error.to_string(),
        )
        .await;
    }
}

fn sign(engine: &Engine, body: &DispatchBody) -> SignedDispatch {
    let Ok(body) = serde_json::to_string(body) else {
        unreachable!("three plain fields are JSON")
    };
    let token = engine.dispatch_keys.sign(body.as_bytes(), engine.seams.now());
    SignedDispatch { body, token }
}

/// Why a delivery is not acted on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the dispatch's body is not one of ours")]
    Body,
}

/// Checks a delivery as it arrived. An expired one is noted on its run: whoever looks there learns where it died.
pub async fn check_delivery(
    engine: &Arc<Engine>,
    body: &[u8],
    token: Option<&str>,
    host: HostKind,
) -> Result<DispatchBody, DeliveryError> {
    let verified = engine
        .dispatch_keys
        .verify(token.unwrap_or_default(), body, engine.seams.now());
    if let Err(error @ (TokenError::Malformed | TokenError::BadSignature)) = verified {
        return Err(error.into());
    }
    let dispatch: DispatchBody = serde_json::from_slice(body).map_err(|_| DeliveryError::Body)?;
    if dispatch.host != host {
        return Err(DeliveryError::Body);
    }
    if let Err(error) = verified {
        note_delivery_failure(
            engine,
            &dispatch.run_id,
            dispatch.expected_epoch,
            DispatchStage::Token,
            error.to_string(),
        )
        .await;
        return Err(error.into());
    }
    Ok(dispatch)
}

/// Notes on the run's row where a delivery died. It is a note: if it can't be written, the sweep goes on all the same.
pub(crate) async fn note_delivery_failure(
    engine: &Engine,
    run: &RunId,
    epoch: u64,
    stage: DispatchStage,
    error: String,
) {
    if let Ok(Some(run)) = engine.store.load_run(run).await {
        note_failure(engine, run, epoch, stage, error).await;
    }
}

async fn note_failure(engine: &Engine, run: Run, epoch: u64, stage: DispatchStage, error: String) {
    let id = run.id.clone();
    let command = Command::DispatchFailed { epoch, stage, error };
    if let Err(error) = change_run(engine, &engine.store, run, &command).await {
        tracing::info!(run = %id, %error, "the failed dispatch could not be noted on the run");
    }
}
