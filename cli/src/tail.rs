//! `outlast tail`: follows a run, from its beginning or from behind an event.

use clap::Args;

use crate::client::Client;
use crate::exit::Exit;
use crate::follow::follow;
use crate::screen::say;
use crate::sse::{Follow, Heard};

#[derive(Clone, Debug, Args)]
pub struct TailArgs {
    /// The run's id
    run: String,
    /// Show what lies behind the event of this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// Print each event as it came, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Also carry the run, if it is an inline one: ask for its next chunk whenever one has ended
    #[arg(long = "continue")]
    carry: bool,
}

impl TailArgs {
    fn events(&self, client: &Client, after: u64) -> Follow {
        let events = Follow::new(client.clone(), &self.run, after);
        match self.carry {
            true => events.carrying(),
            false => events,
        }
    }
}

pub async fn tail(client: &Client, args: &TailArgs) -> anyhow::Result<Exit> {
    if !args.json {
        // M of N needs the whole log, wherever the showing begins.
        let events = args.events(client, 0);
        return follow(client, &args.run, events, args.after).await;
    }
    tokio::select! {
        exit = events(client, args) => exit,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Detached)
        }
    }
}

async fn events(client: &Client, args: &TailArgs) -> anyhow::Result<Exit> {
    let mut events = args.events(client, args.after);
    let mut exit = None;
    while let Some(heard) = events.next().await? {
        match heard {
            Heard::Event(event) => {
                say(&event.line);
                exit = Exit::of_status(event.kind.strip_prefix("run.").unwrap_or_default()).or(exit);
            }
            Heard::Away(why) => eprintln!("the server is away ({why}); waiting for it"),
            Heard::Back => eprintln!("the server is back"),
        }
    }
    match exit {
        Some(exit) => Ok(exit),
        // The reader had seen the last event before: what it was, the run's own state says.
        None => crate::show::ending(client, &args.run).await,
    }
}
