//! What `outlast dev` can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser};

/// The address that `dev` listens on, and that the other commands ask, unless told otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";

/// Run all of Outlast in one process on this machine: no AWS, no Docker, no Java, no key.
///
/// Prints one line to stdout when it is ready; logs go to stderr. Ctrl-C hands unfinished runs off, and they go on at the
/// next start with the same data folder. So they do after a crash or a kill.
#[derive(Clone, Debug, Parser)]
#[command(name = "outlast dev", version)]
pub struct DevOptions {
    /// Where to listen: a loopback address, because nobody is asked for a credential. Port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
    /// Keep runs and tables in this folder. Without it they are in memory, and gone when this process ends
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Lower the foreground's soft cap (40 s). More than that changes nothing
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub foreground_cap: Option<Duration>,
    /// Lower the background's soft cap (780 s): a run goes on in a new chunk after so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub background_cap: Option<Duration>,
    /// Make a table for the tool put_record: its name, and the text attribute that is its key. May be repeated
    #[arg(long = "table", value_name = "NAME:KEY")]
    pub tables: Vec<UserTable>,
    #[command(flatten)]
    pub faults: DispatchFaults,
    /// End when stdin ends: for a program that starts this one, so that it can't be left behind
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// What the command line says when it says nothing.
impl Default for DevOptions {
    fn default() -> Self {
        Self::parse_from(["outlast dev"])
    }
}

/// What Lambda's asynchronous invocation does to a dispatch now and then, on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct DispatchFaults {
    /// Deliver each dispatch twice
    #[arg(long = "duplicate-dispatches", hide = true)]
    pub duplicate: bool,
    /// Accept so many dispatches and never deliver them
    #[arg(long = "lose-dispatches", value_name = "N", default_value_t = 0, hide = true)]
    pub lose: u64,
    /// Deliver each dispatch so much later
    #[arg(long = "delay-dispatches", value_name = "MS", default_value = "0", value_parser = milliseconds, hide = true)]
    pub delay: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| String::from("expected a number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("expected more than 0 seconds".into()),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let milliseconds = text.parse().map_err(|_| "expected a number of milliseconds")?;
    Ok(Duration::from_millis(milliseconds))
}

/// A table of the user's: a name, and the attribute that is its key (text).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTable {
    pub name: String,
    pub key: String,
}

impl FromStr for UserTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((name, key)) if !name.is_empty() && !key.is_empty() && !key.contains(':') => Ok(Self {
                name: name.into(),
                key: key.into(),
            }),
            _ => Err("expected NAME:KEY, for example countries:alpha2".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_name_and_a_key() {
        let table: UserTable = "countries:alpha2".parse().unwrap();
        assert_eq!((table.name.as_str(), table.key.as_str()), ("countries", "alpha2"));
        for wrong in ["countries", ":alpha2", "countries:", "a:b:c", ""] {
            assert!(wrong.parse::<UserTable>().is_err(), "{wrong:?}");
        }
    }
    #[test]
    fn a_cap_is_a_number_of_seconds() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for wrong in ["0", "-1", "x", "nan", "1e300", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
