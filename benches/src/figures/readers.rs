//! From an event to who reads it, over HTTP as server-sent events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use outlast_core::step::StepPolicy;
use outlast_engine::{Ctx, StepError};
use outlast_runtime::{Host as Entry, local, wiring};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::steps::{chain, floor};
use crate::children::{Dev, reader_process};
use crate::host::{Host, completed};
use crate::options::Options;
use crate::raw::RawPuts;
use crate::samples::{Aim, Figure};
use crate::script::Script;
use crate::server::Server;
use crate::sse::{Reader, wall_micros};

const EVERY: Duration = Duration::from_millis(20);

/// A POST to `outlast dev` whose answer is the run's stream. The floor: a POST of the same size that is refused before
/// anything is stored.
pub async fn first_event(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (samples, warm_up) = (options.samples(200, 10), 5);
    let dev = Dev::start().await?;
    let client = reqwest::Client::new();
    let floor_name = "POST that is refused";
    let aim = Aim::Milliseconds {
        median: 30.0,
        p99: None,
    };
    let mut to_first = Figure::times("POST to the first event", floor_name, aim);
    let mut to_step = Figure::times("POST to the first step.started", floor_name, Aim::None);
    let plan = |tool: &str| json!({"steps": [{"key": "only", "tool": tool, "input": {"ms": 0}}]});
    let (good, refused) = (plan("sleep"), plan("slope"));
    for sample in 0..warm_up + samples {
        let from = Instant::now();
        let mut reader = Reader::open(dev.post(&client, &good)?).await?;
        reader.next().await?.context("no event")?;
        let first = from.elapsed();
        reader.until(|event| event["type"] == "step.started").await?;
        let step = from.elapsed();
        while reader.next().await?.is_some() {}

        let from = Instant::now();
        let answer = dev.post(&client, &refused)?.send().await?;
        anyhow::ensure!(answer.status() == 422, "{}", answer.status());
        answer.bytes().await?;
        let floor = from.elapsed();
        if sample >= warm_up {
            to_first.took(first);
            to_step.took(step);
            to_first.floor_took(floor);
            to_step.floor_took(floor);
        }
    }
    Ok(vec![to_first, to_step])
}

/// A step every 20 ms: from the end of its body to its `step.committed` at a reader. The reader's server is in the
/// process that appends, or in another. The floor: a put and a query that finds it, as often.
pub async fn append_to_reader(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (blocks, steps) = (options.samples(8, 1), options.samples(100, 30));
    let server = Server::start().await?;
    let script = Script::new("ticks", move |ctx| ticks(ctx, steps));
    let host = Host::new(&server.url, [chain(100), script])?;
    let floor_name = "a put and a query that finds it";
    let aim = |median, p99| Aim::Milliseconds { median, p99: Some(p99) };
    let mut same = Figure::times("append to a reader, same process", floor_name, aim(10.0, 20.0));
    let mut other = Figure::times("append to a reader, another process", floor_name, aim(40.0, 100.0));

    let listener = local::listen(([127, 0, 0, 1], 0).into()).await?;
    let own_url = format!("http://{}", listener.local_addr()?);
    let api = wiring::api(host.engine.clone(), Entry::foreground(), String::new());
    let serving = tokio::spawn(local::serve(
        listener,
        outlast_http::router(api),
        std::future::pending(),
    ));
    let process = reader_process(&server.url).await?;
    let mut puts = floor(&host, &server.client()).await?;
    for _ in 0..blocks {
        for (figure, url) in [(&mut same, &own_url), (&mut other, &process.url)] {
            figure.ours.extend(delays(&host, url, steps).await?);
            paced_floor(figure, &mut puts, steps).await?;
        }
    }
    serving.abort();
    Ok(vec![same, other])
}

/// Each step returns when it ended. Its result and the start of the next step go out at once, in one page.
async fn ticks(ctx: Ctx, steps: usize) -> Result<(), StepError> {
    for number in 0..steps {
        let body = |_| async {
            ctx.pause(EVERY).await;
            Ok(wall_micros())
        };
        let key = format!("tick-{number}");
        ctx.step::<u64, _, _>(&key, &number, StepPolicy::IDEMPOTENT, body)
            .await?;
    }
    Ok(())
}

async fn delays(host: &Arc<Host>, url: &str, steps: usize) -> anyhow::Result<Vec<f64>> {
    let client = reqwest::Client::new();
    let run = host.accept("ticks").await?;
    let mut reader = Reader::of_run(&client, url, run.as_str()).await?;
    let chunk = host.deliver(host.dispatched().await?);
    let reading = async {
        let mut delays = Vec::with_capacity(steps);
        // The last result waits for nobody, and goes out with the run's end.
        while delays.len() < steps - 1 {
            let event = reader.until(|event| event["type"] == "step.committed").await?;
            let arrived = wall_micros();
            let ended = event["result"].as_u64().context("a result that is no time")?;
            delays.push(arrived.saturating_sub(ended) as f64 / 1e3);
        }
        anyhow::Ok(delays)
    };
    let (run, delays) = tokio::try_join!(chunk, reading)?;
    completed(run)?;
    Ok(delays)
}

async fn paced_floor(figure: &mut Figure, puts: &mut RawPuts, count: usize) -> anyhow::Result<()> {
    let mut pace = interval(EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..count {
        pace.tick().await;
        figure.floor_took(puts.put_and_find().await?);
    }
    Ok(())
}
