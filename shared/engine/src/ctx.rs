//! `Ctx`: what an agent's code sees of its run.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use outlast_core::event::EventBody;
use outlast_core::key::key_part;
use outlast_core::limits::{MAX_EVENT_BYTES, MAX_KEY_PATH_BYTES};
use outlast_core::outcome::{AgentResult, ErrorInfo};
use outlast_core::step::StepPolicy;
use outlast_core::{Payload, RunId, StepKey, Timestamp, Totals};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ask::{Ask, Question, ask};
use crate::chunk::Chunk;
use crate::parallel::{Branch, Limits, Parallel, parallel};
use crate::seams::Seams;
use crate::step::{BodyError, StepCall, StepError, step};
use crate::wait::wait;

/// The run, from inside. Cheap to clone.
///
/// Every call takes a key that is stable from chunk to chunk. When a chunk ends (a cap, a stop, a lost lease) the call under
/// way does not return: the code is dropped there and, in the next chunk, run from its start again, past the steps that
/// have their results.
#[derive(Clone)]
pub struct Ctx {
    pub(crate) chunk: Arc<Chunk>,
    pacer: Option<Arc<Pacer>>,
    /// The path that the keys of its calls begin with, as they are stored.
    scope: Option<Arc<str>>,
}

impl Ctx {
    pub(crate) fn new(chunk: Arc<Chunk>) -> Self {
        Self {
            chunk,
            pacer: None,
            scope: None,
        }
    }

    /// The same run, whose keys stand in this scope.
    pub(crate) fn within(&self, scope: &StepKey) -> Self {
        Self {
            scope: Some(scope.as_str().into()),
            ..self.clone()
        }
    }

    pub fn run_id(&self) -> &RunId {
        &self.chunk.run
    }

