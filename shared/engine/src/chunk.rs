//! One chunk's shared state: what its steps, its driver and its `Ctx` have in common.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlast_core::outcome::AgentResult;
use outlast_core::step::StepState;
use outlast_core::time_budget::ChunkTime;
use outlast_core::{Run, RunId, StepKey, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::append::Journal;
use crate::engine::Engine;
use crate::lease::Lease;

pub(crate) struct Chunk {
    pub engine: Arc<Engine>,
    pub run: RunId,
    pub epoch: u64,
    pub journal: Journal,
    pub lease: Arc<Lease>,
    pub time: ChunkTime,
    /// The run's.
    pub ends_at: Timestamp,
    /// The longest a body may take in any chunk of this host.
    pub longest_body: Duration,
    /// Nothing new begins.
    pub closing: CancellationToken,
    /// Bodies are told to end.
    pub cancelled: CancellationToken,
    /// Steps that had ended when it began.
    finals_before: u64,
    asked: Mutex<HashSet<StepKey>>,
    in_hand: AtomicUsize,
    turned_away: AtomicUsize,
    /// Steps that the agent's code has asked for and that have not returned.
    open: AtomicUsize,
    delays: Mutex<Vec<Timestamp>>,
    given_up: Mutex<Option<AgentResult>>,
    changed: Notify,
}

impl Chunk {
    pub(crate) fn new(
        engine: Arc<Engine>,
        run: &Run,
        journal: Journal,
        lease: Arc<Lease>,
        time: ChunkTime,
        longest_body: Duration,
    ) -> Self {
        Self {
            engine,
            finals_before: journal.with_fold(|fold| fold.finals),
            run: run.id.clone(),
            epoch: run.epoch,
            journal,
            lease,
            time,
            ends_at: run.ends_at,
            longest_body,
            closing: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            asked: Mutex::default(),
            in_hand: AtomicUsize::new(0),
            turned_away: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            delays: Mutex::default(),
            given_up: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether this key is asked for the first time in this pass.
    pub(crate) fn ask(&self, key: &StepKey) -> bool {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone())
    }

    /// A step that is in hand from asking to begin until its result is accepted.
    pub(crate) fn take_in_hand(self: &Arc<Self>) -> InHand {
        self.in_hand.fetch_add(1, Ordering::SeqCst);
        InHand(self.clone())
    }

    /// A step that the agent's code has asked for, while the guard lives.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::SeqCst);
        Open(self.clone())
    }

    pub(crate) fn has_in_hand(&self) -> bool {
        self.in_hand.load(Ordering::SeqCst) > 0
    }

    /// For a step that may not begin in this chunk: never resolves. The chunk ends around it.
    pub(crate) async fn turn_away(&self) -> std::convert::Infallible {
        self.turned_away.fetch_add(1, Ordering::SeqCst);
        // The agent's code may drop the step and go on without it.
        let _guard = TurnedAway(self);
        self.changed.notify_one();
        std::future::pending().await
    }

    /// Whether every open step is the next chunk's, because it could not end in this one: there is nothing to wait for.
    pub(crate) fn has_only_the_next_chunks(&self) -> bool {
        let delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond = delays.iter().filter(|at| **at > self.time.soft_cap_at).count();
        let turned_away = self.turned_away.load(Ordering::SeqCst);
        turned_away > 0 && self.open.load(Ordering::SeqCst) == turned_away + beyond
    }

    /// A retry that may not begin before `at`, while the guard lives.
    pub(crate) fn delay_until(self: &Arc<Self>, at: Timestamp) -> Delay {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        self.changed.notify_one();
        Delay {
            chunk: self.clone(),
            at,
        }
    }

    /// When the run can go on, if all that its open steps wait for are delays.
    pub(crate) fn waits_until(&self) -> Option<Timestamp> {
        let delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.open.load(Ordering::SeqCst);
        delays.iter().min().copied().filter(|_| open == delays.len())
    }

    /// Ends the chunk with this, whatever the agent's code does.
    pub(crate) fn give_up(&self, result: AgentResult) {
        self.given_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(result);
        self.changed.notify_one();
    }

    pub(crate) fn given_up(&self) -> Option<AgentResult> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the log has the end of a step that it didn't have when the chunk began.
    pub(crate) fn has_progressed(&self) -> bool {
        self.journal.with_fold(|fold| fold.finals) > self.finals_before
    }

    /// Resolves when one of the things above has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What the log, as this chunk found it and has written it, says of a step.
    pub(crate) fn recorded(&self, key: &StepKey) -> Option<Recorded> {
        self.journal.with_fold(|fold| {
            fold.steps.get(key).map(|step| Recorded {
                attempt: step.attempt,
                input_digest: step.input_digest.clone(),
                state: step.state.clone(),
            })
        })
    }
}

pub(crate) struct Recorded {
    pub attempt: u64,
    pub input_digest: Option<Box<str>>,
    pub state: StepState,
}

struct TurnedAway<'a>(&'a Chunk);

impl Drop for TurnedAway<'_> {
    fn drop(&mut self) {
        self.0.turned_away.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) struct InHand(Arc<Chunk>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

pub(crate) struct Open(Arc<Chunk>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

pub(crate) struct Delay {
    chunk: Arc<Chunk>,
    at: Timestamp,
}

impl Drop for Delay {
    fn drop(&mut self) {
        let mut delays = self.chunk.delays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = delays.iter().position(|at| *at == self.at) {
            delays.swap_remove(index);
        }
    }
}
