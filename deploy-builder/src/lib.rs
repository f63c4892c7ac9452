//! The splitter: which functions an app is deployed as, built and packed.
//!
//! One handler, always a foreground function, and a background function only where the flag asks for it. In the order in
//! which a build goes through them:
//!
//! - [`args`], [`commands`]: the command line, and what each way of calling it does;
//! - [`split`]: the flag, read here and nowhere else. Without the feature of that name it doesn't exist, and neither do
//!   background functions;
//! - [`metadata`]: the packages of the workspace that say that they are functions;
//! - [`plan`], [`environment`]: pure, from packages to functions: what would ship;
//! - [`routing`]: pure, the proof that each path has one function and each dispatch a target;
//! - [`tools`], [`flags`], [`build`], [`progress`]: `cargo lambda`, a package at a time, in a way that leaves no path of
//!   this machine in the binary;
//! - [`elf`], [`pack`]: the zip, the same bytes for the same binary;
//! - [`manifest`]: what a deployment must know of each function;
//! - [`output`]: written aside, then renamed;
//! - [`verify`], [`table`]: an output judged without building, and a plan shown.

pub mod args;
pub mod build;
pub mod commands;
pub mod elf;
pub mod environment;
pub mod flags;
pub mod manifest;
pub mod metadata;
pub mod output;
pub mod pack;
pub mod plan;
pub mod problems;
pub mod progress;
pub mod routing;
#[cfg(feature = "split")]
pub mod split;
pub mod table;
pub mod tools;
pub mod verify;

use std::process::ExitCode;

/// 2 for what is wrong with the call itself (clap's own code for it), 1 for everything else.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(if error.is::<args::WrongCall>() { 2 } else { 1 })
}
