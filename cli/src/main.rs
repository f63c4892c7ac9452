use std::process::ExitCode;

use clap::Parser as _;
use outlast_cli::args::Cli;
use outlast_cli::exit::exit_of;

fn main() -> ExitCode {
    let cli = Cli::parse();
    outlast_cli::dev::log_to_stderr();
    let ended = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(cli.execute()),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("outlast: {error:#}");
            exit_of(&error).into()
        }
    }
}
