//! One step after the other: a chain costs one write a step, so a put of the same bytes is its floor.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use outlast_core::Run;
use outlast_engine::Ctx;

use crate::host::Host;
use crate::options::Options;
use crate::raw::RawPuts;
use crate::samples::{Aim, Figure};
use crate::script::{Script, no_op};
use crate::server::Server;

/// Steps that warm up connections, caches and the server, and one of whose pages is the floor's.
const WARM_UP: usize = 100;

/// A cell that an agent writes and its benchmark reads.
pub(super) type Shared<T> = Arc<Mutex<T>>;

pub(super) fn locked<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn chain(steps: usize) -> Script {
    Script::new("warm-up", move |ctx| async move {
        for number in 0..steps {
            no_op(&ctx, number).await?;
        }
        Ok(())
    })
}

/// Puts of a page of a chain, like those that the engine put a moment ago.
pub(super) async fn floor(host: &Arc<Host>, client: &Client) -> anyhow::Result<RawPuts> {
    let run: Run = host.run("warm-up").await?;
    let end = host.engine.store().last_seq(&run.id).await?;
    let mut puts = RawPuts::of_page(client, &run.id, end - 20).await?.at("floor");
    puts.puts(WARM_UP).await?;
    Ok(puts)
}

/// Step, put, step, put, within one run: the time from asking for a step until its result is there.
pub async fn step_time(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let samples = options.samples(3000, 200);
    let server = Server::start().await?;
    let aim = Aim::RatioAtMost(1.10);
    let figure = Figure::times("step time", "put of the same item", aim);
    let in_text = Figure::times("step time", "put of as many bytes in one text", Aim::None);
    let measured: Shared<(Figure, Figure)> = Arc::new(Mutex::new((figure, in_text)));
    let puts: Shared<Option<RawPuts>> = Arc::default();
    let script = {
        let (measured, puts) = (measured.clone(), puts.clone());
        Script::new("step-put", move |ctx| {
            let (measured, puts) = (measured.clone(), puts.clone());
            async move {
                let puts = locked(&puts).take();
                let Some(mut puts) = puts else { return Ok(()) };
                let mut text_puts = puts.as_one_text().at("text");
                for number in 0..WARM_UP + samples {
                    let from = Instant::now();
                    no_op(&ctx, number).await?;
                    let took = from.elapsed();
                    let (Ok(put), Ok(text_put)) = (puts.put().await, text_puts.put().await) else {
                        return Ok(());
                    };
                    if number >= WARM_UP {
                        let mut measured = locked(&measured);
                        measured.0.took(took);
                        measured.0.floor_took(put);
                        measured.1.took(took);
                        measured.1.floor_took(text_put);
                    }
                }
                Ok(())
            }
        })
    };
    let host = Host::new(&server.url, [chain(WARM_UP), script])?;
    *locked(&puts) = Some(floor(&host, &server.client()).await?);
    host.run("step-put").await?;
    let (figure, in_text) = locked(&measured).clone();
    anyhow::ensure!(figure.ours.len() == samples, "a raw put failed");
    Ok(vec![figure, in_text])
}

/// A chain of steps, as many puts, a chain, puts: how many a second.
pub async fn sequential(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (blocks, steps) = (options.samples(60, 3), options.samples(100, 50));
    let server = Server::start().await?;
    // For comparison, on another machine that was quiet: another durable engine's Rust SDK did 1,044 steps a second
    // where raw puts did 1,274, a ratio of 0.82. Other hardware, another load: only the ratios can be set side by side.
    let mut figure = Figure::rates(
        "steps, one after the other",
        "puts, one after the other",
        Aim::RatioAtLeast(0.9),
    );
    let took: Shared<Option<Duration>> = Arc::default();
    let script = {
        let took = took.clone();
        Script::new("chain", move |ctx: Ctx| {
            let took = took.clone();
            async move {
                let from = Instant::now();
                for number in 0..steps {
                    no_op(&ctx, number).await?;
                }
                *locked(&took) = Some(from.elapsed());
                Ok(())
            }
        })
    };
    let host = Host::new(&server.url, [chain(WARM_UP), script])?;
    let mut puts = floor(&host, &server.client()).await?;
    for _ in 0..blocks {
        host.run("chain").await?;
        figure.did(steps, locked(&took).take().context("the chain was not measured")?);
        figure.floor_did(steps, puts.puts(steps).await?);
    }
    Ok(vec![figure])
}
