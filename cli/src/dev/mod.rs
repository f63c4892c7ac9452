//! `outlast dev`: the whole of Outlast in one process, for a laptop. No AWS, no Docker, no Java, no key.
//!
//! - [`options`]: what it can be told
//! - [`embedded`]: a DynamoDB-compatible server in the process, to which production code talks through the AWS SDK
//! - [`dispatch`]: the background function, called as Lambda calls it
//!
//! The same router serves the foreground (behind a plain listener) and the background (behind the dispatcher). At start
//! the leases of the former process are declared lapsed: only one process can use a data folder, so its holders are dead.

pub mod dispatch;
pub mod embedded;
pub mod options;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use outlast_agent::App;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::{SHUT_DOWN_GRACE, Timing};
use outlast_core::time_budget::HostKind;
use outlast_engine::dispatch::Dispatching;
use outlast_engine::{Engine, sweep};
use outlast_runtime::local::{self, NotLoopback};
use outlast_runtime::telemetry::{self, Format};
use outlast_runtime::{Host, local_dynamodb, wiring};
use outlast_store::schema::TableNames;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::exit::{Exit, Problem};
use dispatch::LocalDispatcher;
use embedded::Embedded;
pub use options::{DevOptions, DispatchFaults, UserTable};

const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// What the hand-offs themselves may take behind the steps' grace before `dev` ends without them.
const HAND_OFF_WITHIN: Duration = Duration::from_secs(5);

/// A `dev` at work.
pub struct Dev {
    pub url: String,
    engine: Arc<Engine>,
    dispatcher: Arc<LocalDispatcher>,
    background: Vec<JoinHandle<()>>,
    /// Nothing else keeps the data folder locked.
    _embedded: Embedded,
}

/// The whole program, for a `main` with an app of its own.
pub fn main(app: App, options: DevOptions) -> anyhow::Result<()> {
    log_to_stderr();
    tokio::runtime::Runtime::new()
        .context("no runtime")?
        .block_on(run(app, options))
}

/// Warnings and worse, unless `RUST_LOG` says otherwise. The embedded server warns of each condition that fails, which is
/// how writers learn that they lost a race: not a thing to report.
pub fn log_to_stderr() {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "warn,dynoxide=error".into());
    telemetry::init(Format::Human, Some(&filter));
}

/// Serves `app` until Ctrl-C or SIGTERM. On stdout: one line when it is ready.
pub async fn run(app: App, options: DevOptions) -> anyhow::Result<()> {
    let (in_memory, end_with_stdin) = (options.data.is_none(), options.end_with_stdin);
    let dev = start(app, options).await?;
    if in_memory {
        eprintln!("Runs are kept in memory and are gone when this process ends. To keep them: --data FOLDER");
    }
    println!("outlast dev ready at {}", dev.url);
    tokio::select! {
        told = told_to_end() => told?,
        () = stdin_ended(), if end_with_stdin => {}
    }
    eprintln!("Handing off. Unfinished runs go on at the next start. (Ctrl-C again ends at once.)");
    tokio::select! {
        () = dev.hand_off() => Ok(()),
        again = told_to_end() => again,
    }
}

/// Serves `app`; returns when it is ready.
pub async fn start(app: App, options: DevOptions) -> anyhow::Result<Dev> {
    let listener = listen(options.listen).await?;
    let embedded = Embedded::start(options.data.as_deref(), &options.tables)?;
    embedded.remove_expired();
    let foreground = Host::foreground().with_soft_cap(options.foreground_cap);
    let background = Host::background().with_soft_cap(options.background_cap);

    let dispatcher = LocalDispatcher::new(background.soft_cap(), options.faults);
    let engine = engine(app, &embedded, dispatcher.clone()).await?;
    dispatcher.serve(outlast_http::router(wiring::api(
        engine.clone(),
        background,
        String::new(),
    )));
    sweep::recover(&engine)
        .await
        .context("the runs of the former process can't be taken up")?;

    let url = format!("http://{}", listener.local_addr()?);
    let foreground = outlast_http::router(wiring::api(engine.clone(), foreground, String::new()));
    let serving = tokio::spawn(async move {
        if let Err(error) = local::serve(listener, foreground, std::future::pending()).await {
            tracing::error!(%error, "the listener failed");
        }
    });
    let sweeping = tokio::spawn(sweep_each_second(dispatcher.clone()));
    Ok(Dev {
        url,
        engine,
        dispatcher,
        background: vec![serving, sweeping],
        _embedded: embedded,
    })
}

impl Dev {
    /// Ends without a crash: nothing is accepted any more, and every chunk hands its run off. The next start goes on.
    pub async fn hand_off(self) {
        for task in &self.background {
            task.abort();
        }
        self.dispatcher.close();
        self.engine.shut_down();
        let within = SHUT_DOWN_GRACE + HAND_OFF_WITHIN;
        if tokio::time::timeout(within, self.dispatcher.drained()).await.is_err() {
            tracing::warn!("a chunk did not hand off in time: its run goes on once its lease is declared lapsed");
        }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listening = local::listen(address).await;
    listening.map_err(|error| match error.downcast::<NotLoopback>() {
        Ok(refused) => Problem::new(Exit::Usage, refused.to_string()).into(),
        Err(error) => anyhow::anyhow!("{error:#}. Choose another address with --listen"),
    })
}

async fn engine(app: App, embedded: &Embedded, dispatcher: Arc<LocalDispatcher>) -> anyhow::Result<Arc<Engine>> {
    let names = TableNames::default();
    let engine = wiring::engine(
        app,
        wiring::Wiring {
            dynamodb: local_dynamodb::client(&embedded.url),
            heartbeat_dynamodb: local_dynamodb::heartbeat_client(&embedded.url, Timing::LOCAL),
            runs_table: names.runs.clone(),
            events_table: names.events.clone(),
            dispatching: Some(Dispatching {
                dispatcher,
                keys: dispatch_keys()?,
                to: HostKind::Background,
            }),
            timing: Timing::LOCAL,
            holder: format!("dev-{}", std::process::id()),
        },
    );
    outlast_store::dynamodb::create_tables(&local_dynamodb::client(&embedded.url), &names, engine.seams())
        .await
        .context("can't make the tables of runs and events")?;
    Ok(engine)
}

/// Of this process alone: no dispatch outlives it.
fn dispatch_keys() -> anyhow::Result<DispatchKeys> {
    let secret = format!("{}{}", uuid::Uuid::now_v7().simple(), uuid::Uuid::now_v7().simple());
    Ok(DispatchKeys::new(secret.into(), None)?)
}

async fn sweep_each_second(dispatcher: Arc<LocalDispatcher>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        dispatcher.sweep().await;
    }
}

/// When stdin is at its end: nobody holds its other side any more.
async fn stdin_ended() {
    let (ended, end) = tokio::sync::oneshot::channel();
    // A thread of its own: a read of stdin can't be called off, and a runtime would wait for it.
    let reading = std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    if reading.is_ok() {
        let _ = end.await;
    }
}

/// Ctrl-C, or SIGTERM where there are such signals.
pub(crate) async fn told_to_end() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}

#[cfg(test)]
mod tests;
