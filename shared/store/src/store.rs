//! What the engine calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_core::{Cost, Owner, Page, Run, RunId, Tail, ThreadKey, Timestamp, TurnKey};
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePut {
    Landed,
    /// Another page stands there.
    Collided,
}

/// A run that is to be accepted: one transaction of thread, turn, run and first page.
#[derive(Clone, Debug)]
pub struct Acceptance {
    pub run: Run,
    pub page: Page,
    pub turn: Option<TurnRecord>,
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    Landed,
    /// The thread has a live run.
    ThreadBusy(RunId),
    /// The turn is taken, and has not expired.
    TurnTaken(TurnRecord),
}

/// Some consecutive pages of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSlice {
    pub pages: Vec<Page>,
    /// Where the next slice begins; `None` when the log was read to its end.
    pub next: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireSlice {
    pub events: Vec<WireEvent>,
    pub next: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireEvent {
    pub seq: u64,
    pub last_seq: u64,
    pub kind: String,
    pub terminal: bool,
    pub json: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    pub runs: Vec<Run>,
    /// Opaque; hand it back for the next ones.
    pub next: Option<String>,
}

/// The runs and their logs. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    table: Arc<dyn Table>,
    meter: Arc<Meter>,
    pause: Arc<dyn Pause>,
}

#[allow(unused_variables)]
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

    /// Consistent.
    pub async fn load_run(&self, id: &RunId) -> Result<Option<Run>, StoreError> {
        todo!()
    }

    /// Conditional on `before.version`; `after.write_id` must be fresh. Names only the attributes that differ.
    pub async fn write_run(&self, before: &Run, after: &Run) -> Result<RowWrite, StoreError> {
        todo!()
    }

    /// One transaction: the row as [`Store::write_run`], the page where nothing stands, and, if `after` has ended, the
    /// thread freed.
    pub async fn write_run_with_page(
        &self,
        before: &Run,
        after: &Run,
        page: &Page,
    ) -> Result<RowAndPageWrite, StoreError> {
        todo!()
    }

    pub async fn accept(&self, acceptance: &Acceptance, now: Timestamp) -> Result<Accepted, StoreError> {
        todo!()
    }

    pub async fn turn(&self, owner: &Owner, turn: &TurnKey, now: Timestamp) -> Result<Option<TurnRecord>, StoreError> {
        todo!()
    }

    /// The thread's live run; consistent.
    pub async fn active_run(&self, owner: &Owner, thread: &ThreadKey) -> Result<Option<RunId>, StoreError> {
        todo!()
    }

    /// Newest first.
    pub async fn list_runs(&self, owner: &Owner, limit: usize, after: Option<&str>) -> Result<RunList, StoreError> {
        todo!()
    }

    /// Runs that the index says are due in one of [`crate::schema::DUE_SHARDS`] shards, all of them. A hint.
    pub async fn due_runs(&self, shard: u8, now: Timestamp) -> Result<Vec<RunId>, StoreError> {
        todo!()
    }

    /// Moves the due time of a row that can't be read, so that it is neither forgotten nor looked at each minute.
    pub async fn postpone_unreadable(&self, id: &RunId, until: Timestamp) -> Result<(), StoreError> {
        todo!()
    }

    /// A holder's put: lands only where nothing stands. The same page again (by write id) has landed.
    pub async fn put_page(&self, page: &Page) -> Result<PagePut, StoreError> {
        todo!()
    }

    /// Consistent: the end of the log, with its totals and size of what is not known here (zero).
    pub async fn tail_page(&self, id: &RunId) -> Result<Option<Page>, StoreError> {
        todo!()
    }

    /// One request's worth of pages whose first seq is at least `first_seq`, in order.
    pub async fn read_pages(&self, id: &RunId, first_seq: u64, consistent: bool) -> Result<LogSlice, StoreError> {
        todo!()
    }

    pub async fn read_wire_events(
        &self,
        id: &RunId,
        first_seq: u64,
        consistent: bool,
    ) -> Result<WireSlice, StoreError> {
        todo!()
    }

    pub async fn first_seq_of_page_holding(&self, id: &RunId, seq: u64) -> Result<Option<u64>, StoreError> {
        todo!()
    }

    /// The page that holds `seq`: the one with the greatest first seq at or before it.
    pub async fn page_holding(&self, id: &RunId, seq: u64, consistent: bool) -> Result<Option<Page>, StoreError> {
        todo!()
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
