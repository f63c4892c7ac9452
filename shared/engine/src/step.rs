//! A step: found in the log, or started once the log says so, run, and committed once.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Either, select};
use outlast_core::digest::input_digest;
use outlast_core::event::EventBody;
use outlast_core::limits::MAX_EVENT_BYTES;
use outlast_core::outcome::{AgentResult, ErrorInfo};
use outlast_core::step::{StepPolicy, StepState};
use outlast_core::{Payload, StepKey, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::append::Logged;
use crate::chunk::Chunk;
use crate::ctx::Pacer;

/// What a body is told of its call.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// `<run>/<step key>`: the same for every attempt. Hand it to whatever can tell a repetition by it.
    pub idempotency_key: String,
    pub attempt: u64,
    pub epoch: u64,
    /// When the body is cut off.
    pub deadline: Timestamp,
    /// Fires when the run is stopped: end soon.
    pub cancelled: CancellationToken,
}

/// What a body says of its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyError {
    pub error: ErrorInfo,
    /// Whether another attempt may fare better.
    pub retryable: bool,
    /// Not before this has passed: what a server asked for.
    pub retry_after: Option<Duration>,
    /// The effect may be there all the same. Of a step that may not be repeated the outcome is then unknown.
    pub may_have_acted: bool,
}

impl BodyError {
    /// The step has failed for good. `kind` is one word for programs; 2,000 bytes of the message are kept.
    pub fn permanent(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            error: ErrorInfo::new(kind, message),
            retryable: false,
            retry_after: None,
            may_have_acted: false,
        }
    }

    /// Another attempt follows, if the step's policy has one left; otherwise the step has failed for good.
    pub fn retryable(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            error: ErrorInfo::new(kind, message),
            retryable: true,
            retry_after: None,
            may_have_acted: false,
        }
    }

    /// The body can't tell whether its effect is there: it was sent and no answer came. An idempotent step is tried
    /// again; of any other the outcome is unknown.
    pub fn unknown(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            may_have_acted: true,
            ..Self::retryable(kind, message)
        }
    }
}

/// Why a step has no result. The same, every time the agent's code comes by.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StepError {
    #[error("step {key} failed: {}", .error.message)]
    Failed { key: StepKey, error: ErrorInfo },
    /// A body began, was interrupted, and may not be run again: whether it did its work is not known.
    #[error("the outcome of step {key} is unknown: it was interrupted and is not idempotent")]
    Unknown { key: StepKey },
    #[error("duplicate_key: step {key} was asked for twice")]
    DuplicateKey { key: StepKey },
    #[error("bad_key: {problem}")]
    BadKey { problem: String },
    #[error("step_too_long: step {key} may take {asked:?}; a chunk here has {longest:?} for it")]
    TooLong {
        key: StepKey,
        asked: Duration,
        longest: Duration,
    },
    #[error("bad_input: the input of step {key} can't be written as JSON: {problem}")]
    BadInput { key: StepKey, problem: String },
    #[error("wait_too_long: wait {key} would last until the run's end, or beyond it")]
    WaitTooLong {
        key: StepKey,
        until: Timestamp,
        ends_at: Timestamp,
    },
    #[error("bad_question: {key} can't be asked: {problem}")]
    BadQuestion { key: StepKey, problem: String },
    /// Nobody answered in time, and there is no default.
    #[error("expired: nobody answered {key} in time")]
    Expired { key: StepKey },
    /// It was answered with something else than the code takes.
    #[error("bad_answer: the answer to {key} can't be used: {problem}")]
    BadAnswer { key: StepKey, problem: String },
    /// Nothing was started.
    #[error("bad_limits: {key} can't be run so: {problem}")]
    BadLimits { key: StepKey, problem: String },
}

