//! What a holder knows of its lease, shared between its work and its heartbeat.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_core::transition::Held;
use outlast_core::{Cost, Run, Totals};
use outlast_store::Store;
use tokio::sync::watch;

/// What a beat's reply says that the work must hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    pub lost: bool,
    pub stopping: bool,
    pub stop_unlogged: bool,
    pub paused: bool,
    /// How many answers the row counts, and whether one of them is not in the log yet.
    pub answers: u64,
    pub answer_unlogged: bool,
    /// No beat was confirmed in time.
    pub in_doubt: bool,
}

pub(crate) struct Lease {
    state: Mutex<State>,
    signals: watch::Sender<Signals>,
    /// How long after a confirmed request began its lease is relied on: the lease less the margin.
    trusted_for: Duration,
    /// What the beats go through; asked for what they cost.
    beat_store: Store,
}

struct State {
    row: Run,
    totals: Totals,
    /// Monotonic, from before the request that was confirmed.
    confirmed_from: Duration,
    /// What the row already counts of this chunk's cost.
    counted: Cost,
}

impl Lease {
    pub(crate) fn new(row: Run, confirmed_from: Duration, trusted_for: Duration, beat_store: Store) -> Self {
        let signals = watch::Sender::new(Signals::default());
        let state = Mutex::new(State {
            totals: row.totals,
            row,
            confirmed_from,
            counted: Cost::default(),
        });
        Self {
            state,
            signals,
            trusted_for,
            beat_store,
        }
    }

    pub(crate) fn signals(&self) -> watch::Receiver<Signals> {
        self.signals.subscribe()
    }

    pub(crate) fn signal(&self, change: impl FnOnce(&mut Signals)) {
        self.signals.send_if_modified(|signals| {
            let before = *signals;
            change(signals);
            *signals != before
        });
    }

    /// On this process's own monotonic clock; no other clock is asked.
    pub(crate) fn is_trusted(&self, monotonic: Duration) -> bool {
        monotonic < self.trusted_until()
    }

    pub(crate) fn trusted_until(&self) -> Duration {
        self.lock().confirmed_from + self.trusted_for
    }

    pub(crate) fn row(&self) -> Run {
        self.lock().row.clone()
    }

    pub(crate) fn set_totals(&self, totals: Totals) {
        self.lock().totals = totals;
    }

    pub(crate) fn cost_of_beats(&self) -> Cost {
        self.beat_store.cost()
    }

    /// The row as last seen and what to write of this chunk, `spent` being all that it has cost so far.
    pub(crate) fn held(&self, spent: Cost) -> Option<(Run, Held)> {
        let state = self.lock();
        let token = state.row.claim_token.clone()?;
        let held = Held {
            token,
            totals: state.totals,
            cost: spent - state.counted,
        };
        Some((state.row.clone(), held))
    }

    /// A write of the row landed that was begun at `from` and counted `spent`.
    pub(crate) fn confirmed(&self, row: Run, from: Duration, spent: Cost) {
        let mut state = self.lock();
        state.confirmed_from = state.confirmed_from.max(from);
        state.counted = spent;
        state.row = row;
    }

    /// The row is another than we thought.
    pub(crate) fn seen(&self, row: Run) {
        self.lock().row = row;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
