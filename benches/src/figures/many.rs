//! Many at once: runs, each with a log of its own, and steps of one run, whose results share pages.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use outlast_engine::Ctx;
use tokio::sync::Barrier;

use super::steps::{Shared, chain, floor, locked};
use crate::host::{Host, completed};
use crate::options::Options;
use crate::samples::{Aim, Figure};
use crate::script::{Script, no_op};
use crate::server::Server;

const AT_ONCE: usize = 20;
const STEPS_EACH: usize = 100;

/// When the steps of several runs began and ended.
type Span = Option<(Instant, Instant)>;

/// 20 runs of 100 steps, 20 putters of 100 items, runs, putters.
pub async fn runs_at_once(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let blocks = options.samples(12, 2);
    let server = Server::start().await?;
    let floor_name = "20 putters of 100 items each";
    // For comparison, on another machine that was quiet: another durable engine did 3,204 steps a second where raw puts
    // did 3,132. Only the ratios can be set side by side.
    let mut whole = Figure::rates(
        "20 runs of 100 steps, accepted to ended",
        floor_name,
        Aim::RatioAtLeast(0.9),
    );
    let mut steps_only = Figure::rates("the same, from first step to last", floor_name, Aim::None);
    let span: Shared<Span> = Arc::default();
    let script = {
        let (span, barrier) = (span.clone(), Arc::new(Barrier::new(AT_ONCE)));
        Script::new("crowd", move |ctx: Ctx| {
            let (span, barrier) = (span.clone(), barrier.clone());
            async move {
                barrier.wait().await;
                let from = Instant::now();
                for number in 0..STEPS_EACH {
                    no_op(&ctx, number).await?;
                }
                let until = Instant::now();
                let mut span = locked(&span);
                let (first, last) = span.unwrap_or((from, until));
                *span = Some((first.min(from), last.max(until)));
                Ok(())
            }
        })
    };
    let host = Host::new(&server.url, [chain(AT_ONCE * 5), script])?;
    let puts = floor(&host, &server.client()).await?;
    for block in 0..blocks {
        let from = Instant::now();
        let runs = (0..AT_ONCE).map(|_| async {
            host.accept("crowd").await?;
            completed(host.deliver(host.dispatched().await?).await?)
        });
        try_join_all(runs).await?;
        whole.did(AT_ONCE * STEPS_EACH, from.elapsed());
        let (first, last) = locked(&span).take().context("no run was measured")?;
        steps_only.did(AT_ONCE * STEPS_EACH, last - first);
        let took = puts.at_once(&format!("{block}"), AT_ONCE, STEPS_EACH).await?;
        whole.floor_did(AT_ONCE * STEPS_EACH, took);
        steps_only.floor_did(AT_ONCE * STEPS_EACH, took);
    }
    Ok(vec![whole, steps_only])
}

/// 2,000 steps of one run, 20 at a time; as many puts, 20 at a time; steps, puts.
pub async fn steps_at_once(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let (blocks, steps) = (options.samples(12, 2), 2000);
    let server = Server::start().await?;
    let mut figure = Figure::rates(
        "2,000 steps of one run, 20 at once",
        "2,000 puts, 20 at once",
        Aim::RatioAtLeast(1.0),
    );
    let took: Shared<Option<Duration>> = Arc::new(Mutex::default());
    let script = {
        let took = took.clone();
        Script::new("wide", move |ctx: Ctx| {
            let took = took.clone();
            async move {
                let from = Instant::now();
                let done = ctx.at_once(
                    0..steps,
                    AT_ONCE,
                    |ctx, number| async move { no_op(&ctx, number).await },
                );
                for step in done.await {
                    step?;
                }
                *locked(&took) = Some(from.elapsed());
                Ok(())
            }
        })
    };
    let host = Host::new(&server.url, [chain(AT_ONCE * 5), script])?;
    let puts = floor(&host, &server.client()).await?;
    for block in 0..blocks {
        host.run("wide").await?;
        figure.did(steps, locked(&took).take().context("the run was not measured")?);
        let each = steps / AT_ONCE;
        figure.floor_did(steps, puts.at_once(&format!("{block}"), AT_ONCE, each).await?);
    }
    Ok(vec![figure])
}