impl StepError {
    /// The error as an agent that doesn't handle it ends with.
    pub fn into_info(self) -> ErrorInfo {
        match self {
            StepError::Failed { key, error } => error.at(key),
            StepError::Unknown { ref key } => ErrorInfo::new("step_unknown", self.to_string()).at(key.clone()),
            StepError::DuplicateKey { ref key } => ErrorInfo::new("duplicate_key", self.to_string()).at(key.clone()),
            StepError::BadKey { .. } => ErrorInfo::new("bad_key", self.to_string()),
            StepError::TooLong { ref key, .. } => ErrorInfo::new("step_too_long", self.to_string()).at(key.clone()),
            StepError::BadInput { ref key, .. } => ErrorInfo::new("bad_input", self.to_string()).at(key.clone()),
            StepError::WaitTooLong { ref key, .. } => ErrorInfo::new("wait_too_long", self.to_string()).at(key.clone()),
            StepError::BadQuestion { ref key, .. } => ErrorInfo::new("bad_question", self.to_string()).at(key.clone()),
            StepError::Expired { ref key } => ErrorInfo::new("expired", self.to_string()).at(key.clone()),
            StepError::BadAnswer { ref key, .. } => ErrorInfo::new("bad_answer", self.to_string()).at(key.clone()),
            StepError::BadLimits { ref key, .. } => ErrorInfo::new("bad_limits", self.to_string()).at(key.clone()),
        }
    }
}

impl From<StepError> for ErrorInfo {
    fn from(error: StepError) -> Self {
        error.into_info()
    }
}

pub(crate) async fn step<T, F, Fut>(
    chunk: &Arc<Chunk>,
    key: StepKey,
    input: &(impl Serialize + ?Sized),
    policy: StepPolicy,
    pacer: Option<&Pacer>,
    body: F,
) -> Result<T, StepError>
where
    T: Serialize + DeserializeOwned,
    F: Fn(StepCall) -> Fut,
    Fut: Future<Output = Result<T, BodyError>>,
{
    if !chunk.ask(&key) {
        return Err(StepError::DuplicateKey { key });
    }
    let _open = chunk.open();
    same_kind(chunk, &key, "a step").await;
    let input = Payload::of(input).map_err(|error| StepError::BadInput {
        key: key.clone(),
        problem: error.to_string(),
    })?;
    let digest = input_digest(&input);
    let mut next = match find(chunk, &key, &digest).await {
        Found::Result(result) => return result.and_then_decode(chunk, key).await,
        Found::Attempt(next) => next,
    };
    if let Some(asked) = policy.timeout.filter(|timeout| *timeout > chunk.longest_body) {
        return Err(StepError::TooLong {
            key,
            asked,
            longest: chunk.longest_body,
        });
    }
    loop {
        wait_for_turn(chunk, next.not_before, pacer).await;
        let attempt = begin(chunk, &key, &digest, &policy, next.attempt).await;
        let ended = run_body(chunk, &attempt.call, &policy, &body).await;
        let (event, outcome) = judge(chunk, &key, &policy, attempt.call.attempt, ended);
        chunk.journal.accept(event);
        drop(attempt);
        match outcome {
            Outcome::Final(result) => return result.and_then_decode(chunk, key).await,
            Outcome::Again { not_before } => {
                next = NextAttempt {
                    attempt: next.attempt + 1,
                    not_before: Some(not_before),
                }
            }
        }
    }
}

enum Found {
    Result(Settled),
    Attempt(NextAttempt),
}

struct NextAttempt {
    attempt: u64,
    not_before: Option<Timestamp>,
}

/// What a step has come to for good.
enum Settled {
    Committed(Payload),
    Failed(ErrorInfo),
    Unknown,
}

impl Settled {
    /// The result is decoded from the committed bytes, in the first pass too: what doesn't decode now wouldn't later.
    async fn and_then_decode<T: DeserializeOwned>(self, chunk: &Chunk, key: StepKey) -> Result<T, StepError> {
        match self {
            Settled::Committed(result) => match result.decode() {
                Ok(value) => Ok(value),
                Err(error) => {
                    let message = format!("the committed result of step {key} doesn't decode: {error}");
                    nondeterminism(chunk, key, message).await
                }
            },
            Settled::Failed(error) => Err(StepError::Failed { key, error }),
            Settled::Unknown => Err(StepError::Unknown { key }),
        }
    }
}

