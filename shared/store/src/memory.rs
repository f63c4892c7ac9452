//! The test double: the same requests on a map, with a fault script, and every request on record.
//!
//! It keeps to DynamoDB's rules (conditions, `ALL_OLD`, transactions, sizes, a query's pages), and on demand to those
//! that no local server shows: throttles, conflicts, lost replies, reads and indexes that lag behind.

mod faults;
mod items;
mod queries;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

pub use faults::{Effect, Fault, Gate, Kind, Request, Turnstile, gate};

use crate::meter::Meter;
use crate::size::{item_bytes, read_units, write_units};
use crate::table::{Action, Answer, Failure, Item, Key, Query, Reason, Table, Transacted, Write, Written, judge};
use faults::Script;

/// As DynamoDB's: a query's page, an item, a transaction.
const QUERY_BYTES: usize = 1024 * 1024;
const ITEM_BYTES: usize = 400 * 1024;
const TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
const TRANSACTION_ITEMS: usize = 100;
/// How far back a stale read can look, in commits.
const REMEMBERED: usize = 512;

type Items = BTreeMap<Key, Arc<Item>>;

/// Cheap to clone; clones are the same table.
#[derive(Clone)]
pub struct MemoryTable {
    state: Arc<Mutex<State>>,
}

struct State {
    items: Items,
    /// What commits replaced, the newest last.
    undo: VecDeque<Vec<(Key, Option<Arc<Item>>)>>,
    query_bytes: usize,
    reads_behind: usize,
    indexes_behind: usize,
    hidden: HashSet<Key>,
    script: Script,
    requests: Vec<Request>,
}

impl Default for MemoryTable {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTable {
    pub fn new() -> Self {
        let state = State {
            items: Items::new(),
            undo: VecDeque::new(),
            query_bytes: QUERY_BYTES,
            reads_behind: 0,
            indexes_behind: 0,
            hidden: HashSet::new(),
            script: Script::default(),
            requests: vec![],
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked meanwhile leaves a whole map: every change is made at once.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The size of a query's page; DynamoDB's is 1 MB.
    pub fn page_queries_at(&self, bytes: usize) {
        self.state().query_bytes = bytes;
    }

    /// Eventually consistent reads see the tables as they were this many commits ago.
    pub fn let_reads_lag(&self, commits: usize) {
        self.state().reads_behind = commits;
    }

    /// Indexes know the tables as they were this many commits ago.
    pub fn let_indexes_lag(&self, commits: usize) {
        self.state().indexes_behind = commits;
    }

    /// Eventually consistent reads don't see this item yet, whatever they see of later ones.
    pub fn hide(&self, key: Key) {
        self.state().hidden.insert(key);
    }

    pub fn reveal(&self, key: &Key) {
        self.state().hidden.remove(key);
    }

    /// Adds to the fault script. The first fault that fits a request and is not used up has its effect.
    pub fn fault(&self, fault: Fault) {
        self.state().script.add(fault);
    }

    /// Every request so far, in the order of their arrival, and that of each retry too.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    pub fn forget_requests(&self) {
        self.state().requests.clear();
    }

    /// An item as it is stored, past the requests' record and the faults.
    pub fn peek(&self, key: &Key) -> Option<Item> {
        self.state().items.get(key).map(|item| Item::clone(item))
    }

    /// Plants an item, or with `None` takes one away, whatever the rules say.
    pub fn plant(&self, key: Key, item: Option<Item>) {
        let mut state = self.state();
        match item {
            Some(mut item) => {
                item.extend(key.attributes().map(|(name, value)| (name.to_owned(), value)));
                state.items.insert(key, Arc::new(item));
            }
            None => {
                state.items.remove(&key);
            }
        }
    }

    /// How many items there are.
    pub fn count(&self) -> usize {
        self.state().items.len()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.state().items.keys().cloned().collect()
    }

    /// Notes the request, and lets the script have its say.
    async fn arrive(&self, request: Request) -> Result<Fate, Failure> {
        let effect = {
            let mut state = self.state();
            let effect = state.script.effect(&request);
            state.requests.push(request);
            effect
        };
        match effect {
            None => Ok(Fate::default()),
            Some(Effect::Throttle) => Err(Failure::Throttled("by the fault script".into())),
            Some(Effect::Conflict) => Err(Failure::Conflict("by the fault script".into())),
            Some(Effect::LoseRequest) => Err(Failure::Unavailable("by the fault script, before it was done".into())),
            Some(Effect::LoseReply) => Ok(Fate {
                lose_reply: true,
                ..Fate::default()
            }),
            Some(Effect::Reject) => Err(Failure::Rejected("by the fault script".into())),
            Some(Effect::Cancel(reasons)) => judge(reasons).map(|refused| Fate {
                cancelled: Some(refused),
                ..Fate::default()
            }),
            Some(Effect::Stale(commits)) => Ok(Fate {
                behind: commits,
                ..Fate::default()
            }),
            Some(Effect::HoldRequest(gate)) => {
                gate.pass().await;
                Ok(Fate::default())
            }
            Some(Effect::HoldReply(gate)) => Ok(Fate {
                hold_reply: Some(gate),
                ..Fate::default()
            }),
        }
    }
}

/// What the script has in mind with a request that it lets through.
#[derive(Default)]
struct Fate {
    lose_reply: bool,
    cancelled: Option<Transacted>,
    behind: usize,
    hold_reply: Option<Turnstile>,
}

impl Fate {
    async fn reply<T>(self, answer: T) -> Result<T, Failure> {
        if let Some(gate) = self.hold_reply {
            gate.pass().await;
        }
        if self.lose_reply {
            return Err(Failure::Unavailable("by the fault script, after it was done".into()));
        }
        Ok(answer)
    }
}

impl State {
    /// The tables as they were some commits ago.
    fn view(&self, behind: usize, hide: bool) -> Items {
        let mut items = self.items.clone();
        let newest_first = self.undo.iter().rev().take(behind).flatten();
        for (key, old) in newest_first {
            match old {
                Some(old) => items.insert(key.clone(), old.clone()),
                None => items.remove(key),
            };
        }
        if hide {
            items.retain(|key, _| !self.hidden.contains(key));
        }
        items
    }

