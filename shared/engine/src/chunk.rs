//! One chunk's shared state: what its steps, its driver and its `Ctx` have in common.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlast_core::limits::{BACKGROUND_SITS_OUT, FOREGROUND_SITS_OUT};
use outlast_core::outcome::AgentResult;
use outlast_core::step::StepState;
use outlast_core::time_budget::{ChunkTime, HostKind};
use outlast_core::{Run, RunId, StepKey, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::append::Journal;
use crate::engine::Engine;
use crate::lease::Lease;

pub(crate) struct Chunk {
    pub engine: Arc<Engine>,
    pub run: RunId,
    /// What bodies name in their idempotency keys.
    pub first_of_chain: RunId,
    pub epoch: u64,
    pub journal: Journal,
    pub lease: Arc<Lease>,
    pub time: ChunkTime,
    /// The run's.
    pub ends_at: Timestamp,
    /// The longest a body may take in any chunk of this host.
    pub longest_body: Duration,
    /// How long a wait may last that this chunk sits out.
    sits_out: Duration,
    /// Nothing new begins.
    pub closing: CancellationToken,
    /// Bodies are told to end.
    pub cancelled: CancellationToken,
    /// How far the log was when it began.
    progress_before: (u64, u64),
    asked: Mutex<HashSet<StepKey>>,
    in_hand: AtomicUsize,
    turned_away: AtomicUsize,
    /// Steps that the agent's code has asked for and that have not returned.
    open: AtomicUsize,
    blocked: Mutex<Vec<Blocked>>,
    /// Questions whose time has passed and that have no answer.
    expiring: Mutex<Vec<StepKey>>,
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
        host: HostKind,
    ) -> Self {
        Self {
            engine,
            progress_before: journal.with_fold(|fold| (fold.finals, fold.turns)),
            run: run.id.clone(),
            first_of_chain: run.first_of_chain().clone(),
            epoch: run.epoch,
            journal,
            lease,
            time,
            ends_at: run.ends_at,
            longest_body,
            sits_out: match host {
                HostKind::Background => BACKGROUND_SITS_OUT,
                HostKind::Foreground => FOREGROUND_SITS_OUT,
            },
            closing: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            asked: Mutex::default(),
            in_hand: AtomicUsize::new(0),
            turned_away: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            blocked: Mutex::default(),
            expiring: Mutex::default(),
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
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_beyond = |blocked: &&Blocked| blocked.until.is_none_or(|at| at > self.time.soft_cap_at);
        let beyond = blocked.iter().filter(is_beyond).count();
        let turned_away = self.turned_away.load(Ordering::SeqCst);
        turned_away > 0 && self.open.load(Ordering::SeqCst) == turned_away + beyond
    }

    /// A call that can't go on before `at`, while the guard lives.
    pub(crate) fn delay_until(self: &Arc<Self>, at: Timestamp) -> Delay {
        self.block(Some(at), None)
    }

    /// A call that can't go on before the answer to this question, while the guard lives.
    pub(crate) fn await_answer(self: &Arc<Self>, question: &StepKey, expires_at: Option<Timestamp>) -> Delay {
        self.block(expires_at, Some(question.clone()))
    }

    fn block(self: &Arc<Self>, until: Option<Timestamp>, question: Option<StepKey>) -> Delay {
        let blocked = Blocked { until, question };
        self.blocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(blocked.clone());
        self.changed.notify_one();
        Delay {
            chunk: self.clone(),
            blocked,
        }
    }

    /// What the run waits for, if its open calls all wait: for points in time, or for answers.
    pub(crate) fn waits_for(&self) -> Option<WaitsFor> {
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if blocked.is_empty() || self.open.load(Ordering::SeqCst) != blocked.len() {
            return None;
        }
        let mut awaits: Vec<StepKey> = blocked.iter().filter_map(|blocked| blocked.question.clone()).collect();
        awaits.sort_unstable();
        awaits.dedup();
        Some(WaitsFor {
            until: blocked.iter().filter_map(|blocked| blocked.until).min(),
            awaits,
        })
    }

    /// The same, if nothing of it comes so soon that this chunk sits it out.
    pub(crate) fn waits_long_for(&self) -> Option<WaitsFor> {
        let sits_out_until = (self.engine.seams.now() + self.sits_out).min(self.time.soft_cap_at);
        self.waits_for()
            .filter(|waits| waits.until.is_none_or(|until| until > sits_out_until))
    }

    /// The question's time has passed: the chunk logs it, unless an answer comes first.
    pub(crate) fn expire(&self, question: &StepKey) {
        self.expiring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(question.clone());
        self.changed.notify_one();
    }

    pub(crate) fn take_expiring(&self) -> Vec<StepKey> {
        std::mem::take(&mut *self.expiring.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// Whether the log has the end of a step, or the beginning or the end of a wait or a question, that it didn't have when the
    /// chunk began.
    pub(crate) fn has_progressed(&self) -> bool {
        self.journal.with_fold(|fold| (fold.finals, fold.turns)) != self.progress_before
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

/// What a call waits for. Two that wait for the same are as good as each other.
#[derive(Clone, PartialEq)]
struct Blocked {
    until: Option<Timestamp>,
    question: Option<StepKey>,
}

/// What a run waits for when nothing of it can go on.
#[derive(Clone, Debug)]
pub(crate) struct WaitsFor {
    /// The earliest point in time; `None`: an answer alone brings it on.
    pub until: Option<Timestamp>,
    /// Questions.
    pub awaits: Vec<StepKey>,
}

pub(crate) struct Delay {
    chunk: Arc<Chunk>,
    blocked: Blocked,
}

impl Drop for Delay {
    fn drop(&mut self) {
        let mut blocked = self.chunk.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = blocked.iter().position(|one| *one == self.blocked) {
            blocked.swap_remove(index);
        }
    }
}
