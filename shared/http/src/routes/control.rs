//! `POST /api/v1/runs/{id}/stop`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use outlast_engine::control;
use serde::Deserialize;

use super::start::bad_body;
use crate::Api;
use crate::extract::{Body, Caller, Parameters, RunPath};
use crate::negotiate::{Sent, sent};
use crate::problem::{Code, Problem};
use crate::view::RunJson;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopParameters {
    /// Doesn't wait for the run's holder.
    force: Option<bool>,
}

/// 200 if the run has ended, 202 if its holder has been told to end it.
pub(crate) async fn stop(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
    Parameters(query): Parameters<StopParameters>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = optional(&body, &headers)?;
    let force = query.force.or(body.force).unwrap_or(false);
    let run = control::stop(&api.engine, &owner, &id, force).await?;
    let status = match run.status.is_terminal() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    Ok((status, Json(RunJson::of(run))).into_response())
}

fn optional(body: &Body, headers: &HeaderMap) -> Result<StopParameters, Problem> {
    let text = body.text()?;
    if text.trim().is_empty() {
        return Ok(StopParameters::default());
    }
    match sent(headers)? {
        Sent::Json => serde_json::from_str(text).map_err(bad_body),
        Sent::JsonLines => Err(Problem::new(Code::UnsupportedMediaType, "this route takes JSON")),
    }
}