    fn commit(&mut self, changes: Vec<(Key, Item)>) {
        let mut replaced = Vec::with_capacity(changes.len());
        for (key, item) in changes {
            let old = self.items.insert(key.clone(), Arc::new(item));
            replaced.push((key, old));
        }
        if self.undo.len() == REMEMBERED {
            self.undo.pop_front();
        }
        self.undo.push_back(replaced);
    }

    /// What a write would make of its item; `Ok(Err(reason))` if its condition fails.
    fn attempt(&self, write: &Write) -> Result<Result<Option<Item>, Option<Item>>, Failure> {
        let stands = self.items.get(&write.key).map(Arc::as_ref);
        if !items::holds(&write.condition, stands) {
            return Ok(Err(stands.cloned()));
        }
        let new = items::apply(write, stands);
        if new.as_ref().is_some_and(|item| item_bytes(item) > ITEM_BYTES) {
            return Err(Failure::Rejected(
                "ValidationException: Item size has exceeded the maximum allowed size".into(),
            ));
        }
        Ok(Ok(new))
    }

    fn write(&mut self, write: &Write) -> Result<(Written, f64), Failure> {
        if write.action == Action::Check {
            return Err(Failure::Rejected("a check by itself is no write".into()));
        }
        match self.attempt(write)? {
            Ok(Some(item)) => {
                let units = write_units(item_bytes(&item));
                self.commit(vec![(write.key.clone(), item)]);
                Ok((Written::Done, units))
            }
            Ok(None) => Ok((Written::Done, 1.0)),
            Err(stands) => Ok((Written::Refused(stands), 1.0)),
        }
    }

