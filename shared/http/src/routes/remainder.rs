//! `GET /api/v1/runs/{id}/remainder` and `POST /api/v1/runs/{id}/retry`: what is left to do, and a new run that does it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use outlast_core::{RunId, Status, StepKey};
use outlast_engine::remainder::{Remaining, remainder};
use outlast_engine::retry::{NotRetried, RetryRequest, retry};
use serde::{Deserialize, Serialize};

use super::start::{Reply, one_key, optional};
use crate::Api;
use crate::extract::{Body, Caller, Parameters, RunPath, Via};
use crate::problem::{Code, Problem};

const USUAL_LIMIT: usize = 1_000;
const LARGEST_LIMIT: usize = 10_000;

#[derive(Deserialize)]
pub(crate) struct RemainderParameters {
    limit: Option<String>,
    after: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemainderJson {
    run_id: RunId,
    status: Status,
    /// In all.
    remaining: usize,
    steps: Vec<Remaining>,
    /// For `after`; null when there are no more.
    next: Option<StepKey>,
}

/// In the plan's order.
pub(crate) async fn show_remainder(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
    Parameters(parameters): Parameters<RemainderParameters>,
) -> Result<Json<RemainderJson>, Problem> {
    let limit = super::show::limit(parameters.limit.as_deref(), USUAL_LIMIT, LARGEST_LIMIT)?;
    let remainder = remainder(&api.engine, &owner, &id).await?;
    let remaining = remainder.steps.len();
    let from = match parameters.after {
        None => 0,
        Some(after) => {
            let place = remainder.steps.iter().position(|step| step.key.as_str() == after);
            let no_place = || {
                let detail =
                    "`after` has to be the `next` of the page before; if that step is done by now, begin again";
                Problem::new(Code::BadCursor, detail)
            };
            place.ok_or_else(no_place)? + 1
        }
    };
    let steps: Vec<Remaining> = remainder.steps.into_iter().skip(from).take(limit).collect();
    let is_last = from + steps.len() == remaining;
    Ok(Json(RemainderJson {
        run_id: remainder.run.id,
        status: remainder.run.status,
        remaining,
        next: steps.last().filter(|_| !is_last).map(|step| step.key.clone()),
        steps,
    }))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryBody {
    /// Also steps of which nobody can tell what they did.
    #[serde(default)]
    include_unknown: bool,
    turn_id: Option<String>,
}

/// As a start: 202 with the new run, or its stream.
pub(crate) async fn retry_run(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    Via(invocation): Via,
    RunPath(id): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let reply = Reply::to(&api, &headers, invocation)?;
    let body: RetryBody = optional(&body, &headers)?;
    let request = RetryRequest {
        owner: owner.clone(),
        run: id,
        include_unknown: body.include_unknown,
        turn: one_key(body.turn_id, &headers)?,
    };
    let accepted = retry(&api.engine, request).await?;
    reply.with(&api, &owner, accepted).await
}

impl From<NotRetried> for Problem {
    fn from(error: NotRetried) -> Self {
        let detail = error.to_string();
        match error {
            NotRetried::Live => Problem::new(Code::RunConflict, detail).with("refusal", "live"),
            NotRetried::NothingRemains { unknown } => {
                Problem::new(Code::NothingToRetry, detail).with("unknown", unknown)
            }
            NotRetried::NotRetryable(agent) => Problem::new(Code::NotRetryable, detail).with("agent", agent),
            NotRetried::NotAccepted(error) => error.into(),
            NotRetried::Engine(error) => error.into(),
        }
    }
}