    /// Runs `body` once its start is in the log, and commits its result once.
    ///
    /// Returns when the result is accepted, in order; it is durable before the next body begins, and within 150 ms. The
    /// result, and the input's digest, are compared across chunks: another input under the same key ends the run as
    /// `nondeterminism`. A body that was interrupted is run again if the policy says it is idempotent, and is
    /// [`StepError::Unknown`] otherwise.
    pub async fn step<T, F, Fut>(
        &self,
        key: &str,
        input: &(impl Serialize + ?Sized),
        policy: StepPolicy,
        body: F,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: Fn(StepCall) -> Fut,
        Fut: Future<Output = Result<T, BodyError>>,
    {
        let key = self.key([key])?;
        step(&self.chunk, key, input, policy, self.pacer.as_deref(), body).await
    }

    /// Declares N: the steps that must be committed for the run to be `completed`. Declared again, it must be the same.
    /// The keys may have 4 MB in all, as JSON.
    pub async fn plan<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<(), StepError> {
        let keys = keys.into_iter().map(|key| self.key([key])).collect();
        self.declare(keys).await
    }

    /// The same for steps in the branches of a [`Ctx::parallel`] or a [`Ctx::map`]: each is its path, from the key of that call over
    /// the item's to its own.
    pub async fn plan_paths<P>(&self, paths: impl IntoIterator<Item = P>) -> Result<(), StepError>
    where
        P: IntoIterator<Item: AsRef<str>>,
    {
        let keys = paths.into_iter().map(|path| self.key(path)).collect();
        self.declare(keys).await
    }

    async fn declare(&self, keys: Result<Vec<StepKey>, StepError>) -> Result<(), StepError> {
        let keys = keys?;
        let declared = Payload::of(&keys).map_err(|error| StepError::BadKey {
            problem: error.to_string(),
        })?;
        match self.chunk.journal.with_fold(|fold| fold.plan.clone()) {
            None => self.chunk.journal.accept(EventBody::PlanDeclared { keys: declared }),
            Some(logged) if logged == declared => {}
            Some(_) => {
                let error = ErrorInfo::new("nondeterminism", "the plan is another one than was declared before");
                self.chunk.give_up(AgentResult::Nondeterministic(error));
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }

    /// Waits until `duration` from the first time on that the run comes here: across chunks, crashes and pauses.
    ///
    /// A wait that ends within a minute (in the foreground: five seconds) and before the soft cap is sat out. Otherwise, when
    /// nothing else of the run can go on, the run parks: it holds no compute, and is woken by the sweep, which looks once a minute in a
    /// deployment. One beyond the run's end is [`StepError::WaitTooLong`], at once.
    pub async fn wait(&self, key: &str, duration: Duration) -> Result<(), StepError> {
        wait(&self.chunk, self.key([key])?, duration).await
    }

    /// Asks something outside: a person, another system. The question is registered, and its expiry runs, when this returns; wait
    /// for the answer with [`Question::answer`], now or later.
    ///
    /// A run of which nothing else can go on parks until then. Whoever answers needs the run's id and the question's key.
    pub async fn ask(&self, key: &str, question: Ask) -> Result<Question, StepError> {
        ask(&self.chunk, self.key([key])?, question).await
    }

    /// Runs `work` for each item and says what came of each: see [`Parallel`]. Items are known by their keys; the `Ctx` that `work` is
    /// given puts its keys into a scope of the item's own, so that every item may use the same ones.
    ///
    /// Fails only where it can't begin: for limits that make no sense, a key that can't be used or is there twice; or if all results
    /// together have more than 1 MB as JSON.
    pub async fn map<K, I, O, E, F, Fut>(
        &self,
        key: &str,
        items: impl IntoIterator<Item = (K, I)>,
        limits: Limits,
        work: F,
    ) -> Result<Parallel<O>, StepError>
    where
        K: AsRef<str>,
        O: Serialize + DeserializeOwned,
        E: Into<ErrorInfo>,
        F: Fn(Ctx, I) -> Fut,
        Fut: Future<Output = Result<O, E>>,
    {
        let key = self.key([key])?;
        let mut branches = Vec::new();
        for (name, item) in items {
            branches.push((self.within(&key).key([name])?, item));
        }
        parallel(self, key, branches, limits, work).await
    }

    /// The same for branches that do different things.
    pub async fn parallel<'a, K, O, E>(
        &self,
        key: &str,
        branches: impl IntoIterator<Item = (K, Branch<'a, O, E>)>,
        limits: Limits,
    ) -> Result<Parallel<O>, StepError>
    where
        K: AsRef<str>,
        O: Serialize + DeserializeOwned,
        E: Into<ErrorInfo>,
    {
        self.map(key, branches, limits, |ctx, branch| branch(ctx)).await
    }

    /// Runs `work` for each item, at most `concurrency` at once (zero counts as one), and gives what they return in the
    /// items' order. Nothing of it is logged: for branches whose keys are unique in the run and that handle their own failures.
    pub async fn at_once<I, O, F, Fut>(&self, items: impl IntoIterator<Item = I>, concurrency: usize, work: F) -> Vec<O>
    where
        F: Fn(Ctx, I) -> Fut,
        Fut: Future<Output = O>,
    {
        let running = items.into_iter().map(|item| work(self.clone(), item));
        futures::stream::iter(running)
            .buffered(concurrency.max(1))
            .collect()
            .await
    }

    /// The same run, whose steps begin at most `per_second` times a second (in all, whoever they belong to; finished
    /// steps that are found in the log don't count).
    pub fn paced(&self, per_second: f64) -> Ctx {
        Ctx {
            pacer: Some(Arc::new(Pacer::new(per_second))),
            ..self.clone()
        }
    }

    /// Appends an event of the agent's own, once a run. `data` may have 1 MB as JSON; with more the log can't be written on, and
    /// the run ends at the crash limit.
    pub async fn emit(&self, key: &str, data: &(impl Serialize + ?Sized)) -> Result<(), StepError> {
        let key = self.key([key])?;
        let data = Payload::of(data).map_err(|error| StepError::BadInput {
            key: key.clone(),
            problem: error.to_string(),
        })?;
        // Leaves room for what an event has beside its payload.
        let most = MAX_EVENT_BYTES - 4096;
        if data.len() > most {
            let problem = format!("it has {} bytes; at most {most} are kept", data.len());
            return Err(StepError::BadInput { key, problem });
        }
        // Before the log is asked: whether that has the first call's event by now is a matter of milliseconds.
        if !self.chunk.ask(&StepKey::new(format!("emit {key}"))) {
            return Err(StepError::DuplicateKey { key });
        }
        if self.chunk.journal.with_fold(|fold| fold.emitted.contains_key(&key)) {
            return Ok(());
        }
        self.chunk.journal.accept(EventBody::Emit { key, data });
        Ok(())
    }

    /// When this chunk's soft cap is reached; nothing new begins from then on.
    pub fn deadline(&self) -> Timestamp {
        self.chunk.time.soft_cap_at
    }

    /// Resolves when the run is to be stopped.
    pub async fn cancelled(&self) {
        self.chunk.cancelled.cancelled().await;
    }

    /// M of N, as far as it is durable.
    pub fn progress(&self) -> Totals {
        self.chunk.journal.with_fold(|fold| fold.totals)
    }

    /// Bodies that began, have no result, and may still be acting.
    pub fn unsettled(&self) -> u64 {
        let now = self.chunk.engine.seams.now();
        self.chunk.journal.unsettled(now)
    }

    /// Waits, in the engine's time. Not durable: for pacing, never for a delay that must survive a chunk.
    pub async fn pause(&self, duration: Duration) {
        // A run that pauses can go on: it isn't parked meanwhile.
        let _open = self.chunk.open();
        self.chunk.engine.seams.clock.sleep(duration).await;
    }

    /// The key at the end of this path, as it is stored.
    pub(crate) fn key(&self, path: impl IntoIterator<Item: AsRef<str>>) -> Result<StepKey, StepError> {
        let mut whole = self.scope.as_deref().unwrap_or_default().to_owned();
        for part in path {
            let part = part.as_ref();
            let encoded = key_part(part).map_err(|problem| StepError::BadKey {
                problem: format!("`{part}` can't be a key: {problem}"),
            })?;
            if !whole.is_empty() {
                whole.push('/');
            }
            whole.push_str(&encoded);
        }
        if whole.is_empty() || whole.len() > MAX_KEY_PATH_BYTES {
            let problem = format!(
                "`{whole}` has {} bytes with its scopes; at most {MAX_KEY_PATH_BYTES}",
                whole.len()
            );
            return Err(StepError::BadKey { problem });
        }
        Ok(StepKey::new(whole))
    }
}

/// Longer than any run: no step behind the first begins, and no sum of such overflows.
const LONGEST_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Spaces the beginnings of steps.
pub(crate) struct Pacer {
    interval: Duration,
    next: Mutex<Option<Duration>>,
}

impl Pacer {
    fn new(per_second: f64) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(LONGEST_INTERVAL);
        Self {
            interval: interval.min(LONGEST_INTERVAL),
            next: Mutex::default(),
        }
    }

    pub(crate) async fn turn(&self, seams: &Seams) {
        let now = seams.clock.monotonic();
        let mine = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = next.unwrap_or(now).max(now);
            *next = Some(mine + self.interval);
            mine
        };
        if mine > now {
            seams.clock.sleep(mine - now).await;
        }
    }
}
