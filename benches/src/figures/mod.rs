//! What is measured.
//!
//! - [`steps`]: one step after the other, beside puts of the same bytes
//! - [`many`]: many at once: runs, and steps of one run
//! - [`recovery`]: from the death of a holder to the next step
//! - [`readers`]: from an event to who reads it
//! - [`bundle`]: what ships: its size, and its start

mod bundle;
mod many;
mod readers;
mod recovery;
mod steps;

use std::time::Duration;

use crate::options::Options;
use crate::report;
use crate::samples::Figure;

/// However slow the machine, no figure takes longer.
const WITHIN: Duration = Duration::from_secs(5 * 60);

const NAMES: [&str; 10] = [
    "step-time",
    "sequential",
    "runs-at-once",
    "steps-at-once",
    "kill",
    "take-over",
    "first-event",
    "append-to-reader",
    "bundle-size",
    "cold-start",
];

async fn figure(name: &str, options: &Options) -> anyhow::Result<Vec<Figure>> {
    match name {
        "step-time" => steps::step_time(options).await,
        "sequential" => steps::sequential(options).await,
        "runs-at-once" => many::runs_at_once(options).await,
        "steps-at-once" => many::steps_at_once(options).await,
        "kill" => recovery::kill(options).await,
        "take-over" => recovery::take_over(options).await,
        "first-event" => readers::first_event(options).await,
        "append-to-reader" => readers::append_to_reader(options).await,
        "bundle-size" => bundle::bundle_size(options).await,
        "cold-start" => bundle::cold_start(options).await,
        _ => anyhow::bail!("there is no such figure"),
    }
}

/// Measures what is asked for, and prints it. A figure that can't be measured is named, and the others are measured.
pub async fn measure(options: &Options) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    let mut failed = Vec::new();
    for name in NAMES.into_iter().filter(|name| options.wants(name)) {
        if options.list {
            println!("{name}");
            continue;
        }
        if !options.has_what_it_takes(name) {
            eprintln!("leaving out {name}: it measures a bundle, which --bundle names");
            continue;
        }
        eprintln!("measuring {name}");
        match tokio::time::timeout(WITHIN, figure(name, options)).await {
            Ok(Ok(measured)) => figures.extend(measured),
            Ok(Err(error)) => failed.push(format!("{name}: {error:#}")),
            Err(_) => failed.push(format!("{name}: not done within {} s", WITHIN.as_secs())),
        }
    }
    if !options.list {
        report::print(&figures);
    }
    anyhow::ensure!(failed.is_empty(), "not measured:\n  {}", failed.join("\n  "));
    Ok(())
}