/// What the log says of the step, by its key and never by its position.
async fn find(chunk: &Chunk, key: &StepKey, digest: &str) -> Found {
    let Some(recorded) = chunk.recorded(key) else {
        return Found::Attempt(NextAttempt {
            attempt: 1,
            not_before: None,
        });
    };
    if recorded.input_digest.as_deref().is_some_and(|logged| logged != digest) {
        let message = format!("step {key} was started with another input than it is asked for with now");
        nondeterminism::<()>(chunk, key.clone(), message).await;
    }
    match recorded.state {
        StepState::Committed { result } => Found::Result(Settled::Committed(result)),
        StepState::Failed { error } => Found::Result(Settled::Failed(error)),
        StepState::Unknown => Found::Result(Settled::Unknown),
        StepState::Released => {
            let message = format!("step {key} was released: what asked for it was decided without it");
            nondeterminism(chunk, key.clone(), message).await
        }
        StepState::Planned => Found::Attempt(NextAttempt {
            attempt: 1,
            not_before: None,
        }),
        // An interruption uses up no attempt.
        StepState::Started { .. } => Found::Attempt(NextAttempt {
            attempt: recorded.attempt,
            not_before: None,
        }),
        StepState::Retrying { not_before, .. } => Found::Attempt(NextAttempt {
            attempt: recorded.attempt + 1,
            not_before: Some(not_before),
        }),
    }
}

/// Goes on if the log has the key for nothing else.
pub(crate) async fn same_kind(chunk: &Chunk, key: &StepKey, kind: &str) {
    let (logged, is_decided) = chunk
        .journal
        .with_fold(|fold| (fold.kind_of(key), fold.is_decided(key)));
    if is_decided {
        let message = format!("{key} is asked for, and what it is part of was decided");
        nondeterminism::<()>(chunk, key.clone(), message).await;
    }
    if let Some(logged) = logged.filter(|logged| *logged != kind) {
        let message = format!("{key} is {kind} now and was {logged} before");
        nondeterminism::<()>(chunk, key.clone(), message).await;
    }
}

/// Ends the run loudly; the agent's code does not go on.
pub(crate) async fn nondeterminism<T>(chunk: &Chunk, key: StepKey, message: String) -> T {
    chunk.give_up(AgentResult::Nondeterministic(
        ErrorInfo::new("nondeterminism", message).at(key),
    ));
    std::future::pending().await
}

async fn wait_for_turn(chunk: &Arc<Chunk>, not_before: Option<Timestamp>, pacer: Option<&Pacer>) {
    if let Some(at) = not_before {
        let _delayed = chunk.delay_until(at);
        chunk.engine.seams.sleep_until(at).await;
    }
    if let Some(pacer) = pacer {
        pacer.turn(&chunk.engine.seams).await;
    }
}

struct Begun {
    call: StepCall,
    _in_hand: crate::chunk::InHand,
}

/// Returns once the log lets the body begin; never, if it may not in this chunk.
async fn begin(chunk: &Arc<Chunk>, key: &StepKey, digest: &str, policy: &StepPolicy, attempt: u64) -> Begun {
    let now = chunk.engine.seams.now();
    let cut_off = chunk.time.grace_ends_at;
    let deadline = policy.timeout.map_or(cut_off, |timeout| now + timeout);
    // Declared and too long for what is left: the next chunk's.
    if chunk.closing.is_cancelled() || deadline > cut_off {
        chunk.turn_away().await;
    }
    let in_hand = chunk.take_in_hand();
    let started = chunk.journal.log(EventBody::StepStarted {
        key: key.clone(),
        attempt,
        idempotent: policy.idempotent,
        input_digest: digest.to_owned(),
        deadline: Some(deadline),
    });
    let landed = started.await == Ok(Logged::Landed);
    if !landed || !chunk.lease.is_trusted(chunk.engine.seams.clock.monotonic()) {
        drop(in_hand);
        chunk.turn_away().await;
        unreachable!("a step that was turned away does not come back");
    }
    let call = StepCall {
        idempotency_key: format!("{}/{key}", chunk.first_of_chain),
        attempt,
        epoch: chunk.epoch,
        deadline,
        cancelled: chunk.cancelled.clone(),
    };
    Begun {
        call,
        _in_hand: in_hand,
    }
}

