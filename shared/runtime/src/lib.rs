//! Hosts: settings, telemetry, wiring; Lambda and a plain listener.
//!
//! - [`settings`]: what the environment variables say, checked one by one and against each other
//! - [`host`]: foreground or background
//! - [`keys`]: a deployment's API keys, for whoever operates it
//! - [`local_dynamodb`]: clients for a DynamoDB-compatible server on this machine
//! - [`seams`]: the machine's time, chance and threads
//! - [`telemetry`]: what a process says of itself
//! - [`wiring`]: an engine and its router, put together
//! - [`lambda`]: the host on AWS Lambda; [`dispatch_lambda`] and [`internal_event`]: what it sends to itself
//! - [`dispatch_http`]: the same over plain HTTP
//! - [`local`]: the host on a plain listener
//!
//! A function's `main` is three lines:
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     outlast_runtime::lambda::serve(outlast_agent::App::new("mine"), outlast_runtime::Host::foreground()).await
//! }
//! ```

mod aws;
pub mod dispatch_http;
pub mod dispatch_lambda;
pub mod host;
pub mod internal_event;
pub mod keys;
pub mod lambda;
pub mod local;
pub mod local_dynamodb;
mod orderings;
pub mod seams;
pub mod settings;
pub mod telemetry;
pub mod wiring;

pub use host::Host;
