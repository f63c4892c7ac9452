use std::process::ExitCode;

use clap::Parser as _;
use deploy_builder::args::Cli;
use deploy_builder::exit_code;

fn main() -> ExitCode {
    match Cli::parse().execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What cargo says ends in a line break.
            eprintln!("deploy-builder: {}", format!("{error:#}").trim_end());
            exit_code(&error)
        }
    }
}
