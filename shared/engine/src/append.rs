//! The holder's pages: conditional puts at the tail, one in flight, and what a collision tells.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::select;
use outlast_core::event::EventBody;
use outlast_core::limits::{MAX_LOG_BYTES, PAGE_FLUSH_AFTER, PAGE_FLUSH_BYTES};
use outlast_core::page::Writer;
use outlast_core::{Fold, Page, Run, StepKey, Timestamp};
use outlast_store::{PagePut, Store, StoreError};
use tokio::sync::{Notify, oneshot};

use crate::control::{numbered, page_expiry};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::lease::Lease;

/// How much one page takes of what waits; what is larger alone is stored beside it.
const PAGE_FILL_BYTES: usize = 200 * 1024;
/// Between a request that got no answer and the same again.
pub(crate) const REPEAT_AFTER: Duration = Duration::from_millis(50);

/// Why a holder can't write on. Nothing of it is an error of the run.
#[derive(Debug)]
pub(crate) enum CannotAppend {
    /// The log has a newer epoch, says that this one is lost, or has ended.
    Fenced,
    /// The lease may be gone, and a put's outcome is not known.
    LeaseInDoubt,
    /// The log has reached its size limit.
    LogFull,
    Broken(EngineError),
}

impl<E: Into<EngineError>> From<E> for CannotAppend {
    fn from(error: E) -> Self {
        CannotAppend::Broken(error.into())
    }
}

/// What became of an event that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    Landed,
    /// Of a `step.started`: a stop or a pause came first. It is not in the log and will not be.
    Forbidden,
}

/// The holder's end of a run's log.
pub(crate) struct Journal {
    engine: Arc<Engine>,
    store: Store,
    lease: Arc<Lease>,
    run: Run,
    state: Mutex<State>,
    wake: Notify,
    /// Pages of others were read.
    news: Notify,
    /// The log has more than before, whoever wrote it.
    grown: Notify,
}

struct State {
    fold: Fold,
    pending: VecDeque<Draft>,
    pending_bytes: usize,
    /// How many events were accepted in all.
    accepted: usize,
    /// When the oldest of them was accepted, monotonic.
    oldest: Option<Duration>,
    /// Something waits for what is pending.
    urgent: bool,
    in_flight: Option<InFlight>,
}

struct Draft {
    body: EventBody,
    logged: Option<oneshot::Sender<Logged>>,
}

impl Draft {
    fn is_start(&self) -> bool {
        matches!(self.body, EventBody::StepStarted { .. })
    }
}

struct InFlight {
    page: Arc<Page>,
    logged: Vec<Option<oneshot::Sender<Logged>>>,
}

impl Journal {
    pub(crate) fn new(engine: Arc<Engine>, store: Store, lease: Arc<Lease>, run: Run, fold: Fold) -> Self {
        let state = State {
            fold,
            pending: VecDeque::new(),
            pending_bytes: 0,
            accepted: 0,
            oldest: None,
            urgent: false,
            in_flight: None,
        };
        Self {
            engine,
            store,
            lease,
            run,
            state: Mutex::new(state),
            wake: Notify::new(),
            news: Notify::new(),
            grown: Notify::new(),
        }
    }

    /// What is durable, for a look at it.
    pub(crate) fn with_fold<T>(&self, look: impl FnOnce(&Fold) -> T) -> T {
        look(&self.lock().fold)
    }

    /// Bodies that may still be acting. One whose result was accepted has ended, durable or not.
    pub(crate) fn unsettled(&self, now: Timestamp) -> u64 {
        let state = self.lock();
        let in_flight = state.in_flight.iter().flat_map(|flight| &flight.page.events);
        let accepted = state.pending.iter().map(|draft| &draft.body);
        let ended = in_flight
            .map(|event| &event.body)
            .chain(accepted)
            .filter_map(result_of)
            .filter(|key| state.fold.is_unsettled(key, now));
        state.fold.unsettled(now).saturating_sub(ended.count() as u64)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Accepts an event in order; it is durable before the next body, and within [`PAGE_FLUSH_AFTER`].
    pub(crate) fn accept(&self, body: EventBody) {
        self.push(Draft { body, logged: None }, false);
    }

    /// The same, at once and for somebody who waits until it is durable. A body that asks to begin by it may when this says
    /// [`Logged::Landed`].
    pub(crate) fn log(&self, body: EventBody) -> oneshot::Receiver<Logged> {
        let (sender, receiver) = oneshot::channel();
        let logged = Some(sender);
        self.push(Draft { body, logged }, true);
        receiver
    }

    /// Returns when all that was accepted before is durable, or was not let into the log.
    pub(crate) async fn flushed(&self) {
        let upto = {
            let mut state = self.lock();
            state.urgent = true;
            state.accepted
        };
        self.wake.notify_one();
        loop {
            let mut grown = Box::pin(self.grown());
            grown.as_mut().enable();
            let is_through = {
                let state = self.lock();
                let in_flight = state.in_flight.as_ref().map_or(0, |flight| flight.logged.len());
                state.accepted - state.pending.len() - in_flight >= upto
            };
            if is_through {
                return;
            }
            grown.await;
        }
    }

    /// Resolves when the log has grown, by whomever, after this was called.
    pub(crate) fn grown(&self) -> tokio::sync::futures::Notified<'_> {
        self.grown.notified()
    }