/// Runs the body to its end, its deadline, or its panic.
async fn run_body<T, F, Fut>(chunk: &Chunk, call: &StepCall, policy: &StepPolicy, body: &F) -> Result<T, BodyError>
where
    F: Fn(StepCall) -> Fut,
    Fut: Future<Output = Result<T, BodyError>>,
{
    let started = call.clone();
    let running = AssertUnwindSafe(async move { body(started).await }).catch_unwind();
    let ended = match policy.timeout {
        None => running.await,
        Some(timeout) => match select(Box::pin(running), chunk.engine.seams.clock.sleep(timeout)).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => {
                let message = format!("the step was cut off after {timeout:?}");
                return Err(BodyError::unknown("timeout", message));
            }
        },
    };
    ended.unwrap_or_else(|panic| Err(BodyError::permanent("panic", panic_message(&*panic))))
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

enum Outcome {
    Final(Settled),
    Again { not_before: Timestamp },
}

/// What is logged of an attempt, and what follows.
fn judge<T: Serialize>(
    chunk: &Chunk,
    key: &StepKey,
    policy: &StepPolicy,
    attempt: u64,
    ended: Result<T, BodyError>,
) -> (EventBody, Outcome) {
    let failure = match ended.map(|value| committable(&value)) {
        Ok(Ok(result)) => {
            let event = EventBody::StepCommitted {
                key: key.clone(),
                attempt,
                result: result.clone(),
            };
            return (event, Outcome::Final(Settled::Committed(result)));
        }
        Ok(Err(refused)) => refused,
        Err(failure) => failure,
    };
    let error = failure.error;
    let backoff = policy.backoff(attempt, chunk.engine.seams.draw());
    let not_before = chunk.engine.seams.now() + backoff.max(failure.retry_after.unwrap_or_default());
    // An attempt that the run will not live to see is none; waiting for it would keep all else until then.
    if failure.retryable && attempt < policy.max_attempts && not_before < chunk.ends_at {
        let event = EventBody::StepRetrying {
            key: key.clone(),
            attempt,
            error,
            not_before,
        };
        return (event, Outcome::Again { not_before });
    }
    if failure.may_have_acted && !policy.idempotent {
        tracing::warn!(run = %chunk.run, step = %key, error = error.message, "a step's outcome is unknown");
        let event = EventBody::StepUnknown {
            key: key.clone(),
            attempt,
        };
        return (event, Outcome::Final(Settled::Unknown));
    }
    let event = EventBody::StepFailed {
        key: key.clone(),
        attempt,
        error: error.clone(),
    };
    (event, Outcome::Final(Settled::Failed(error)))
}

/// The result as it will be committed, or why it can't be: the step did its work and fails all the same.
fn committable(value: &impl Serialize) -> Result<Payload, BodyError> {
    let result = Payload::of(value)
        .map_err(|error| BodyError::permanent("bad_result", format!("the result can't be written as JSON: {error}")))?;
    if result.len() > MAX_EVENT_BYTES {
        let message = format!(
            "the result has {} bytes; at most {MAX_EVENT_BYTES} are kept: store it elsewhere and return where",
            result.len()
        );
        return Err(BodyError::permanent("result_too_large", message));
    }
    Ok(result)
}
