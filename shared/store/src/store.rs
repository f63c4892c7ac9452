//! What the engine calls.
//!
//! - `runs`: rows, and rows together with pages
//! - `answers`: what settles a question, together with the row and, where it can be, the page
//! - `accept`: a run's beginning; threads and turns
//! - `lists`: what the indexes say
//! - `keys`: API keys
//! - `log`: pages
//! - `wire`: the log for readers
//! - `retry`: what is tried again, and how

mod accept;
mod answers;
mod keys;
mod lists;
mod log;
mod retry;
mod runs;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::{Cost, Owner, Page, Payload, Run, RunId, StepKey, Tail, Timestamp, TurnKey};
use thiserror::Error;

use crate::meter::Meter;
use crate::table::Table;

/// How retries wait. The engine's clock and randomness, seen from here: so that simulated time reaches the store.
#[async_trait]
pub trait Pause: Send + Sync {
    async fn sleep(&self, duration: Duration);
    /// Uniform in 0..1.
    fn draw(&self) -> f64;
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Throttled, conflicting or unreachable for longer than the retries last. Of a write: whether it has landed is not
    /// known; repeat it as it was, it recognises itself by its write id.
    #[error("the store can't be reached: {0}")]
    Unavailable(String),
    /// The store refuses the request as such: permissions, a missing table, a request that breaks its rules.
    #[error("the store refuses: {0}")]
    Rejected(String),
    /// What is stored can't be what we wrote.
    #[error("corrupt_run: {0}")]
    Corrupt(String),
    /// Written by code of a later schema: this code leaves it alone.
    #[error("schema {0} is newer than this code knows")]
    UnknownSchema(u64),
    /// It doesn't fit: nothing was written.
    #[error("too large: {0}")]
    TooLarge(String),
}

/// What a conditional write of a row came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowWrite {
    /// With its new version.
    Landed(Box<Run>),
    /// The row is not at the version that was read; here it is now (`None`: it isn't there).
    Changed(Option<Box<Run>>),
}

/// What one transaction of row and page came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowAndPageWrite {
    Landed(Box<Run>),
    RowChanged(Option<Box<Run>>),
    /// The row is as it was read; another page stands where this one should.
    TailMoved,
}

/// What settles a question: a value, an error, or that its time has passed (with its default, if it has one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRecord {
    pub key: StepKey,
    pub value: Option<Payload>,
    pub error: Option<ErrorInfo>,
    pub expired: bool,
    pub at: Timestamp,
}

/// What one transaction of row, answer and, where it could be, page came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerWrite {
    Landed(Box<Run>),
    RowChanged(Option<Box<Run>>),
    TailMoved,
    /// The question has an answer.
    Taken,
}

/// What a put of a page came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePut {
    Landed,
    /// Another page stands there.
    Collided,
}

/// A run that is to be accepted: one transaction of thread, turn, run and first page. One that has ended at its birth takes
/// no thread, and only the place of a stopped turn.
#[derive(Clone, Debug)]
pub struct Acceptance {
    pub run: Run,
    pub page: Page,
    pub turn: Option<TurnRecord>,
}

/// An idempotency key, taken by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRecord {
    pub owner: Owner,
    pub turn: TurnKey,
    pub run_id: RunId,
    /// Of the request: the same key with another one is refused.
    pub fingerprint: String,
    /// Compared in code; what TTL has not removed yet is free all the same.
    pub expires_at: Timestamp,
}

/// What is known of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A request took it.
    Taken(TurnRecord),
    /// A stop came before any request: whatever run it becomes is born cancelled.
    Stopped,
}

/// What became of an [`Acceptance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    Landed,
    /// The thread has a live run.
    ThreadBusy(RunId),
    /// The turn is taken, and has not expired.
    TurnTaken(TurnRecord),
    /// The turn was stopped, and this run isn't a cancelled one.
    TurnStopped,
}

/// Some consecutive pages of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSlice {
    pub pages: Vec<Page>,
    /// Where the next slice begins; `None` when the log was read to its end.
    pub next: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    pub runs: Vec<Run>,
    /// Opaque; hand it back for the next ones.
    pub next: Option<String>,
}

/// One event as readers get it: also of a kind that this code doesn't know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireEvent {
    /// The seq, but of a [`CORRUPT`] one, which stands for all from here to its `seq`.
    pub first_seq: u64,
    pub seq: u64,
    /// Its type. [`CORRUPT`] stands for what can't be read.
    pub kind: String,
    /// The run's last event.
    pub terminal: bool,
    /// One line.
    pub json: String,
}

/// The kind of a [`WireEvent`] that stands in the place of events that can't be read. Its `seq` is the last of them,
/// if that is known, and its JSON says which they are.
pub const CORRUPT: &str = "corrupt";

/// Some consecutive events, for readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireSlice {
    pub events: Vec<WireEvent>,
    /// Where the next slice begins; `None` when the log was read to its end.
    pub next: Option<u64>,
}

/// The runs and their logs. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    table: Arc<dyn Table>,
    meter: Arc<Meter>,
    pause: Arc<dyn Pause>,
}

impl Store {
    pub fn new(table: Arc<dyn Table>, pause: Arc<dyn Pause>) -> Self {
        Self {
            table,
            meter: Arc::default(),
            pause,
        }
    }

    /// The same store with a meter of its own, for what one chunk costs.
    pub fn metered(&self) -> Store {
        Store {
            table: self.table.clone(),
            meter: Arc::default(),
            pause: self.pause.clone(),
        }
    }

    pub fn cost(&self) -> Cost {
        self.meter.cost()
    }
}

/// The tail as a page says it.
pub fn tail_of(page: &Page) -> Tail {
    Tail {
        seq: page.last_seq(),
        epoch: page.epoch,
        ended: page.is_ended(),
    }
}

#[cfg(test)]
mod tests;