    fn transact(&mut self, writes: &[Write]) -> Result<(Transacted, f64), Failure> {
        let keys: HashSet<&Key> = writes.iter().map(|write| &write.key).collect();
        if keys.len() < writes.len() {
            let what = "ValidationException: Transaction request cannot include multiple operations on one item";
            return Err(Failure::Rejected(what.into()));
        }
        if writes.is_empty() || writes.len() > TRANSACTION_ITEMS {
            return Err(Failure::Rejected(
                "ValidationException: a transaction has 1 to 100 items".into(),
            ));
        }
        let mut changes = vec![];
        let mut reasons = vec![];
        for write in writes {
            match self.attempt(write)? {
                Ok(new) => {
                    reasons.push(Reason::None);
                    changes.extend(new.map(|item| (write.key.clone(), item)));
                }
                Err(stands) => reasons.push(Reason::ConditionFailed(stands)),
            }
        }
        if reasons.iter().any(|reason| *reason != Reason::None) {
            return judge(reasons).map(|refused| (refused, 2.0 * writes.len() as f64));
        }
        let sizes: Vec<usize> = changes.iter().map(|(_, item)| item_bytes(item)).collect();
        if sizes.iter().sum::<usize>() > TRANSACTION_BYTES {
            return Err(Failure::Rejected(
                "ValidationException: the transaction exceeds 4 MB".into(),
            ));
        }
        self.commit(changes);
        Ok((
            Transacted::Done,
            sizes.into_iter().map(|bytes| 2.0 * write_units(bytes)).sum(),
        ))
    }
}

#[async_trait]
impl Table for MemoryTable {
    async fn get(&self, key: &Key, consistent: bool, meter: &Meter) -> Result<Option<Item>, Failure> {
        let request = Request::new(Kind::Get, vec![key.clone()], Some(consistent));
        let fate = self.arrive(request).await.inspect_err(|_| meter.read(0.0))?;
        let item = {
            let state = self.state();
            if consistent {
                state.items.get(key).map(|item| Item::clone(item))
            } else {
                let view = state.view(fate.behind.max(state.reads_behind), true);
                view.get(key).map(|item| Item::clone(item))
            }
        };
        meter.read(read_units(item.as_ref().map_or(0, item_bytes), consistent));
        fate.reply(item).await
    }

    async fn write(&self, write: &Write, meter: &Meter) -> Result<Written, Failure> {
        let request = Request::new(Kind::Write, vec![write.key.clone()], None);
        let fate = self.arrive(request).await.inspect_err(|_| meter.wrote(0.0))?;
        let (written, units) = self.state().write(write).inspect_err(|_| meter.wrote(0.0))?;
        meter.wrote(units);
        fate.reply(written).await
    }

    async fn transact(&self, writes: &[Write], meter: &Meter) -> Result<Transacted, Failure> {
        let keys = writes.iter().map(|write| write.key.clone()).collect();
        let request = Request::new(Kind::Transact, keys, None);
        let mut fate = self.arrive(request).await.inspect_err(|_| meter.wrote(0.0))?;
        if let Some(cancelled) = fate.cancelled.take() {
            meter.wrote(2.0 * writes.len() as f64);
            return fate.reply(cancelled).await;
        }
        let (transacted, units) = self.state().transact(writes).inspect_err(|_| meter.wrote(0.0))?;
        meter.wrote(units);
        fate.reply(transacted).await
    }

    async fn query(&self, query: &Query, meter: &Meter) -> Result<Answer, Failure> {
        let fate = self
            .arrive(Request::of_query(query))
            .await
            .inspect_err(|_| meter.read(0.0))?;
        let (answer, bytes) = {
            let state = self.state();
            if query.index.is_some() && query.consistent {
                meter.read(0.0);
                let what = "ValidationException: Consistent reads are not supported on global secondary indexes";
                return Err(Failure::Rejected(what.into()));
            }
            let behind = match query.index {
                Some(_) => fate.behind.max(state.indexes_behind),
                None => fate.behind.max(state.reads_behind),
            };
            if query.consistent || (behind == 0 && state.hidden.is_empty()) {
                queries::answer(&state.items, query, state.query_bytes)
            } else {
                queries::answer(&state.view(behind, query.index.is_none()), query, state.query_bytes)
            }
        };
        meter.read(read_units(bytes, query.consistent));
        fate.reply(answer).await
    }
}
