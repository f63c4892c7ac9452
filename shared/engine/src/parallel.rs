//! Branches side by side: each may fail, together they never do; and what they came to is logged before it is told.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use outlast_core::event::EventBody;
use outlast_core::limits::MAX_EVENT_BYTES;
use outlast_core::outcome::ErrorInfo;
use outlast_core::{Payload, StepKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::append::Logged;
use crate::chunk::Chunk;
use crate::ctx::Ctx;
use crate::step::{StepError, nondeterminism, same_kind};

/// One branch of a [`Ctx::parallel`].
pub type Branch<'a, O, E> = Box<dyn FnOnce(Ctx) -> BoxFuture<'a, Result<O, E>> + Send + 'a>;

/// The most items of one `map`, and the most that their keys may have together: so that, without any results, what became of them
/// fits into an event.
const MAX_ITEMS: usize = 10_000;
const MAX_KEYS_BYTES: usize = 256 * 1024;
/// Leaves room for what the event has beside it.
const MAX_OUTCOME_BYTES: usize = MAX_EVENT_BYTES - 4096;

/// How branches are run, and when enough is known. By default all run, all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// At most so many at once. A branch that waits keeps its place.
    pub concurrency: Option<usize>,
    /// With more failures than this nothing more is started.
    pub tolerated_failures: Option<Share>,
    /// With so many successes nothing more is started.
    pub min_successes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    Count(usize),
    /// From 0 to 1, of all items, started or not.
    Of(f64),
}

/// What the branches came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallel<T> {
    /// In the order of the items.
    pub items: Vec<Item<T>>,
    pub counts: Counts,
    pub reason: Reason,
}

/// What one branch came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<T> {
    Succeeded(T),
    Failed(ErrorInfo),
    /// It was not started; or was cut off, and may be repeated. Its steps are no part of N any more.
    Released,
    /// It was cut off in a step that may have acted and may not be repeated.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub succeeded: usize,
    pub failed: usize,
    pub released: usize,
    pub unknown: usize,
}

/// Why there is an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    AllEnded,
    EnoughSucceeded,
    TooManyFailed,
}

impl<T> Parallel<T> {
    /// Every value; or the first failure, by the order of the items; or that one of them has neither.
    pub fn all(self) -> Result<Vec<T>, ErrorInfo> {
        let mut values = Vec::with_capacity(self.items.len());
        let mut lacking = None;
        for item in self.items {
            match item {
                Item::Succeeded(value) => values.push(value),
                Item::Failed(error) => return Err(error),
                Item::Released => {
                    lacking = lacking.or(Some(("released", "a branch was released before it had a result")))
                }
                Item::Unknown => lacking = lacking.or(Some(("unknown", "the outcome of a branch is unknown"))),
            }
        }
        match lacking {
            None => Ok(values),
            Some((kind, message)) => Err(ErrorInfo::new(kind, message)),
        }
    }
}

/// The outcome as it is logged.
#[derive(Serialize, Deserialize)]
struct Record {
    reason: Reason,
    items: Vec<ItemRecord>,
    /// How many bytes the results had that were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    too_large: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct ItemRecord {
    key: StepKey,
    ended: Ended,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Succeeded(Box<RawValue>),
    Failed(ErrorInfo),
    Released,
    Unknown,
}

impl Record {
    fn is_of(&self, keys: &[StepKey]) -> bool {
        self.items.iter().map(|item| &item.key).eq(keys)
    }

    fn without_results(mut self, bytes: usize) -> Record {
        for item in &mut self.items {
            if matches!(item.ended, Ended::Succeeded(_) | Ended::Failed(_)) {
                item.ended = Ended::Failed(ErrorInfo::new("too_large", ""));
            }
        }
        self.too_large = Some(bytes);
        self
    }
}

