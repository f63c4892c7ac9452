//! Hosts: settings, telemetry, wiring; Lambda and a plain listener.
//!
//! - [`host`]: foreground or background
//! - [`local_dynamodb`]: clients for a DynamoDB-compatible server on this machine
//! - [`seams`]: the machine's time, chance and threads
//! - [`telemetry`]: logs
//! - [`wiring`]: an engine, put together

pub mod host;
pub mod local_dynamodb;
pub mod seams;
pub mod telemetry;
pub mod wiring;

pub use host::Host;