    fn push(&self, draft: Draft, urgent: bool) {
        let now = self.engine.seams.clock.monotonic();
        let mut state = self.lock();
        state.pending_bytes += weight(&draft.body);
        state.pending.push_back(draft);
        state.accepted += 1;
        state.oldest.get_or_insert(now);
        state.urgent |= urgent;
        drop(state);
        self.wake.notify_one();
    }

    /// Writes pages until it can't. May be dropped at any await and called again: what is in flight is remembered.
    pub(crate) async fn pump(&self) -> CannotAppend {
        loop {
            if let Err(cannot) = self.settle().await {
                return cannot;
            }
            match self.wait_before_page() {
                Some(Duration::ZERO) => self.fill_page(),
                Some(wait) => {
                    let woken = self.wake.notified();
                    let late = self.engine.seams.clock.sleep(wait);
                    select(Box::pin(woken), late).await;
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Writes all that is pending.
    pub(crate) async fn drain(&self) -> Result<(), CannotAppend> {
        loop {
            // A chunk that ends writes what it has: a log that is full by it ends the run with its next chunk.
            match self.settle().await {
                Ok(()) | Err(CannotAppend::LogFull) => {}
                Err(cannot) => return Err(cannot),
            }
            if self.lock().pending.is_empty() {
                return Ok(());
            }
            self.fill_page();
        }
    }

    /// Lets go of all that is not in the log and can't be put there.
    pub(crate) fn discard(&self) {
        let mut state = self.lock();
        state.in_flight = None;
        state.pending.clear();
    }

    /// Resolves when something that others wrote was read: a stop or a pause may be among it.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Takes back what asked to begin and hasn't: the chunk ends.
    pub(crate) fn withdraw_unstarted(&self) {
        let mut state = self.lock();
        state.pending.retain(|draft| !draft.is_start());
    }

    /// Reads what others have appended, without writing.
    pub(crate) async fn sync(&self) -> Result<(), CannotAppend> {
        self.settle().await?;
        self.read_on().await
    }

    /// A page of the holder's own that landed by another way: in a transaction with the row.
    pub(crate) fn landed_with_row(&self, page: &Page) -> Result<(), CannotAppend> {
        self.lock().fold.page(page)?;
        self.grown.notify_waiters();
        self.engine.hints.grew(&self.run.id, page.last_seq());
        Ok(())
    }

    /// How long until a page is to be sent; `None` while there is nothing to send.
    fn wait_before_page(&self) -> Option<Duration> {
        let now = self.engine.seams.clock.monotonic();
        let state = self.lock();
        let oldest = state.oldest?;
        if state.urgent || state.pending_bytes >= PAGE_FLUSH_BYTES {
            return Some(Duration::ZERO);
        }
        Some((oldest + PAGE_FLUSH_AFTER).saturating_sub(now))
    }

    /// Makes a page of what is pending and puts it in the place of what is in flight.
    fn fill_page(&self) {
        let mut state = self.lock();
        let mut drafts = Vec::new();
        let mut bytes = 0;
        while let Some(draft) = state.pending.front() {
            let weighs = weight(&draft.body);
            if !drafts.is_empty() && bytes + weighs > PAGE_FILL_BYTES {
                break;
            }
            bytes += weighs;
            drafts.extend(state.pending.pop_front());
        }
        state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
        if state.pending.is_empty() {
            state.oldest = None;
            state.urgent = false;
            state.pending_bytes = 0;
        }
        self.set_in_flight(&mut state, drafts.into_iter());
    }

    /// Makes the page behind what is folded. A `started` that what was folded forbids is dropped, however early it asked:
    /// the chunk may not have heard of the stop that this journal has read. So is one that nobody waits for any more.
    fn set_in_flight(&self, state: &mut State, drafts: impl Iterator<Item = Draft>) {
        let forbidden = state.fold.stop_requested || state.fold.paused;
        let mut bodies = Vec::new();
        let mut logged = Vec::new();
        for draft in drafts {
            let is_start = draft.is_start();
            match draft.logged {
                Some(refused) if is_start && (forbidden || refused.is_closed()) => {
                    let _ = refused.send(Logged::Forbidden);
                }
                waiting => {
                    bodies.push(draft.body);
                    logged.push(waiting);
                }
            }
        }
        if bodies.is_empty() {
            state.in_flight = None;
            // Through all the same: see `flushed`.
            self.grown.notify_waiters();
            return;
        }
        let totals = state.fold.totals_after(&bodies);
        let page = Page {
            run_id: self.run.id.clone(),
            epoch: self.run.epoch,
            writer: Writer::Holder,
            write_id: self.engine.seams.write_id(),
            events: numbered(state.fold.tail.seq, bodies, self.engine.seams.now()),
            totals,
            expires_at: page_expiry(&self.run),
        };
        state.in_flight = Some(InFlight {
            page: Arc::new(page),
            logged,
        });
    }

    /// Sends what is in flight until its outcome is known: the same page, byte for byte.
    async fn settle(&self) -> Result<(), CannotAppend> {
        loop {
            let Some(page) = self.lock().in_flight.as_ref().map(|flight| flight.page.clone()) else {
                return Ok(());
            };
            match self.store.put_page(&page).await {
                Ok(PagePut::Landed) => self.landed()?,
                Ok(PagePut::Collided) => {
                    self.read_on().await?;
                    self.rebuild();
                }
                Err(StoreError::Unavailable(error)) => self.wait_to_repeat(&error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What the table did not answer is asked again, as long as the lease is ours for all we know.
    pub(crate) async fn wait_to_repeat(&self, error: &str) -> Result<(), CannotAppend> {
        if !self.lease.is_trusted(self.engine.seams.clock.monotonic()) {
            return Err(CannotAppend::LeaseInDoubt);
        }
        tracing::warn!(run = %self.run.id, error, "the table does not answer; asking again");
        self.engine.seams.clock.sleep(REPEAT_AFTER).await;
        Ok(())
    }

    fn landed(&self) -> Result<(), CannotAppend> {
        let mut state = self.lock();
        let Some(flight) = state.in_flight.take() else {
            return Ok(());
        };
        state.fold.page(&flight.page)?;
        for logged in flight.logged.into_iter().flatten() {
            let _ = logged.send(Logged::Landed);
        }
        self.grown.notify_waiters();
        self.lease.set_totals(state.fold.totals);
        let is_full = state.fold.log_bytes > MAX_LOG_BYTES;
        drop(state);
        self.engine.hints.grew(&self.run.id, flight.page.last_seq());
        if is_full { Err(CannotAppend::LogFull) } else { Ok(()) }
    }

    /// Folds the pages behind our tail; stops at once if they fence us.
    async fn read_on(&self) -> Result<(), CannotAppend> {
        loop {
            let first_seq = self.lock().fold.tail.seq + 1;
            let slice = match self.store.read_pages(&self.run.id, first_seq, true).await {
                Err(StoreError::Unavailable(error)) => {
                    self.wait_to_repeat(&error).await?;
                    continue;
                }
                read => read?,
            };
            let mut state = self.lock();
            for page in &slice.pages {
                state.fold.page(page)?;
            }
            if !slice.pages.is_empty() {
                self.grown.notify_waiters();
                self.news.notify_one();
            }
            if state.fold.fences(self.run.epoch) {
                return Err(CannotAppend::Fenced);
            }
            if slice.next.is_none() {
                return Ok(());
            }
        }
    }

    /// After a collision: the page anew behind what was read.
    fn rebuild(&self) {
        let mut state = self.lock();
        let Some(flight) = state.in_flight.take() else { return };
        let bodies = flight.page.events.iter().map(|event| event.body.clone());
        let drafts = bodies.zip(flight.logged).map(|(body, logged)| Draft { body, logged });
        self.set_in_flight(&mut state, drafts);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The step whose body ended with this.
fn result_of(body: &EventBody) -> Option<&StepKey> {
    match body {
        EventBody::StepCommitted { key, .. } | EventBody::StepFailed { key, .. } => Some(key),
        _ => None,
    }
}

fn weight(body: &EventBody) -> usize {
    body.approximate_bytes() as usize
}
