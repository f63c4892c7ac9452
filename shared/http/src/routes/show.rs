//! `GET /api/v1/runs`, `/runs/active`, `/runs/{id}`: what runs look like.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlast_core::ThreadKey;
use outlast_core::key::key_part;
use outlast_engine::EngineError;
use outlast_engine::show;
use outlast_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::extract::{Caller, Parameters, RunPath};
use crate::problem::{Code, Problem};
use crate::view::{RunJson, ShownRun, rfc3339};
use crate::{Api, observe};

const USUAL_LIMIT: usize = 20;
const LARGEST_LIMIT: usize = 100;

pub(crate) async fn show(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
) -> Result<Json<ShownRun>, Problem> {
    let view = show::show(&api.engine, &owner, &id).await?;
    Ok(Json(ShownRun::of(view, api.engine.seams().now())))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActiveParameters {
    thread_id: String,
}

/// The thread's live run.
pub(crate) async fn active(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    Parameters(parameters): Parameters<ActiveParameters>,
) -> Result<Json<ShownRun>, Problem> {
    key_part(&parameters.thread_id).map_err(|problem| {
        Problem::new(Code::BadKey, format!("`threadId` can't be used: {problem}")).with("field", "threadId")
    })?;
    let none = || Problem::new(Code::RunNotFound, "this thread has no live run");
    let thread = ThreadKey::new(parameters.thread_id);
    let run = show::active(&api.engine, &owner, &thread).await?.ok_or_else(none)?;
    observe::is_about(&run.id);
    let view = show::show(&api.engine, &owner, &run.id).await?;
    if view.run.status.is_terminal() {
        return Err(none());
    }
    Ok(Json(ShownRun::of(view, api.engine.seams().now())))
}

#[derive(Deserialize)]
pub(crate) struct ListParameters {
    limit: Option<String>,
    after: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunsJson {
    runs: Vec<RunJson>,
    /// For `after`; null when there are no more.
    next: Option<String>,
    server_now: String,
}

/// The caller's runs, newest first.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    Parameters(parameters): Parameters<ListParameters>,
) -> Result<Json<RunsJson>, Problem> {
    let limit = limit(parameters.limit.as_deref(), USUAL_LIMIT, LARGEST_LIMIT)?;
    let after = parameters.after.as_deref();
    let list = match show::list(&api.engine, &owner, limit, after).await {
        Ok(list) => list,
        // The store refuses the cursor, or everything.
        Err(EngineError::Store(StoreError::Rejected(_))) if after.is_some() => {
            show::list(&api.engine, &owner, 1, None).await?;
            return Err(Problem::new(
                Code::BadCursor,
                "`after` has to be the `next` of the page of the list before",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(RunsJson {
        runs: list.runs.into_iter().map(RunJson::of).collect(),
        next: list.next,
        server_now: rfc3339(api.engine.seams().now()),
    }))
}

pub(super) fn limit(text: Option<&str>, usual: usize, largest: usize) -> Result<usize, Problem> {
    let Some(text) = text else { return Ok(usual) };
    text.parse()
        .ok()
        .filter(|limit| (1..=largest).contains(limit))
        .ok_or_else(|| {
            let detail = format!("`limit` has to be a whole number from 1 to {largest}");
            Problem::new(Code::BadRequest, detail)
        })
}
