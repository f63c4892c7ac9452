//! What a process says of itself: JSON where machines read it, lines for people elsewhere. Always on stderr: stdout
//! belongs to a program's own output, and Lambda takes both.

use std::io::{self, IsTerminal as _};

use outlast_core::env_vars::DEFAULT_LOG;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// At `trace` this module writes whole events, with their callers' credentials in them: it may not, whatever is asked for.
const TELLS_SECRETS: &str = "lambda_runtime::layers::api_response=error";

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    Human,
}

/// Checks a filter without installing it.
pub fn check_filter(filter: &str) -> Result<(), ParseError> {
    EnvFilter::builder().parse(filter).map(|_| ())
}

/// Once a process, by its `main`. A second call, as tests make it, changes nothing.
pub fn init(format: Format, filter: Option<&str>) {
    let filter = discreet(filter.unwrap_or(DEFAULT_LOG));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let installed = match format {
        Format::Json => subscriber
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init(),
        Format::Human => subscriber
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            .try_init(),
    };
    drop(installed);
}

fn discreet(filter: &str) -> EnvFilter {
    let filter = EnvFilter::builder().parse_lossy(filter);
    match TELLS_SECRETS.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_events_are_never_logged() {
        for asked in [
            "trace",
            "lambda_runtime=trace",
            "lambda_runtime::layers::api_response=trace",
        ] {
            let subscriber = tracing_subscriber::fmt().with_env_filter(discreet(asked)).finish();
            tracing::subscriber::with_default(subscriber, || {
                let events = tracing::enabled!(target: "lambda_runtime::layers::api_response", tracing::Level::TRACE);
                let others = tracing::enabled!(target: "lambda_runtime::runtime", tracing::Level::TRACE);
                assert_eq!((events, others), (false, !asked.contains("layers")), "{asked}");
            });
        }
    }

    #[test]
    fn the_default_is_a_filter_and_nonsense_is_none() {
        check_filter(DEFAULT_LOG).unwrap();
        check_filter("outlast_engine=debug").unwrap();
        assert!(check_filter("info,a=loud").is_err());
    }

    #[test]
    fn a_second_start_is_harmless() {
        init(Format::Json, None);
        init(Format::Human, Some("warn"));
    }
}
