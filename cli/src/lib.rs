//! The `outlast` command line.
//!
//! - [`dev`]: all of Outlast in one process, for a laptop; as a library, with any app
//! - [`exit`]: how the program ends
pub mod client;
pub mod dev;
pub mod exit;
pub mod plan_file;
pub mod sse;
pub mod wire;
