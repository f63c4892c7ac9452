//! `outlast stop`: ends a run.

use clap::Args;

use crate::client::Client;
use crate::exit::Exit;
use crate::screen::say;

#[derive(Clone, Debug, Args)]
pub struct StopArgs {
    /// The run's id
    #[arg(required_unless_present = "turn")]
    run: Option<String>,
    /// Instead of a run: the idempotency key of a request. If that hasn't come yet, its run will be born cancelled
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    turn: Option<String>,
    /// Don't wait for whoever carries the run: it ends at once, and frees its thread
    #[arg(long)]
    force: bool,
}

pub async fn stop(client: &Client, args: &StopArgs) -> anyhow::Result<Exit> {
    let (name, stopped) = match (&args.run, &args.turn) {
        (Some(run), _) => (run, client.stop(run, args.force).await),
        (None, Some(turn)) => (turn, client.stop_turn(turn, args.force).await),
        // clap sees to it that there is one.
        (None, None) => return Ok(Exit::Usage),
    };
    let mut row = stopped.map_err(|failure| failure.into_problem(client))?;
    if args.turn.is_some() {
        row = row["run"].take();
        if row.is_null() {
            say(&format!(
                "{name}: no request has come under this key; for a day, what comes is cancelled"
            ));
            return Ok(Exit::Done);
        }
    }
    let run = row["runId"].as_str().unwrap_or(name);
    let status = row["status"].as_str().unwrap_or("unknown");
    say(&match Exit::of_status(status) {
        Some(_) => format!("{run}: {status}"),
        None => format!(
            "{run}: told to stop; it ends when its steps in hand have. `{}` shows the end, --force doesn't wait.",
            client.command(&format!("tail {run}"))
        ),
    });
    Ok(Exit::Done)
}