/// `branches` by their keys, which stand in the scope of `key`.
pub(crate) async fn parallel<I, O, E, F, Fut>(
    ctx: &Ctx,
    key: StepKey,
    branches: Vec<(StepKey, I)>,
    limits: Limits,
    work: F,
) -> Result<Parallel<O>, StepError>
where
    O: Serialize + DeserializeOwned,
    E: Into<ErrorInfo>,
    F: Fn(Ctx, I) -> Fut,
    Fut: Future<Output = Result<O, E>>,
{
    let chunk = &ctx.chunk;
    if !chunk.ask(&key) {
        return Err(StepError::DuplicateKey { key });
    }
    check(&key, &branches, limits)?;
    same_kind(chunk, &key, "a parallel").await;
    let keys = keys_of(&branches);
    let logged = chunk.journal.with_fold(|fold| fold.parallels.get(&key).cloned());
    let record = match logged {
        Some(logged) => found(chunk, &key, &keys, &logged).await,
        None => {
            let (results, reason) = run(ctx, branches, limits, work).await;
            // From here on until it is logged the run can go on, whatever else of it waits.
            let _open = chunk.open();
            let record = decide(chunk, keys, results, reason).await;
            log(chunk, &key, record).await
        }
    };
    release_losers(chunk, &record);
    told(chunk, key, record).await
}

fn keys_of<I>(branches: &[(StepKey, I)]) -> Vec<StepKey> {
    branches.iter().map(|(key, _)| key.clone()).collect()
}

/// Before anything is started.
fn check<I>(key: &StepKey, branches: &[(StepKey, I)], limits: Limits) -> Result<(), StepError> {
    let bad = |problem: String| {
        let key = key.clone();
        Err(StepError::BadLimits { key, problem })
    };
    let items = branches.len();
    if limits.concurrency == Some(0) {
        return bad("none may run at once".into());
    }
    if let Some(min) = limits.min_successes.filter(|min| *min == 0 || *min > items) {
        return bad(format!("{min} of {items} items are to succeed"));
    }
    if let Some(Share::Of(share)) = limits.tolerated_failures
        && !(0.0..=1.0).contains(&share)
    {
        return bad(format!("a share of {share}"));
    }
    if items > MAX_ITEMS {
        return bad(format!("{items} items; at most {MAX_ITEMS}"));
    }
    let bytes: usize = branches.iter().map(|(key, _)| key.as_str().len()).sum();
    if bytes > MAX_KEYS_BYTES {
        return bad(format!("the items' keys have {bytes} bytes; at most {MAX_KEYS_BYTES}"));
    }
    let mut seen = HashSet::new();
    match branches.iter().find(|(key, _)| !seen.insert(key)) {
        Some((twice, _)) => Err(StepError::DuplicateKey { key: twice.clone() }),
        None => Ok(()),
    }
}

/// Runs branches until enough is known; those that are at work then are dropped where they are.
async fn run<I, O, E, F, Fut>(
    ctx: &Ctx,
    branches: Vec<(StepKey, I)>,
    limits: Limits,
    work: F,
) -> (Vec<Option<Ended>>, Reason)
where
    O: Serialize,
    E: Into<ErrorInfo>,
    F: Fn(Ctx, I) -> Fut,
    Fut: Future<Output = Result<O, E>>,
{
    let items = branches.len();
    let mut results: Vec<Option<Ended>> = (0..items).map(|_| None).collect();
    let mut to_start = branches.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    let (mut succeeded, mut failed) = (0, 0);
    loop {
        while running.len() < limits.concurrency.unwrap_or(items) {
            let Some((index, (key, item))) = to_start.next() else {
                break;
            };
            let working = work(ctx.within(&key), item);
            running.push(async move { (index, working.await) });
        }
        let Some((index, result)) = running.next().await else {
            return (results, Reason::AllEnded);
        };
        let ended = ended(result);
        match ended {
            Ended::Succeeded(_) => succeeded += 1,
            Ended::Failed(_) | Ended::Released | Ended::Unknown => failed += 1,
        }
        results[index] = Some(ended);
        if is_too_many(failed, items, limits.tolerated_failures) {
            return (results, Reason::TooManyFailed);
        }
        if limits.min_successes.is_some_and(|min| succeeded >= min) {
            return (results, Reason::EnoughSucceeded);
        }
    }
}

/// The result is kept as JSON, in the first pass too.
fn ended<O: Serialize, E: Into<ErrorInfo>>(result: Result<O, E>) -> Ended {
    match result.map(|value| to_raw_value(&value)) {
        Ok(Ok(value)) => Ended::Succeeded(value),
        Ok(Err(error)) => Ended::Failed(ErrorInfo::new("bad_result", error.to_string())),
        Err(error) => Ended::Failed(error.into()),
    }
}

/// Strictly above, of all items.
fn is_too_many(failed: usize, items: usize, tolerated: Option<Share>) -> bool {
    match tolerated {
        None => false,
        Some(Share::Count(most)) => failed > most,
        Some(Share::Of(share)) => failed as f64 > share * items as f64,
    }
}

