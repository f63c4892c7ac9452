use std::process::ExitCode;

use clap::Parser as _;
use deploy_builder::args::Cli;
use deploy_builder::exit_code;

fn main() -> ExitCode {
    match Cli::parse().execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("deploy-builder: {error:#}");
            exit_code(&error)
        }
    }
}
