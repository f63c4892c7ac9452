//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::plan::Arch;

const HELP: &str = "\
Exit codes:
  0  it did what it was asked
  1  something is wrong: with the workspace, a tool, the build or the output
  2  the command line or the flag is wrong; nothing was done";

/// Build the functions of apps for AWS Lambda, and pack them for deployment
#[derive(Debug, Parser)]
#[command(name = "deploy-builder", version, after_help = after_help())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build and pack; or only say what would ship; or judge what was built
    #[command(after_help = after_help())]
    Build(Build),
    /// Say the compiler's flags that a build sets, one a line: with them a plain `cargo lambda build` makes the same program
    Flags(Flags),
}

#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    pub what: What,
    /// The processor to build for
    #[arg(long, value_enum, default_value_t = Arch::X86_64, conflicts_with = "verify")]
    pub arch: Arch,
    /// The workspace, by its Cargo.toml; without it, that of the current folder
    #[arg(long, value_name = "PATH", conflicts_with = "verify")]
    pub manifest_path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Flags {
    /// The processor to build for
    #[arg(long, value_enum, default_value_t = Arch::X86_64)]
    pub arch: Arch,
    /// The workspace, by its Cargo.toml; without it, that of the current folder
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// Exactly one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct What {
    /// Put zips and manifest.json into this folder; what is there is replaced if it is an earlier output
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Say what would ship, and build nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Check that this output is as it was built
    #[arg(long, value_name = "DIR")]
    pub verify: Option<PathBuf>,
}

/// What is wrong is the call, not what it was about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongCall(pub String);

fn after_help() -> String {
    #[cfg(feature = "split")]
    let of_flag = crate::split::HELP;
    #[cfg(not(feature = "split"))]
    let of_flag = "";
    format!("{of_flag}{HELP}")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_are_asked_for_a_workspace_and_a_processor() {
        for line in ["flags", "flags --arch arm64", "flags --manifest-path x"] {
            let line = format!("deploy-builder {line}");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["deploy-builder", "flags", "--out", "d"]).is_err());
    }

    #[test]
    fn exactly_one_thing_is_asked() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        for line in [
            "--out d",
            "--dry-run",
            "--verify d",
            "--out d --arch arm64",
            "--dry-run --manifest-path x",
        ] {
            assert!(parse(&format!("deploy-builder build {line}")).is_ok(), "{line}");
        }
        for line in [
            "--arch arm64",
            "--out d --dry-run",
            "--out d --verify d",
            "--verify d --arch arm64",
            "--out d --arch arm",
        ] {
            assert!(parse(&format!("deploy-builder build {line}")).is_err(), "{line}");
        }
        assert!(parse("deploy-builder build").is_err());
    }
}
