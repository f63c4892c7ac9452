//! Hosts: settings, telemetry, wiring; Lambda and a plain listener.
//!
//! - [`env_vars`]: every environment variable, documented
//! - [`settings`]: what they say, checked one by one and against each other
//! - [`host`]: foreground or background
//! - [`seams`]: the machine's time, chance and threads
//! - [`telemetry`]: what a process says of itself
//! - [`wiring`]: an engine and its router, put together
//! - [`lambda`]: the host on AWS Lambda; [`dispatch_lambda`] and [`internal_event`]: what it sends to itself
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
pub mod dispatch_lambda;
pub mod env_vars;
pub mod host;
pub mod internal_event;
pub mod lambda;
pub mod local;
mod orderings;
pub mod seams;
pub mod settings;
pub mod telemetry;
pub mod wiring;

pub use host::Host;
