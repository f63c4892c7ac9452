//! From the death of a holder to the next step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use outlast_core::step::StepPolicy;
use outlast_engine::Ctx;
use outlast_engine::sweep::recover;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::children::Dev;
use crate::host::Host;
use crate::options::Options;
use crate::raw;
use crate::samples::{Aim, Figure};
use crate::script::Script;
use crate::server::Server;
use crate::sse::Reader;

/// Kills `outlast dev` after 1,000 steps; from the SIGKILL, through the start of a new process, to the first
/// `step.started` of the new holder at a reader. The floor: the same with a `dev` that has nothing to recover, from the
/// SIGKILL until it says that it is ready.
pub async fn kill(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (samples, steps) = (options.samples(15, 2), 1000);
    let aim = Aim::Milliseconds {
        median: 400.0,
        p99: None,
    };
    // For comparison, on another machine that was quiet: another durable engine took 739 ms, its service alone 600 ms.
    let mut figure = Figure::times(
        "SIGKILL after 1,000 steps to the next step",
        "SIGKILL to ready, nothing to recover",
        aim,
    );
    for _ in 0..samples {
        figure.took(to_next_step(steps).await?);
        let mut idle = Dev::start().await?;
        let from = Instant::now();
        idle.kill().await?;
        idle.restart().await?;
        figure.floor_took(from.elapsed());
    }
    Ok(vec![figure])
}

async fn to_next_step(steps: usize) -> anyhow::Result<Duration> {
    let client = reqwest::Client::new();
    let mut dev = Dev::start().await?;
    let plan = (0..steps * 2).map(|number| json!({"key": format!("s{number}"), "tool": "sleep", "input": {"ms": 0}}));
    let plan = json!({ "steps": plan.collect::<Vec<_>>() });
    let started: Value = dev
        .post(&client, &plan)?
        .send()
        .await?
        .error_for_status()?
        .json()
        .await?;
    let run = started["runId"].as_str().context("no run id")?;
    let mut committed = 0;
    let mut reader = Reader::of_run(&client, dev.url()?, run).await?;
    reader
        .until(|event| {
            committed += usize::from(event["type"] == "step.committed");
            committed == steps
        })
        .await?;
    drop(reader);

    let from = Instant::now();
    dev.kill().await?;
    dev.restart().await?;
    let mut reader = Reader::of_run(&client, dev.url()?, run).await?;
    reader
        .until(|event| event["type"] == "run.claimed" && event["epoch"] == 2)
        .await?;
    reader.until(|event| event["type"] == "step.started").await?;
    Ok(from.elapsed())
}

/// Claim to first new step of a run with 9,900 steps, whose former holder vanished; beside reading its log.
pub async fn take_over(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (samples, before) = (options.samples(15, 2), options.samples(9_900, 1_000));
    let server = Server::start().await?;
    let aim = Aim::Milliseconds {
        median: 1000.0,
        p99: None,
    };
    let mut figure = Figure::times(
        "take-over at step 9,900: claim to next step",
        "reading that log by queries",
        aim,
    );
    let hang_at = Arc::new(AtomicUsize::new(before));
    let (begun, mut begins) = mpsc::unbounded_channel();
    let script = {
        let hang_at = hang_at.clone();
        Script::new("long", move |ctx| long(ctx, hang_at.clone(), begun.clone()))
    };
    let host = Host::new(&server.url, [script])?;
    let client = server.client();
    let run = host.accept("long").await?;
    for sample in 0..=samples {
        let dispatch = host.dispatched().await?;
        let from = Instant::now();
        let chunk = host.deliver(dispatch);
        let first = async {
            let (_, first) = begins.recv().await.context("the agent is gone")?;
            // A few more: a crash counts for less once steps were committed since the last.
            while begins.recv().await.context("the agent is gone")?.0 < hang_at.load(Ordering::SeqCst) {}
            anyhow::Ok(first)
        };
        let first: Instant = tokio::select! {
            first = first => first?,
            ended = chunk => anyhow::bail!("the chunk ended: {ended:?}"),
        };
        if sample > 0 {
            figure.took(first - from);
            figure.floor_took(raw::read_log(&client, &run).await?);
        }
        hang_at.fetch_add(10, Ordering::SeqCst);
        recover(&host.engine).await?;
    }
    Ok(vec![figure])
}

/// Steps that say when their bodies begin, until one that never ends.
async fn long(
    ctx: Ctx,
    hang_at: Arc<AtomicUsize>,
    begun: mpsc::UnboundedSender<(usize, Instant)>,
) -> Result<(), outlast_engine::StepError> {
    for number in 0.. {
        let body = |_| async {
            let _ = begun.send((number, Instant::now()));
            if number >= hang_at.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(number)
        };
        let key = format!("step-{number:05}");
        ctx.step::<usize, _, _>(&key, &number, StepPolicy::IDEMPOTENT, body)
            .await?;
    }
    Ok(())
}
