//! `outlast run`: starts a run and follows it to its end.

use clap::Args;
use serde_json::value::RawValue;

use crate::client::{Client, Failure, Start, Started};
use crate::exit::{Exit, Problem};
use crate::follow::follow;
use crate::plan_file::{self, Source};
use crate::screen::say;
use crate::sse::Follow;

const PLAN_AGENT: &str = "plan";

#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The plan: a JSON Lines file, one {"key", "tool", "input", "idempotent"?} a line; or a JSON file
    /// {"steps": [...], "concurrency"?, "rate"?}; or - for stdin. For another agent than `plan`: its input as JSON
    plan: String,
    /// The conversation that the run belongs to; at most one run of it is live at a time
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Print the run's id and leave
    #[arg(long)]
    detach: bool,
    /// Run this request once, however often it is sent: the same key finds the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// How many steps may be in hand at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    concurrency: Option<u64>,
    /// How many steps may begin each second
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    rate: Option<f64>,
    /// The agent that carries the run
    #[arg(long, value_name = "AGENT", default_value = PLAN_AGENT)]
    agent: String,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("expected a number above 0".into()),
    }
}

pub async fn run(client: &Client, args: &RunArgs) -> anyhow::Result<Exit> {
    let (input, source) = input(args)?;
    // With a key of its own the request can be repeated without starting a second run.
    let own_key = format!("cli-{}", uuid::Uuid::now_v7());
    let start = Start {
        agent: &args.agent,
        input,
        thread: args.thread.as_deref(),
        idempotency_key: args.idempotency_key.as_deref().unwrap_or(&own_key),
    };
    let started = start_once(client, &start)
        .await
        .map_err(|failure| not_started(failure, source.as_ref(), client))?;
    let run = started.run.clone();
    if args.detach {
        say(&run);
        return Ok(Exit::Done);
    }
    say(&format!("run {run}"));
    follow(client, &run, Follow::started(client.clone(), started), 0).await
}

/// Once more if the connection broke while the answer was awaited: the key sees to it that this is the same run.
async fn start_once(client: &Client, start: &Start<'_>) -> Result<Started, Failure> {
    match client.start(start).await {
        Err(Failure::Away(_)) => client.start(start).await,
        started => started,
    }
}

fn input(args: &RunArgs) -> Result<(String, Option<Source>), Problem> {
    let (name, text) = plan_file::read(&args.plan)?;
    if args.agent != PLAN_AGENT {
        if args.concurrency.is_some() || args.rate.is_some() {
            let text = format!("--concurrency and --rate are for the agent `{PLAN_AGENT}` only");
            return Err(Problem::new(Exit::Usage, text));
        }
        return match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) => Ok((json.get().to_owned(), None)),
            Err(error) => Err(Problem::new(Exit::Usage, format!("{name}: {error}. Nothing was sent."))),
        };
    }
    let mut plan = plan_file::parse(&name, &text)?;
    plan.concurrency = args.concurrency.or(plan.concurrency);
    plan.rate = args.rate.or(plan.rate);
    let json = serde_json::to_string(&plan);
    let json = json.map_err(|error| Problem::new(Exit::Error, format!("{name}: {error}")))?;
    Ok((json, Some(plan.source)))
}

/// With the place in the file, where it is one of its steps that was refused.
fn not_started(failure: Failure, source: Option<&Source>, client: &Client) -> Problem {
    let place = match (&failure, source) {
        (Failure::Refused(refusal), Some(source)) => refusal.details["pointer"]
            .as_str()
            .and_then(|pointer| source.place(pointer)),
        _ => None,
    };
    let problem = failure.into_problem(client);
    match place {
        Some(place) => Problem::new(problem.exit, format!("{place}: {}", problem.text)),
        None => problem,
    }
}
