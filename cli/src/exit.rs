//! How the program ends: an exit code for each way, so that a script can tell them apart.

use std::fmt;

/// The exit codes. `docs/CLI.md` lists them, and so does `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run completed; or the command did what it was asked.
    Done = 0,
    /// Something went wrong that none of the others names.
    Error = 1,
    /// The command line or the plan file is wrong; nothing was sent. (clap's own code for it.)
    Usage = 2,
    Incomplete = 3,
    Failed = 4,
    Cancelled = 5,
    /// The server understood, and said no.
    Refused = 6,
    /// The server can't be reached, or answers with an error of its own.
    ServerAway = 7,
    /// Ctrl-C: the run goes on without this terminal.
    Detached = 130,
}

pub const HELP: &str = "\
Exit codes of `run` and `tail`:
    0  the run completed
    3  the run ended incomplete: M of N, and what remains
    4  the run failed
    5  the run was cancelled
  130  Ctrl-C: detached, the run goes on
Exit codes of every command:
    0  it did what it was asked
    1  something else went wrong
    2  the command line or the plan file is wrong; nothing was sent
    6  the server refused
    7  the server can't be reached, or fails";

impl Exit {
    /// For a run that ended with this status; `None` if it has not ended.
    pub fn of_status(status: &str) -> Option<Exit> {
        match status {
            "completed" => Some(Exit::Done),
            "incomplete" => Some(Exit::Incomplete),
            "failed" => Some(Exit::Failed),
            "cancelled" => Some(Exit::Cancelled),
            _ => None,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// An error that knows its exit code. Its text says what happened and what to do.
#[derive(Debug)]
pub struct Problem {
    pub exit: Exit,
    pub text: String,
}

impl Problem {
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self {
            exit,
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

/// The exit code of an error, however it was wrapped on its way.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Problem>())
        .map_or(Exit::Error, |problem| problem.exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_its_own_code() {
        let codes: Vec<_> = ["completed", "incomplete", "failed", "cancelled", "running"]
            .map(Exit::of_status)
            .iter()
            .map(|exit| exit.map(|exit| exit as u8))
            .collect();
        assert_eq!(codes, [Some(0), Some(3), Some(4), Some(5), None]);
    }

    #[test]
    fn the_help_lists_every_code() {
        for exit in [
            Exit::Done,
            Exit::Error,
            Exit::Usage,
            Exit::Incomplete,
            Exit::Failed,
            Exit::Cancelled,
            Exit::Refused,
            Exit::ServerAway,
            Exit::Detached,
        ] {
            let code = format!("{:>5}  ", exit as u8);
            assert!(HELP.lines().any(|line| line.starts_with(&code)), "{exit:?}");
        }
    }

    #[test]
    fn a_problem_keeps_its_code_when_it_is_wrapped() {
        let refused = anyhow::Error::new(Problem::new(Exit::Refused, "no")).context("starting the run");
        assert_eq!(exit_of(&refused), Exit::Refused);
        assert_eq!(exit_of(&anyhow::anyhow!("disk full")), Exit::Error);
    }
}
