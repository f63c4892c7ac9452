//! `POST /api/v1/runs/{id}/continue`, and what it has in common with the start of an inline run: a chunk that the client's
//! own request carries.
//!
//! The answer ends with the chunk and not before: where a process is frozen behind its answer, so would the chunk be. A
//! client that goes away stops nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::{HeaderMap, StatusCode};
use outlast_core::{Owner, Run, RunId, Status};
use outlast_engine::carry::{Invocation as ChunkInvocation, Underway, begin};
use outlast_engine::continue_inline::{Continued, continue_inline};
use outlast_engine::follow::log_end;
use outlast_engine::show::show;

use super::{events, internal};
use crate::cursor::Seen;
use crate::extract::{Caller, Parameters, RunPath, Via};
use crate::negotiate::wants_events;
use crate::problem::Problem;
use crate::view::ShownRun;
use crate::{Api, Invocation};

#[derive(serde::Deserialize)]
pub(crate) struct ContinueParameters {
    after: Option<String>,
}

/// As a stream: the events from the cursor on, until the chunk has closed. Otherwise, once it has closed: 202 with the run
/// if it goes on, 200 if it has ended.
pub(crate) async fn continue_run(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
    Via(invocation): Via,
    Parameters(parameters): Parameters<ContinueParameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let chunk = internal::chunk(&api, invocation);
    let seen = Seen::asked(parameters.after.as_deref(), &headers)?;
    in_the_log(&api, &owner, &id, seen).await?;
    let underway = match continue_inline(&api.engine, &owner, &id, chunk).await? {
        Continued::Underway(underway) => Some(underway),
        Continued::Ended(_) => None,
    };
    if wants_events(&headers) {
        return stream(&api, &owner, &id, seen, invocation, underway).await;
    }
    if let Some(underway) = underway {
        closed(underway).await;
    }
    let view = show(&api.engine, &owner, &id).await?;
    let status = match view.run.status.is_terminal() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let shown = ShownRun::of(view, api.engine.seams().now());
    Ok((status, Json(shown)).into_response())
}

/// A cursor is judged before a chunk begins: an answer that says no must have done nothing.
pub(super) async fn in_the_log(api: &Api, owner: &Owner, id: &RunId, seen: Seen) -> Result<(), Problem> {
    if seen.is_given() {
        seen.within(log_end(&api.engine, owner, id).await?.last_seq)?;
    }
    Ok(())
}

/// The first chunk of an inline run. A request that is repeated finds its run in somebody's hands, over, or left behind by
/// a request that died: then it is carried on here.
pub(super) fn begin_first(api: &Api, run: &Run, chunk: ChunkInvocation) -> Option<Underway> {
    let is_free = matches!(run.status, Status::Queued | Status::Lost);
    is_free.then(|| begin(&api.engine, run.id.clone(), None, chunk))
}

/// The run's stream, which lasts as long as the chunk.
pub(super) async fn stream(
    api: &Api,
    owner: &Owner,
    id: &RunId,
    seen: Seen,
    invocation: Invocation,
    underway: Option<Underway>,
) -> Result<Response, Problem> {
    let chunk = underway.map(|underway| closed(underway).boxed().shared());
    let opened = events::open(api, owner, id, seen, invocation, chunk.clone()).await;
    if opened.is_err()
        && let Some(chunk) = chunk
    {
        chunk.await;
    }
    opened
}

/// How it closed is in the log, and on the row.
pub(super) async fn closed(underway: Underway) {
    let _ = underway.ended().await;
}
