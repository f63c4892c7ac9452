//! Whole builds, of workspaces in temporary folders, with a `cargo-lambda` that writes a stub in no time.
//!
//! - [`fixture`]: the workspaces and the stubs;
//! - [`identity`]: what the output's bytes depend on, and what not;
//! - [`on`]: what the flag adds;
//! - [`cargo_lambda`]: how it is called;
//! - [`failures`]: what is said, and that nothing is left behind;
//! - [`verify`], [`dry_run`]: the two ways that build nothing.

mod cargo_lambda;
mod dry_run;
mod failures;
mod fixture;
mod identity;
#[cfg(feature = "split")]
mod on;
mod verify;
