//! `POST /api/v1/runs/{id}/read-token`: a token for a browser's `EventSource`, which can send no header.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use outlast_core::env_vars::DISPATCH_SECRET;
use outlast_core::read_token;
use outlast_engine::control::owned_run;
use serde::Serialize;

use super::Links;
use crate::Api;
use crate::extract::{Caller, RunPath};
use crate::problem::{Code, Problem};
use crate::view::rfc3339;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadToken {
    token: String,
    expires_at: String,
    /// Where the run's events are, token included.
    events: String,
}

/// Of a run of the caller's. The body isn't looked at.
pub(crate) async fn read_token(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
) -> Result<Response, Problem> {
    let run = owned_run(&api.engine, &owner, &id).await?;
    let keys = api.read_tokens.as_ref().ok_or_else(no_secret)?;
    let (token, expires_at) = read_token::sign(keys, &owner, &id, api.engine.seams().now());
    let token = ReadToken {
        events: format!("{}?token={token}", Links::of(&api, &run).events),
        expires_at: rfc3339(expires_at),
        token,
    };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(token)).into_response())
}

fn no_secret() -> Problem {
    let detail = format!(
        "this deployment has no secret to sign a token with: whoever operates it has to set {}",
        DISPATCH_SECRET.name
    );
    Problem::new(Code::NoReadTokens, detail).with("variable", DISPATCH_SECRET.name)
}
