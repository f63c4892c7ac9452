//! What the engine says, as clients get it. What they must not know goes to the logs.

use outlast_core::limits::{MAX_ANSWER_BYTES, MAX_RUN_VALUE_BYTES};
use outlast_engine::EngineError;
use outlast_engine::accept::NotAccepted;
use outlast_engine::answer::NotAnswered;
use outlast_engine::continue_inline::NotContinued;
use outlast_engine::dispatch::DeliveryError;
use outlast_engine::process::ProcessError;
use outlast_store::StoreError;
use tracing::{error, warn};

use super::{Code, Problem};
use crate::view;

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NotFound => Problem::of(Code::RunNotFound),
            EngineError::Refused(refusal) => {
                Problem::new(Code::RunConflict, refusal.to_string()).with("refusal", refusal.code())
            }
            EngineError::UnknownAgent(name) => {
                error!(agent = name, "a run's agent is not part of this deployment");
                Problem::of(Code::Internal)
            }
            EngineError::Store(error) => error.into(),
            EngineError::ChunkDied => {
                error!("a chunk's task died");
                Problem::of(Code::Internal)
            }
        }
    }
}

impl From<NotContinued> for Problem {
    fn from(error: NotContinued) -> Self {
        match error {
            NotContinued::NotInline => Problem::new(Code::NotInline, error.to_string()),
            NotContinued::Engine(error) => error.into(),
        }
    }
}

impl From<NotAnswered> for Problem {
    fn from(not_answered: NotAnswered) -> Self {
        let detail = not_answered.to_string();
        match not_answered {
            NotAnswered::NotAsked { key } => Problem::new(Code::QuestionNotFound, detail).with("key", key),
            NotAnswered::Settled { key } => Problem::new(Code::AlreadyAnswered, detail).with("key", key.as_str()),
            NotAnswered::AgainstSchema { key, pointer, .. } => Problem::new(Code::AnswerRefused, detail)
                .with("key", key.as_str())
                .with("pointer", pointer),
            NotAnswered::TooLarge { bytes } => Problem::new(Code::AnswerTooLarge, detail)
                .with("bytes", bytes)
                .with("limitBytes", MAX_ANSWER_BYTES),
            NotAnswered::Engine(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                warn!(%error, "answered 503");
                Problem::of(Code::StoreUnavailable)
            }
            StoreError::Corrupt(_) => {
                error!(%error, "a run is corrupt");
                Problem::of(Code::CorruptRun)
            }
            StoreError::UnknownSchema(_) => {
                warn!(%error, "answered 503");
                Problem::of(Code::NewerSchema)
            }
            StoreError::TooLarge(_) => {
                warn!(%error, "refused as too large");
                Problem::new(Code::InputTooLarge, "it doesn't fit into what is stored of a run")
            }
            StoreError::Rejected(_) => {
                error!(%error, "the store refuses a request");
                Problem::of(Code::Internal)
            }
        }
    }
}

impl From<NotAccepted> for Problem {
    fn from(not_accepted: NotAccepted) -> Self {
        let detail = not_accepted.to_string();
        match not_accepted {
            NotAccepted::UnknownAgent(name) => Problem::new(Code::UnknownAgent, detail).with("agent", name),
            NotAccepted::BadInput(bad) => {
                let problem = Problem::of_input(bad.malformed, bad.code, bad.message);
                match bad.pointer {
                    Some(pointer) => problem.with("pointer", pointer),
                    None => problem,
                }
            }
            NotAccepted::InputTooLarge { bytes } => Problem::new(Code::InputTooLarge, detail)
                .with("bytes", bytes)
                .with("limitBytes", MAX_RUN_VALUE_BYTES),
            NotAccepted::BadKey { field, .. } => Problem::new(Code::BadKey, detail).with("field", field),
            NotAccepted::BadEnd => Problem::new(Code::BadEndTime, detail).with("field", "endsAt"),
            NotAccepted::ThreadBusy(run) => Problem::new(Code::ThreadBusy, detail)
                .with("activeRunId", run.id.as_str())
                .with("waitsFor", view::waits_for(&run))
                .with("activeStatus", run.status.as_str()),
            NotAccepted::TurnMismatch { run_id } => {
                Problem::new(Code::IdempotencyMismatch, detail).with("runId", run_id.as_str())
            }
            NotAccepted::Engine(EngineError::NotFound) => {
                error!("an idempotency key names a run that isn't there");
                Problem::of(Code::Internal)
            }
            NotAccepted::Engine(error) => error.into(),
        }
    }
}

impl From<ProcessError> for Problem {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Delivery(DeliveryError::Token(error)) => {
                warn!(%error, "a dispatch was turned away");
                Problem::new(Code::BadDispatchToken, error.to_string())
            }
            ProcessError::Delivery(
                error @ (DeliveryError::Body | DeliveryError::Host { .. } | DeliveryError::NotDispatching),
            ) => {
                warn!(%error, "a dispatch was turned away");
                Problem::new(Code::BadDispatch, error.to_string())
            }
            ProcessError::Engine(error) => error.into(),
        }
    }
}
