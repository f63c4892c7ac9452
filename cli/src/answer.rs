//! `outlast answer`: settles a question that a run has asked.

use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::exit::{Exit, Problem};
use crate::screen::say;

#[derive(Clone, Debug, Args)]
pub struct AnswerArgs {
    /// The run's id
    run: String,
    /// The question's key, as `outlast show RUN` lists it
    question: String,
    /// The answer, as JSON
    #[arg(
        long,
        value_name = "JSON",
        required_unless_present = "error",
        conflicts_with = "error"
    )]
    value: Option<String>,
    /// Answer with a failure: the run's code gets it as an error
    #[arg(long, value_name = "MESSAGE")]
    error: Option<String>,
    /// The failure's type, one word that programs can match
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "answered_with_error",
        conflicts_with = "value"
    )]
    error_type: String,
}

pub async fn answer(client: &Client, args: &AnswerArgs) -> anyhow::Result<Exit> {
    let given = given(args)?;
    let answered = client.answer(&args.run, &args.question, given).await;
    let row = answered.map_err(|failure| failure.into_problem(client))?;
    let status = row["status"].as_str().unwrap_or("unknown");
    say(&format!(
        "{}: {} is answered; the run is {status}",
        args.run, args.question
    ));
    Ok(Exit::Done)
}

/// The request's body. A value stays as it was written.
fn given(args: &AnswerArgs) -> Result<String, Problem> {
    let Some(value) = &args.value else {
        let error = json!({ "type": args.error_type, "message": args.error });
        return Ok(json!({ "error": error }).to_string());
    };
    match serde_json::from_str::<&RawValue>(value) {
        Ok(value) => Ok(format!("{{\"value\":{value}}}")),
        Err(error) => Err(Problem::new(
            Exit::Usage,
            format!("--value is no JSON: {error}. A text needs its quotes: --value '\"yes\"'"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AnswerArgs,
    }

    fn parsed(line: &[&str]) -> Result<AnswerArgs, clap::Error> {
        Line::try_parse_from(["answer", "run", "key"].iter().chain(line)).map(|line| line.args)
    }

    #[test]
    fn a_value_is_sent_as_it_was_written() {
        let args = parsed(&["--value", r#"{"z": 1.0, "a": 12345678901234567890123}"#]).unwrap();
        assert_eq!(
            given(&args).unwrap(),
            r#"{"value":{"z": 1.0, "a": 12345678901234567890123}}"#
        );
        assert_eq!(
            given(&parsed(&["--value", "null"]).unwrap()).unwrap(),
            r#"{"value":null}"#
        );
    }

    #[test]
    fn a_failure_has_a_type_and_a_message() {
        let args = parsed(&["--error", "not \"today\"", "--error-type", "declined"]).unwrap();
        assert_eq!(
            given(&args).unwrap(),
            r#"{"error":{"message":"not \"today\"","type":"declined"}}"#
        );
    }

    #[test]
    fn what_is_neither_or_both_or_no_json_is_refused_before_anything_is_sent() {
        assert!(parsed(&[]).is_err());
        assert!(parsed(&["--value", "1", "--error", "x"]).is_err());
        assert!(parsed(&["--value", "1", "--error-type", "x"]).is_err());
        for text in ["yes", "{", "1 2", ""] {
            let refused = given(&parsed(&["--value", text]).unwrap()).unwrap_err();
            assert!(refused.to_string().contains("is no JSON"), "{text}");
        }
    }
}
