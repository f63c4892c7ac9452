//! The heartbeat: one conditional update of the run's row, over and over. It overwrites and never appends; its reply
//! carries the flags.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Either, select};
use outlast_core::transition::Beat;
use outlast_core::{Command, Refusal, Run, apply};
use outlast_store::{RowWrite, Store, StoreError};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::engine::Engine;
use crate::lease::Lease;

/// How long the end of a chunk waits for a beat in flight. One that lands later names an old version of the row, or
/// makes the closing write look again.
const LAST_BEAT: Duration = Duration::from_millis(500);

/// A heartbeat under way; dropped with the chunk it belongs to, it ends too.
pub(crate) struct Heartbeat {
    stop: DropGuard,
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
    Heartbeat {
        stop: stop.drop_guard(),
        stopped,
    }
}

impl Heartbeat {
    /// Returns when no beat is in flight any more, or soon.
    pub(crate) async fn stop(self) {
        drop(self.stop);
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
        let mut beating = Box::pin(beat(engine, store, work_store, lease));
        // A table that hangs must not hide that the lease runs out.
        let doubt = clock.sleep(lease.trusted_until().saturating_sub(clock.monotonic()));
        let stopping = Box::pin(async {
            stop.cancelled().await;
            clock.sleep(LAST_BEAT).await;
        });
        let beaten = match select(&mut beating, select(doubt, stopping)).await {
            Either::Left((beaten, _)) => beaten,
            Either::Right((Either::Right(_), _)) => return,
            Either::Right((Either::Left(_), _)) => {
                lease.signal(|signals| signals.in_doubt = true);
                return;
            }
        };
        match beaten {
            Ok(row) => lease.signal(|signals| {
                signals.stopping = row.stopping;
                signals.stop_unlogged = row.stop_unlogged;
                signals.paused = row.paused;
                signals.answers = row.answers;
                signals.answer_unlogged = row.answer_unlogged.is_some();
            }),
            Err(BeatError::Lost) => return lease.signal(|signals| signals.lost = true),
            Err(BeatError::Store(error)) => tracing::warn!(run = %lease.row().id, %error, "a beat failed"),
        }
    }
}

enum BeatError {
    Lost,
    Store(StoreError),
}

/// One beat. The next begins only when this one's outcome is known.
async fn beat(engine: &Engine, store: &Store, work_store: &Store, lease: &Lease) -> Result<Run, BeatError> {
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
    }
}
