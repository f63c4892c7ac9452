//! Hosts: settings, telemetry, wiring; Lambda and a plain listener.

pub mod host;
pub mod wiring;

pub use host::Host;
