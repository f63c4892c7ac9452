//! Outlast over HTTP: one router for every host.

pub mod identity;
pub mod problem;

use std::sync::Arc;
use std::time::Duration;

use outlast_core::Timestamp;
use outlast_core::time_budget::HostKind;
use outlast_engine::Engine;

pub use identity::Identity;

/// What the router serves, and as which host.
#[derive(Clone)]
pub struct Api {
    pub engine: Arc<Engine>,
    pub identity: Arc<dyn Identity>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalAccess {
    /// Only requests that the host marked as its own ([`Invocation::internal`]); anyone else's are 404.
    MarkedOnly,
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
    let _ = api;
    axum::Router::new()
}
