//! Carrying one chunk of a run: claim it, work. Whoever asks for it, by a dispatch, in a client's request or from the sweep,
//! it is the same chunk.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use outlast_core::RunId;
use outlast_core::time_budget::{ChunkTime, HostKind};

use crate::claim::claim;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::work::{Worked, work};

/// The invocation that carries it.
#[derive(Clone, Copy, Debug)]
pub struct Invocation {
    pub host: HostKind,
    pub time: ChunkTime,
    /// The longest that a body may take in any chunk of this host: soft cap and grace, less what a claim takes.
    pub longest_body: Duration,
}

/// Returns when the chunk has closed, so that nothing is left to run behind a reply. A refusal, or a run that isn't there,
/// is an error that changed nothing.
///
/// `expected_epoch` is the epoch that a dispatch was made for; `None` where nobody dispatched.
pub async fn carry(
    engine: &Arc<Engine>,
    run: &RunId,
    expected_epoch: Option<u64>,
    invocation: Invocation,
) -> Result<Worked, EngineError> {
    carry_and_tell(engine, run, expected_epoch, invocation, || {}).await
}

async fn carry_and_tell(
    engine: &Arc<Engine>,
    run: &RunId,
    expected_epoch: Option<u64>,
    invocation: Invocation,
    claimed: impl FnOnce(),
) -> Result<Worked, EngineError> {
    let store = engine.store.metered();
    let taken = claim(engine, &store, run, expected_epoch, invocation.host).await?;
    claimed();
    if invocation.time.implausible_deadline {
        tracing::warn!(%run, "the invocation's deadline is implausible; the soft cap alone counts");
    }
    work(engine, store, taken, invocation.time, invocation.longest_body).await
}

/// A chunk in a task of its own: whoever waits for it may go away, as a client does, and it goes on to its end.
///
/// Where a process is frozen once it has answered, the answer must not end before [`Underway::ended`] does.
#[derive(Debug)]
pub struct Underway {
    claimed: oneshot::Receiver<()>,
    ended: oneshot::Receiver<Result<Worked, EngineError>>,
}

/// Begins a chunk.
pub fn begin(engine: &Arc<Engine>, run: RunId, expected_epoch: Option<u64>, invocation: Invocation) -> Underway {
    let (tell_claimed, claimed) = oneshot::channel();
    let (tell_ended, ended) = oneshot::channel();
    let carrier = engine.clone();
    engine.seams.spawner.spawn_chunk(Box::pin(async move {
        let tell = || {
            // Nobody may be there any more to hear it, here and below.
            let _ = tell_claimed.send(());
        };
        let worked = carry_and_tell(&carrier, &run, expected_epoch, invocation, tell).await;
        if let Err(error) = &worked {
            tracing::info!(%run, %error, "a chunk did not begin, or broke off");
        }
        let _ = tell_ended.send(worked);
    }));
    Underway { claimed, ended }
}

impl Underway {
    /// Returns once the run is claimed, or why it is not to be had.
    pub async fn claimed(&mut self) -> Result<(), EngineError> {
        match (&mut self.claimed).await {
            Ok(()) => Ok(()),
            // It ended without a claim, and says why.
            Err(oneshot::Canceled) => match (&mut self.ended).await {
                Ok(worked) => worked.map(drop),
                Err(oneshot::Canceled) => Err(EngineError::ChunkDied),
            },
        }
    }

    /// Returns when the chunk has closed.
    pub async fn ended(self) -> Result<Worked, EngineError> {
        self.ended.await.unwrap_or(Err(EngineError::ChunkDied))
    }
}
