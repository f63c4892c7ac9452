//! `outlast stop`: ends a run.

use clap::Args;

use crate::client::Client;
use crate::exit::Exit;
use crate::screen::say;

#[derive(Clone, Debug, Args)]
pub struct StopArgs {
    /// The run's id
    run: String,
    /// Don't wait for whoever carries the run: it ends at once, and frees its thread
    #[arg(long)]
    force: bool,
}

pub async fn stop(client: &Client, args: &StopArgs) -> anyhow::Result<Exit> {
    let stopped = client.stop(&args.run, args.force).await;
    let row = stopped.map_err(|failure| failure.into_problem(client))?;
    let status = row["status"].as_str().unwrap_or("unknown");
    say(&match Exit::of_status(status) {
        Some(_) => format!("{}: {status}", args.run),
        None => format!(
            "{}: told to stop; it ends when its steps in hand have. `{}` shows the end, --force doesn't wait.",
            args.run,
            client.command(&format!("tail {}", args.run))
        ),
    });
    Ok(Exit::Done)
}
