//! The routes. In the order in which a client meets them: [`start`], [`show`], [`events`], [`control`]; then those that only
//! a host calls, [`internal`].

pub mod control;
pub mod events;
pub mod internal;
pub mod show;
pub mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use outlast_core::RunId;
use outlast_core::limits::MAX_BODY_BYTES;
use serde::Serialize;

use crate::Api;
use crate::problem::{Code, Problem};

pub(crate) fn all(api: Arc<Api>) -> Router {
    Router::new()
        .route("/api/v1/runs", post(start::start).get(show::list))
        .route("/api/v1/runs/active", get(show::active))
        .route("/api/v1/runs/{id}", get(show::show))
        .route("/api/v1/runs/{id}/events", get(events::events))
        .route("/api/v1/runs/{id}/stop", post(control::stop))
        .route("/_process-run", post(internal::process_run))
        .route("/_sweep", post(internal::sweep))
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
}

impl Links {
    pub(crate) fn of(api: &Api, id: &RunId) -> Self {
        let run = format!("{}/api/v1/runs/{id}", api.base_path);
        Self {
            events: format!("{run}/events"),
            stop: format!("{run}/stop"),
            run,
        }
    }
}
