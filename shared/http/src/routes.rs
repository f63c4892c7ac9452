//! The routes. In the order in which a client meets them: [`start`], [`inline`], [`show`], [`events`], [`read_token`],
//! [`answers`], [`control`], [`remainder`]; then those that only a deployment calls, [`internal`].

pub mod answers;
pub mod control;
pub mod events;
pub mod inline;
pub mod internal;
pub mod read_token;
pub mod remainder;
pub mod show;
pub mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use outlast_core::limits::MAX_BODY_BYTES;
use outlast_core::{Executor, Run, Scope, paths};
use serde::Serialize;

use crate::Api;
use crate::access::{Needs, admit};
use crate::problem::{Code, Problem};

/// All of them, with what each asks of its caller. There is no other way in.
fn table() -> Vec<Route> {
    let [run, read, control] = [Scope::Run, Scope::Read, Scope::Control].map(Needs::Scope);
    vec![
        Route::post("/api/v1/runs", run, start::start),
        Route::get("/api/v1/runs", read, show::list),
        Route::get("/api/v1/runs/active", read, show::active),
        Route::get("/api/v1/runs/{id}", Needs::ReadOrToken, show::show),
        Route::get("/api/v1/runs/{id}/events", Needs::ReadOrToken, events::events),
        Route::post("/api/v1/runs/{id}/read-token", read, read_token::read_token),
        Route::post("/api/v1/runs/{id}/continue", run, inline::continue_run),
        Route::post("/api/v1/runs/{id}/answers/{*key}", control, answers::answer_question),
        Route::get("/api/v1/runs/{id}/remainder", read, remainder::show_remainder),
        Route::post("/api/v1/runs/{id}/stop", control, control::stop),
        Route::post("/api/v1/runs/{id}/pause", control, control::pause),
        Route::post("/api/v1/runs/{id}/resume", control, control::resume),
        Route::post("/api/v1/runs/{id}/retry", control, remainder::retry_run),
        Route::post("/api/v1/turns/{turn_id}/stop", control, control::stop_turn),
        Route::post(paths::PROCESS_RUN, Needs::Nothing, internal::process_run),
        Route::post(paths::SWEEP, Needs::Nothing, internal::sweep),
    ]
}

struct Route {
    method: Method,
    path: &'static str,
    needs: Needs,
    handler: MethodRouter<Arc<Api>>,
}

impl Route {
    fn get<T: 'static>(path: &'static str, needs: Needs, handler: impl Handler<T, Arc<Api>>) -> Self {
        Self {
            method: Method::GET,
            path,
            needs,
            handler: on(MethodFilter::GET, handler),
        }
    }

    fn post<T: 'static>(path: &'static str, needs: Needs, handler: impl Handler<T, Arc<Api>>) -> Self {
        Self {
            method: Method::POST,
            path,
            needs,
            handler: on(MethodFilter::POST, handler),
        }
    }
}

/// The table, to read.
pub fn listed() -> Vec<(Method, &'static str, Needs)> {
    let listed = table().into_iter().map(|route| (route.method, route.path, route.needs));
    listed.collect()
}

pub(crate) fn all(api: Arc<Api>) -> Router {
    let router = table()
        .into_iter()
        .fold(Router::new(), |router: Router<Arc<Api>>, route| {
            let admit = from_fn_with_state((api.clone(), route.needs), admit);
            router.route(route.path, route.handler.route_layer(admit))
        });
    router
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
