//! An engine and its router from settings: the one place where the parts are put together.

use std::sync::Arc;

use outlast_agent::App;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::Timing;
use outlast_engine::Engine;
use outlast_engine::dispatch::Dispatcher;

/// What an engine needs besides its app.
pub struct Wiring {
    /// Clients for work, and of their own for heartbeats.
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub heartbeat_dynamodb: aws_sdk_dynamodb::Client,
    pub runs_table: String,
    pub events_table: String,
    pub dispatcher: Arc<dyn Dispatcher>,
    pub dispatch_keys: DispatchKeys,
    pub timing: Timing,
    /// This process's name for itself.
    pub holder: String,
}

pub fn engine(app: App, wiring: Wiring) -> Arc<Engine> {
    let _ = (app, wiring);
    todo!()
}
