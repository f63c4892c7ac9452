//! The heartbeat: one conditional update of the run's row, over and over. It overwrites and never appends; its reply
//! carries the flags.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{Either, select};
use outlast_core::transition::Beat;
use outlast_core::{Command, Refusal, Run, apply};
use outlast_store::{RowWrite, Store, StoreError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::lease::Lease;

/// A heartbeat under way.
pub(crate) struct Heartbeat {
    stop: CancellationToken,
    stopped: oneshot::Receiver<()>,
}

/// Starts the heartbeat of a chunk, apart from its work.
pub(crate) fn start(engine: &Arc<Engine>, store: Store, work_store: Store, lease: Arc<Lease>) -> Heartbeat {
    let stop = CancellationToken::new();
    let (done, stopped) = oneshot::channel();
    let beats = {
        let (engine, stop) = (engine.clone(), stop.clone());
        async move {
            beat_until(&engine, &store, &work_store, &lease, &stop).await;
            let _ = done.send(());
        }
    };
    engine.seams.spawner.spawn_heartbeat(beats.boxed());
    Heartbeat { stop, stopped }
}

impl Heartbeat {
    /// Returns when no beat is in flight any more.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = self.stopped.await;
    }
}

async fn beat_until(engine: &Engine, store: &Store, work_store: &Store, lease: &Lease, stop: &CancellationToken) {
    let clock = &engine.seams.clock;
    loop {
        let wait = clock.sleep(engine.timing.beat);
        if let Either::Left(_) = select(Box::pin(stop.cancelled()), wait).await {
            return;
        }
        match beat(engine, store, work_store, lease, stop).await {
            Ok(row) => lease.signal(|signals| {
                signals.stopping = row.stopping;
                signals.stop_unlogged = row.stop_unlogged;
                signals.paused = row.paused;
            }),
            Err(BeatError::Lost) => return lease.signal(|signals| signals.lost = true),
            Err(BeatError::Store(error)) => tracing::warn!(run = %lease.row().id, %error, "a beat failed"),
        }
        if !lease.is_trusted(clock.monotonic()) {
            return lease.signal(|signals| signals.in_doubt = true);
        }
    }
}

enum BeatError {
    Lost,
    Store(StoreError),
}

/// One beat. The next begins only when this one's outcome is known, or the chunk is over.
async fn beat(
    engine: &Engine,
    store: &Store,
    work_store: &Store,
    lease: &Lease,
    stop: &CancellationToken,
) -> Result<Run, BeatError> {
    loop {
        let spent = store.cost() + work_store.cost();
        let (row, holder) = lease.held(spent).ok_or(BeatError::Lost)?;
        let from = engine.seams.clock.monotonic();
        let command = Command::Beat(Beat {
            holder,
            lease: engine.timing.lease,
        });
        let mut after = match apply(&row, &command, engine.seams.now()) {
            Ok(change) => change.run,
            Err(Refusal::LeaseLost) => return Err(BeatError::Lost),
            Err(_) => return Ok(row),
        };
        after.write_id = engine.seams.write_id();
        match store.write_run(&row, &after).await.map_err(BeatError::Store)? {
            RowWrite::Landed(row) => {
                lease.confirmed((*row).clone(), from, spent);
                return Ok(*row);
            }
            RowWrite::Changed(Some(row)) => lease.seen(*row),
            RowWrite::Changed(None) => return Err(BeatError::Lost),
        }
        if stop.is_cancelled() {
            return Ok(lease.row());
        }
    }
}
