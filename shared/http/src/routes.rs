//! The routes. In the order in which a client meets them: [`start`], [`inline`], [`show`], [`events`], [`control`], [`remainder`]; then those
//! that only a deployment calls, [`internal`].

pub mod control;
pub mod events;
pub mod inline;
pub mod internal;
pub mod remainder;
pub mod show;
pub mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use outlast_core::limits::MAX_BODY_BYTES;
use outlast_core::{Executor, Run, paths};
use serde::Serialize;

use crate::Api;
use crate::problem::{Code, Problem};

pub(crate) fn all(api: Arc<Api>) -> Router {
    Router::new()
        .route("/api/v1/runs", post(start::start).get(show::list))
        .route("/api/v1/runs/active", get(show::active))
        .route("/api/v1/runs/{id}", get(show::show))
        .route("/api/v1/runs/{id}/events", get(events::events))
        .route("/api/v1/runs/{id}/continue", post(inline::continue_run))
        .route("/api/v1/runs/{id}/remainder", get(remainder::show_remainder))
        .route("/api/v1/runs/{id}/stop", post(control::stop))
        .route("/api/v1/runs/{id}/pause", post(control::pause))
        .route("/api/v1/runs/{id}/resume", post(control::resume))
        .route("/api/v1/runs/{id}/retry", post(remainder::retry_run))
        .route("/api/v1/turns/{turn_id}/stop", post(control::stop_turn))
        .route(paths::PROCESS_RUN, post(internal::process_run))
        .route(paths::SWEEP, post(internal::sweep))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(route_not_found)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(api)
}

async fn route_not_found() -> Problem {
    Problem::of(Code::RouteNotFound)
}

async fn method_not_allowed() -> Problem {
    Problem::of(Code::MethodNotAllowed)
}

/// Where to go from a run. Paths of this server: whatever stands in front of it knows its own name.
#[derive(Debug, Serialize)]
pub(crate) struct Links {
    #[serde(rename = "self")]
    pub run: String,
    pub events: String,
    pub stop: String,
    /// Of an inline run: where its next chunk is asked for.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_run: Option<String>,
}

impl Links {
    pub(crate) fn of(api: &Api, run: &Run) -> Self {
        let path = format!("{}/api/v1/runs/{}", api.base_path, run.id);
        let is_inline = run.executor == Executor::Inline;
        Self {
            events: format!("{path}/events"),
            stop: format!("{path}/stop"),
            continue_run: is_inline.then(|| format!("{path}/continue")),
            run: path,
        }
    }
}
