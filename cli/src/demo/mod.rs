//! `outlast demo`: a real table is imported while its server is killed in the middle and started again.
//!
//! - [`server`]: `outlast dev` as a child process, to be killed
//! - [`import`]: the plan, made of the table's rows
//! - [`evidence`]: what the demo sees for itself, and what it concludes

mod evidence;
mod import;
mod server;

use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use crate::client::{Client, Start};
use crate::dev::{embedded, told_to_end};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::screen::{Screen, say};
use crate::sse::{Follow, Heard};
use evidence::Evidence;
use server::Server;

/// Steps that may begin each second: so that the run takes long enough to be interrupted.
const RATE: u32 = 20;
/// The soft cap: how long one chunk carries the run.
const CAP_SECONDS: u32 = 3;

pub async fn demo() -> anyhow::Result<Exit> {
    // Dropped at the end, however that comes: the child is killed, and then the folder removed.
    let folder = tempfile::tempdir().context("no temporary folder")?;
    tokio::select! {
        shown = show(&folder) => shown,
        told = told_to_end() => {
            told?;
            eprintln!("\nThe demo ends here. It leaves nothing behind.");
            Ok(Exit::Detached)
        }
    }
}

async fn show(folder: &tempfile::TempDir) -> anyhow::Result<Exit> {
    let rows = import::rows()?;
    let began = Instant::now();
    introduce(rows.len());

    let mut server = Server::start(folder.path(), CAP_SECONDS).await?;
    say(&format!(
        "The server is ready: `outlast dev`, process {}. Its only state is a file in a temporary folder.",
        server.process()
    ));
    let client = Client::new(server.url())?;
    let input = import::plan(&rows, RATE).to_string();
    let start = Start {
        agent: "plan",
        input,
        thread: None,
        idempotency_key: "demo",
    };
    let run = client.start(&start).await;
    let run = run.map_err(|failure| failure.into_problem(&client))?.run;
    say(&format!(
        "Run {run} is accepted. From here on this terminal only reads.\n"
    ));

    let mut screen = Screen::on_stdout();
    let followed = watch(&client, &run, &mut server, &mut screen).await;
    screen.done();
    let mut evidence = followed?;
    let shown = client
        .show(&run)
        .await
        .map_err(|failure| failure.into_problem(&client))?;
    evidence.shown = serde_json::from_str::<Value>(&shown).context("the server's answer is no JSON")?;
    server.kill().await?;
    say("\nThe server is killed for good. The demo now reads the table from the file itself.");
    evidence.compare(&rows, &embedded::items_in_file(&server.data(), import::TABLE)?);
    evidence.seconds = began.elapsed().as_secs_f64();

    say(&evidence.summary());
    let failed = evidence.failed_checks();
    if failed.is_empty() {
        say("All of it is true. Nothing of the demo is left behind.");
        return Ok(Exit::Done);
    }
    eprintln!("This is not as it should be:\n  {}", failed.join("\n  "));
    server.show_log();
    Ok(Exit::Error)
}

fn introduce(rows: usize) {
    say(&format!(
        "This imports the {rows} countries and territories of ISO 3166-1 into a table, one step a row.\n\
         It is paced at {RATE} rows a second, and each chunk may carry it for {CAP_SECONDS} seconds only: as if a\n\
         function's time were that short. In the middle the server is killed and started again.\n"
    ));
}

/// Reads the run to its end, and kills the server half-way.
async fn watch(client: &Client, run: &str, server: &mut Server, screen: &mut Screen) -> anyhow::Result<Evidence> {
    let mut events = Follow::new(client.clone(), run, 0);
    let mut progress = Progress::default();
    let mut evidence = Evidence::default();
    while let Some(heard) = events.next().await? {
        match heard {
            Heard::Event(event) => {
                evidence.event(&event);
                if let Some(line) = progress.event(&event) {
                    screen.line(&format!("  {line}"));
                }
                screen.update(progress.totals());
            }
            Heard::Away(_) | Heard::Back => {}
        }
        let totals = progress.totals();
        if evidence.kills == 0 && totals.planned > 0 && totals.committed * 2 >= totals.planned {
            evidence.kills = 1;
            screen.line(&format!(
                "{} of {} are committed. SIGKILL to the server, process {}.",
                totals.committed,
                totals.planned,
                server.process()
            ));
            server.kill().await?;
            screen.line("It is dead, in the middle of a chunk. Now it is started again on the same file.");
            server.restart().await?;
            screen.line(&format!(
                "It is ready again, process {}. This reader resumes behind event {}.",
                server.process(),
                events.seen()
            ));
        }
    }
    evidence.repeated = events.repeated();
    evidence.ended = progress.ended;
    evidence.chunks = progress.chunks;
    evidence.crashes = progress.crashes;
    Ok(evidence)
}
