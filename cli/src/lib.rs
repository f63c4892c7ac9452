//! The `outlast` command line.
//!
//! - [`dev`]: all of Outlast in one process, for a laptop; as a library, with any app
//! - [`exit`]: how the program ends
pub mod dev;
pub mod exit;
