//! Dispatch: ids and a token, never content, to where the work will happen. Accepted is not started: only a claim is.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::dispatch_token::{DispatchBody, DispatchKeys, Purpose, TokenError};
use outlast_core::run::DispatchStage;
use outlast_core::time_budget::HostKind;
use outlast_core::{Command, Run, RunId};
use thiserror::Error;

use crate::control::change_run;
use crate::engine::Engine;
use crate::process::Delivery;

/// The header that carries the token.
pub const TOKEN_HEADER: &str = "x-outlast-dispatch-token";

/// Where dispatches go.
#[async_trait]
pub trait Dispatcher: Send + Sync {
    /// Hands over one dispatch; returns when it is accepted.
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError>;
}

/// How a run's work leaves the request that started it.
#[derive(Clone)]
pub struct Dispatching {
    pub dispatcher: Arc<dyn Dispatcher>,
    /// Sign what is sent and check what arrives.
    pub keys: DispatchKeys,
    /// Who carries what is dispatched. The foreground, where there is no background: then it chains its own chunks.
    pub to: HostKind,
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

/// Dispatches a run that can be claimed. A failure is written to its row and left to the sweep; so is a run that was
/// accepted when there was somewhere to dispatch it to, and now there isn't.
pub async fn dispatch(engine: &Engine, run: &Run) {
    let Some(dispatching) = &engine.dispatching else {
        let error = DeliveryError::NotDispatching.to_string();
        return note_failure(engine, run.clone(), run.epoch, DispatchStage::Refused, error).await;
    };
    let body = DispatchBody {
        run_id: run.id.clone(),
        expected_epoch: run.epoch,
        host: dispatching.to,
    };
    let signed = sign(engine, &dispatching.keys, &body);
    if let Err(error) = dispatching.dispatcher.send(&signed).await {
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

fn sign(engine: &Engine, keys: &DispatchKeys, body: &DispatchBody) -> SignedDispatch {
    let Ok(body) = serde_json::to_string(body) else {
        unreachable!("three plain fields are JSON")
    };
    let token = keys.sign(Purpose::Dispatch, body.as_bytes(), engine.seams.now());
    SignedDispatch { body, token }
}

/// Why a delivery is not acted on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the dispatch's body is not one of ours")]
    Body,
    /// A function's name or URL leads to another one.
    #[error("the dispatch is for the {} function, and this is the {} function", .to.as_str(), .here.as_str())]
    Host { to: HostKind, here: HostKind },
    #[error("this deployment dispatches nothing")]
    NotDispatching,
}

/// Checks a delivery as it arrived. One of ours that is too late, or at the wrong host, is noted on its run: whoever looks
/// there learns where it died.
pub async fn check_delivery(
    engine: &Engine,
    Delivery { body, token }: Delivery<'_>,
    host: HostKind,
) -> Result<DispatchBody, DeliveryError> {
    let keys = &engine.dispatching.as_ref().ok_or(DeliveryError::NotDispatching)?.keys;
    let token = token.unwrap_or_default();
    let verified = keys.verify(Purpose::Dispatch, token, body, engine.seams.now());
    if let Err(error @ (TokenError::Malformed | TokenError::BadSignature)) = verified {
        return Err(error.into());
    }
    let dispatch: DispatchBody = serde_json::from_slice(body).map_err(|_| DeliveryError::Body)?;
    let (stage, error) = match verified {
        Err(error) => (DispatchStage::Token, error.into()),
        Ok(()) if dispatch.host != host => {
            let to = dispatch.host;
            (DispatchStage::SetUp, DeliveryError::Host { to, here: host })
        }
        Ok(()) => return Ok(dispatch),
    };
    let said = error.to_string();
    note_delivery_failure(engine, &dispatch.run_id, dispatch.expected_epoch, stage, said).await;
    Err(error)
}

/// Checks a call of the schedule that came over plain HTTP.
pub fn check_sweep(engine: &Engine, Delivery { body, token }: Delivery<'_>) -> Result<(), DeliveryError> {
    let keys = &engine.dispatching.as_ref().ok_or(DeliveryError::NotDispatching)?.keys;
    Ok(keys.verify(Purpose::Sweep, token.unwrap_or_default(), body, engine.seams.now())?)
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
