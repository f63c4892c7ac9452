//! Shows a run until it ends: what `run` and `tail` have in common.

use crate::client::Client;
use crate::exit::Exit;
use crate::progress::{Progress, statement};
use crate::screen::{Screen, say};
use crate::sse::{Follow, Heard};

/// Follows the run that these events are of, from its first one; shows what lies behind `after`.
pub async fn follow(client: &Client, run: &str, events: Follow, after: u64) -> anyhow::Result<Exit> {
    let mut screen = Screen::on_stdout();
    let carries = events.carries();
    let exit = tokio::select! {
        exit = to_the_end(run, events, after, &mut screen) => exit,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            screen.done();
            detached(client, run, carries);
            return Ok(Exit::Detached);
        }
    };
    screen.done();
    exit
}

async fn to_the_end(run: &str, mut events: Follow, after: u64, screen: &mut Screen) -> anyhow::Result<Exit> {
    let mut progress = Progress::default();
    while let Some(heard) = events.next().await? {
        match heard {
            Heard::Event(event) => {
                let line = progress.event(&event);
                if event.seq > after {
                    if let Some(line) = line {
                        screen.line(&line);
                    }
                    screen.update(progress.totals());
                }
            }
            Heard::Away(why) => screen.note(&format!("the server is away ({why}); waiting for it")),
            Heard::Back => screen.note(match screen {
                Screen::Bar(_) => "",
                Screen::Lines { .. } => "the server is back",
            }),
        }
    }
    screen.done();
    let Some((kind, outcome)) = &progress.ended else {
        anyhow::bail!("the stream of run {run} ended without an ending: please report it");
    };
    say(&format!("{run}: {}", statement(kind, outcome)));
    Ok(progress.exit().unwrap_or(Exit::Error))
}

fn detached(client: &Client, run: &str, carries: bool) {
    let goes_on = match carries {
        true => "The server's schedule goes on with the run, a chunk a minute.",
        false => "The run goes on.",
    };
    let tail = format!("tail {run}{}", if carries { " --continue" } else { "" });
    let stop = format!("stop {run}");
    eprintln!(
        "Detached. {goes_on} Follow it with `{}`, end it with `{}`.",
        client.command(&tail),
        client.command(&stop)
    );
}
