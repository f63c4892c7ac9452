//! `outlast pause`, `resume` and `retry`: what may be done to a run besides stopping it.

use clap::Args;

use crate::client::{Client, Failure};
use crate::exit::Exit;
use crate::follow::follow;
use crate::screen::say;
use crate::sse::Follow;

#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    /// The run's id
    run: String,
}

#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// The run's id
    run: String,
}

#[derive(Clone, Debug, Args)]
pub struct RetryArgs {
    /// The id of the ended run
    run: String,
    /// Also steps of which nobody can tell what they did: they may act twice
    #[arg(long)]
    include_unknown: bool,
    /// Print the new run's id and leave
    #[arg(long)]
    detach: bool,
    /// Do this once, however often it is asked for: the same key finds the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

pub async fn pause(client: &Client, args: &PauseArgs) -> anyhow::Result<Exit> {
    let paused = client.control(&args.run, "pause").await;
    let row = paused.map_err(|failure| failure.into_problem(client))?;
    let resume = client.command(&format!("resume {}", args.run));
    say(&match row["status"].as_str() {
        Some("running") => format!(
            "{}: pausing; it is handed off at its next step. Go on with `{resume}`",
            args.run
        ),
        _ => format!("{}: paused. Go on with `{resume}`", args.run),
    });
    Ok(Exit::Done)
}

pub async fn resume(client: &Client, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let resumed = client.control(&args.run, "resume").await;
    resumed.map_err(|failure| failure.into_problem(client))?;
    say(&format!("{}: goes on", args.run));
    Ok(Exit::Done)
}

pub async fn retry(client: &Client, args: &RetryArgs) -> anyhow::Result<Exit> {
    // With a key of its own the request can be repeated without starting a second run.
    let own_key = format!("cli-{}", uuid::Uuid::now_v7());
    let key = args.idempotency_key.as_deref().unwrap_or(&own_key);
    let retried = match client.retry(&args.run, args.include_unknown, key).await {
        Err(Failure::Away(_)) => client.retry(&args.run, args.include_unknown, key).await,
        retried => retried,
    };
    let started = retried.map_err(|failure| failure.into_problem(client))?;
    let run = started.run.clone();
    if args.detach {
        say(&run);
        return Ok(Exit::Done);
    }
    say(&format!("run {run}, which does the rest of {}", args.run));
    follow(client, &run, Follow::started(client.clone(), started), 0).await
}
