//! `POST /api/v1/runs/{id}/stop`, `/pause`, `/resume`, and `POST /api/v1/turns/{turnId}/stop`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use outlast_core::key::key_part;
use outlast_core::{Run, Status, TurnKey};
use outlast_engine::control;
use serde::{Deserialize, Serialize};

use super::start::optional;
use crate::Api;
use crate::extract::{Body, Caller, Parameters, RunPath};
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
    let body: StopParameters = optional(&body, &headers)?;
    let force = query.force.or(body.force).unwrap_or(false);
    Ok(told(control::stop(&api.engine, &owner, &id, force).await?))
}

/// Accepted, where somebody else has to act on it.
fn told(run: Run) -> Response {
    let status = match run.status {
        Status::Running => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    (status, Json(RunJson::of(run))).into_response()
}

/// 202 if a holder is at work: it hands the run off at its next step.
pub(crate) async fn pause(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
) -> Result<Response, Problem> {
    Ok(told(control::pause(&api.engine, &owner, &id).await?))
}

pub(crate) async fn resume(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
) -> Result<Response, Problem> {
    let run = control::resume(&api.engine, &owner, &id).await?;
    Ok(Json(RunJson::of(run)).into_response())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnStopped {
    turn_id: String,
    /// Null if no request has come under this key: the first one that does is born cancelled.
    run: Option<RunJson>,
}

/// Stops what a request became or, for a day, what it becomes.
pub(crate) async fn stop_turn(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    turn_id: Result<Path<String>, PathRejection>,
    Parameters(query): Parameters<StopParameters>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bad = |problem: String| {
        let detail = format!("`turnId` can't be used: {problem}");
        Problem::new(Code::BadKey, detail).with("field", "turnId")
    };
    let Path(turn_id) = turn_id.map_err(|rejection| bad(rejection.body_text()))?;
    key_part(&turn_id).map_err(|problem| bad(problem.to_string()))?;
    let body: StopParameters = optional(&body, &headers)?;
    let force = query.force.or(body.force).unwrap_or(false);
    let turn = TurnKey::new(turn_id.clone());
    let run = control::stop_turn(&api.engine, &owner, &turn, force).await?;
    let status = match &run {
        Some(run) if run.status == Status::Running => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    let run = run.map(RunJson::of);
    Ok((status, Json(TurnStopped { turn_id, run })).into_response())
}
