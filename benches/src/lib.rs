//! Benchmarks. Each figure stands beside its floor: what the same machine does, at the same time, without Outlast.
//!
//! Figure and floor are measured in turns (A B A B …), so that a busy moment hits both. Nothing is asserted: a figure on
//! a busy machine is no fact about the code, only the ratio comes near one. What each figure means and how to run them:
//! `docs/BENCHMARKS.md`.
//!
//! - [`figures`]: what is measured
//! - [`options`], [`samples`], [`report`]: what is asked for, and what is said
//! - [`server`]: the embedded DynamoDB-compatible server on a file; [`raw`]: the floor, its requests without an engine
//! - [`host`]: an engine in this process; [`script`]: agents made of a closure
//! - [`children`]: `outlast dev`, and a reader's server, as processes of their own; [`sse`]: a reader

pub mod children;
pub mod figures;
pub mod host;
pub mod options;
pub mod raw;
pub mod report;
pub mod samples;
pub mod script;
pub mod server;
pub mod sse;

use anyhow::Context as _;
use clap::Parser as _;

use options::Options;

pub fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    match &options.serve_reader {
        Some(dynamodb) => runtime.block_on(children::serve_reader(dynamodb)),
        None => runtime.block_on(figures::measure(&options)),
    }
}
