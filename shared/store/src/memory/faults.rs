//! The fault script: which requests go wrong, and how.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::Shared;

use crate::schema::{Index, TableId};
use crate::table::{Key, Query, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Write,
    Transact,
    Query,
}

/// A request on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub kind: Kind,
    /// The items it names; none of a query.
    pub keys: Vec<Key>,
    /// Of a read.
    pub consistent: Option<bool>,
    /// Of a query: its table, index and partition.
    pub queried: Option<(TableId, Option<Index>, String)>,
}

impl Request {
    pub(super) fn new(kind: Kind, keys: Vec<Key>, consistent: Option<bool>) -> Self {
        Self {
            kind,
            keys,
            consistent,
            queried: None,
        }
    }

    pub(super) fn of_query(query: &Query) -> Self {
        Self {
            queried: Some((query.table, query.index, query.hash.clone())),
            ..Self::new(Kind::Query, vec![], Some(query.consistent))
        }
    }

    pub fn is_write(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Transact)
    }

    /// Whether it names an item whose key, written as `runs/run#…/meta` or `events/…/7`, has this in it; of a query,
    /// whether its partition has.
    pub fn names(&self, part: &str) -> bool {
        self.keys.iter().any(|key| key.to_string().contains(part))
            || self.queried.as_ref().is_some_and(|(_, _, hash)| hash.contains(part))
    }
}

/// What becomes of a request.
#[derive(Clone)]
pub enum Effect {
    /// Not done: throttled.
    Throttle,
    /// Not done: another transaction had hold of an item.
    Conflict,
    /// Not done, and the sender doesn't know.
    LoseRequest,
    /// Done, and the sender doesn't know.
    LoseReply,
    /// Not done: refused as such.
    Reject,
    /// A transaction, cancelled for these reasons.
    Cancel(Vec<Reason>),
    /// An eventually consistent read sees the tables as they were this many commits ago.
    Stale(usize),
    /// It is done when the gate opens.
    HoldRequest(Turnstile),
    /// It is done; the reply comes when the gate opens.
    HoldReply(Turnstile),
}

/// Which requests meet an effect.
pub struct Fault {
    fits: Box<dyn Fn(&Request) -> bool + Send>,
    effect: Effect,
    skip: usize,
    times: usize,
}

impl Fault {
    /// Of the next request that fits; see [`Fault::after`] and [`Fault::times`].
    pub fn new(effect: Effect, fits: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        Self {
            fits: Box::new(fits),
            effect,
            skip: 0,
            times: 1,
        }
    }

    /// Of the next request of this kind that names an item (or a partition) with this in its key.
    pub fn on(kind: Kind, part: &str, effect: Effect) -> Self {
        let part = part.to_owned();
        Self::new(effect, move |request| request.kind == kind && request.names(&part))
    }

    /// Lets this many that fit pass first.
    pub fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }
}

#[derive(Default)]
pub(super) struct Script {
    faults: Vec<Fault>,
}

impl Script {
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub fn effect(&mut self, request: &Request) -> Option<Effect> {
        self.faults.retain(|fault| fault.times > 0);
        for fault in self.faults.iter_mut().filter(|fault| (fault.fits)(request)) {
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.times -= 1;
            return Some(fault.effect.clone());
        }
        None
    }
}

/// A gate, and the turnstile at which requests wait for it.
pub fn gate() -> (Gate, Turnstile) {
    let (open, opened) = oneshot::channel();
    let (arrive, arrived) = oneshot::channel();
    let gate = Gate {
        open,
        arrived: arrived.shared(),
    };
    let turnstile = Turnstile {
        opened: opened.shared(),
        arrive: Arc::new(Mutex::new(Some(arrive))),
    };
    (gate, turnstile)
}

/// What the test holds. Dropped, it is open.
pub struct Gate {
    open: oneshot::Sender<()>,
    arrived: Shared<oneshot::Receiver<()>>,
}

impl Gate {
    /// Until a request waits here.
    pub async fn arrived(&self) {
        // Fails if the fault was dropped without a request: then nothing will come.
        let _ = self.arrived.clone().await;
    }

    pub fn open(self) {
        let _ = self.open.send(());
    }
}

#[derive(Clone)]
pub struct Turnstile {
    opened: Shared<oneshot::Receiver<()>>,
    arrive: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

impl Turnstile {
    pub(super) async fn pass(&self) {
        let arrive = self
            .arrive
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if let Some(arrive) = arrive {
            let _ = arrive.send(());
        }
        let _ = self.opened.clone().await;
    }
}