/// What became of the branches without a result, once the log has all that they did.
async fn decide(chunk: &Chunk, keys: Vec<StepKey>, results: Vec<Option<Ended>>, reason: Reason) -> Record {
    let losers = without_result(&keys, &results);
    let unknown = match losers.is_empty() {
        true => HashSet::new(),
        false => {
            chunk.journal.flushed().await;
            chunk.journal.with_fold(|fold| fold.left_behind(&losers).unknown)
        }
    };
    let items = keys.into_iter().zip(results).map(|(key, result)| {
        let ended = result.unwrap_or_else(|| match unknown.contains(&key) {
            true => Ended::Unknown,
            false => Ended::Released,
        });
        ItemRecord { key, ended }
    });
    Record {
        reason,
        items: items.collect(),
        too_large: None,
    }
}

fn without_result(keys: &[StepKey], results: &[Option<Ended>]) -> HashSet<StepKey> {
    let losers = keys.iter().zip(results).filter(|(_, result)| result.is_none());
    losers.map(|(key, _)| key.clone()).collect()
}

/// Returns when the outcome is in the log, as it is there.
async fn log(chunk: &Arc<Chunk>, key: &StepKey, mut record: Record) -> Record {
    let mut result = payload(chunk, key, &record).await;
    if result.len() > MAX_OUTCOME_BYTES {
        record = record.without_results(result.len());
        result = payload(chunk, key, &record).await;
    }
    let key = key.clone();
    let logged = chunk.journal.log(EventBody::ParallelEnded { key, result });
    if logged.await != Ok(Logged::Landed) {
        chunk.turn_away().await;
    }
    record
}

async fn payload(chunk: &Chunk, key: &StepKey, record: &Record) -> Payload {
    match Payload::of(record) {
        Ok(payload) => payload,
        // Raw values, texts and numbers: it is JSON.
        Err(error) => nondeterminism(chunk, key.clone(), error.to_string()).await,
    }
}

/// The outcome that an earlier pass has logged: of just these items.
async fn found(chunk: &Chunk, key: &StepKey, keys: &[StepKey], logged: &Payload) -> Record {
    let record = match logged.decode::<Record>() {
        Ok(record) => record,
        Err(error) => {
            let message = format!("the outcome of {key} doesn't decode: {error}");
            return nondeterminism(chunk, key.clone(), message).await;
        }
    };
    if !record.is_of(keys) {
        let message = format!("{key} has other items now than when it was decided");
        return nondeterminism(chunk, key.clone(), message).await;
    }
    record
}

/// What the losers leave behind; also what an earlier chunk has not come to log.
fn release_losers(chunk: &Chunk, record: &Record) {
    let is_loser = |item: &&ItemRecord| matches!(item.ended, Ended::Released | Ended::Unknown);
    let losers: HashSet<StepKey> = record
        .items
        .iter()
        .filter(is_loser)
        .map(|item| item.key.clone())
        .collect();
    if losers.is_empty() {
        return;
    }
    for event in chunk.journal.with_fold(|fold| fold.left_behind(&losers).to_log) {
        chunk.journal.accept(event);
    }
}

async fn told<T: DeserializeOwned>(chunk: &Chunk, key: StepKey, record: Record) -> Result<Parallel<T>, StepError> {
    if let Some(bytes) = record.too_large {
        let message = format!(
            "the results have {bytes} bytes together; at most {MAX_OUTCOME_BYTES} are kept: store them elsewhere and return where"
        );
        let error = ErrorInfo::new("result_too_large", message);
        return Err(StepError::Failed { key, error });
    }
    let mut counts = Counts::default();
    let mut items = Vec::with_capacity(record.items.len());
    for item in record.items {
        items.push(match item.ended {
            Ended::Succeeded(value) => {
                counts.succeeded += 1;
                match serde_json::from_str(value.get()) {
                    Ok(value) => Item::Succeeded(value),
                    Err(error) => {
                        let message = format!("the result of {} doesn't decode: {error}", item.key);
                        return nondeterminism(chunk, key, message).await;
                    }
                }
            }
            Ended::Failed(error) => {
                counts.failed += 1;
                Item::Failed(error)
            }
            Ended::Released => {
                counts.released += 1;
                Item::Released
            }
            Ended::Unknown => {
                counts.unknown += 1;
                Item::Unknown
            }
        });
    }
    Ok(Parallel {
        items,
        counts,
        reason: record.reason,
    })
}
