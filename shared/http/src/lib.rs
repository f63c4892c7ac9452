//! Outlast over HTTP: one router for every host.
//!
//! - [`routes`]: what each route does; [`start`](routes::start) is the way in
//! - [`sse`]: a run's log as a stream of server-sent events; [`cursor`] is a reader's place in it
//! - [`view`]: runs as JSON
//! - [`problem`]: errors, each with a stable code and a page in the docs
//! - [`identity`]: who is calling; [`access`]: what each route asks of its caller
//!
//! Time comes from the engine's clock, and nothing here outlives its request.

pub mod access;
pub mod cursor;
pub mod identity;
pub mod problem;
pub mod routes;
pub mod sse;
pub mod view;

pub mod base_path;
mod extract;
mod negotiate;
mod observe;
mod plan_lines;

use std::sync::Arc;
use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state, map_request_with_state};
use outlast_core::Timestamp;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::time_budget::HostKind;
use outlast_engine::Engine;

pub use access::Needs;
pub use identity::Identity;
pub use problem::{Code, Problem};

/// What the router serves, and as which host.
#[derive(Clone)]
pub struct Api {
    pub engine: Arc<Engine>,
    pub identity: Arc<dyn Identity>,
    /// Sign tokens that read one run. Without them there are none.
    pub read_tokens: Option<DispatchKeys>,
    pub host: HostKind,
    /// This host's soft cap, at most its ceiling.
    pub soft_cap: Duration,
    /// `""`, or `/something` that every route begins with.
    pub base_path: String,
    /// How long one stream of a reader lasts before it is asked to reconnect.
    pub stream_for: Duration,
    /// Where the internal routes may be reached from.
    pub internal: InternalAccess,
}

/// Who may call `/_process-run` and `/_sweep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalAccess {
    /// Only requests that the host marked as its own ([`Invocation::internal`]); anyone else's are 404.
    MarkedOnly,
    /// Also whoever brings a token that is good for what it calls; anyone else's are 404.
    Signed,
}

/// What the host knows of one request; put into its extensions by the host, never taken from the request itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation {
    /// What the platform says of its own wall.
    pub deadline: Option<Timestamp>,
    /// It came by the host's own dispatch or schedule.
    pub internal: bool,
}

/// The one handler.
pub fn router(api: Api) -> axum::Router {
    let base_path = base_path::normalised(&api.base_path);
    let internal = api.internal;
    let api = Arc::new(Api {
        base_path: base_path.clone(),
        ..api
    });
    let routes = routes::all(api).layer(from_fn(observe::observe));
    // What comes before routing can only be done in front of a router: this one has no routes of its own.
    axum::Router::new()
        .fallback_service(routes)
        .layer(from_fn_with_state(internal, routes::internal::guard))
        .layer(map_request_with_state(Arc::<str>::from(base_path), base_path::strip))
}
