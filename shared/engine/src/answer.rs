//! Answers from outside. One transaction of the answer's item, the row and the event: the first answer of a question is its answer.

use std::sync::Arc;

use outlast_core::fold::Question;
use outlast_core::key::key_part;
use outlast_core::limits::{CONTROL_APPEND_TRIES, MAX_ANSWER_BYTES};
use outlast_core::outcome::ErrorInfo;
use outlast_core::{Change, Command, Fold, Owner, Payload, Refusal, Run, RunId, Status, StepKey, Then, apply};
use outlast_store::{AnswerRecord, AnswerWrite, StoreError};
use serde_json::Value;
use thiserror::Error;

use crate::control::{control_page, owned_run, read_on};
use crate::dispatch::dispatch;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::owed::recorded;

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Value(Payload),
    /// The code that asked gets it as a failure.
    Error(ErrorInfo),
}

/// Nothing was settled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAnswered {
    #[error("the run has not asked `{key}`")]
    NotAsked { key: String },
    /// It was answered, or expired, or nobody waits for it any more. The late answer is kept.
    #[error("`{key}` is settled")]
    Settled { key: StepKey },
    #[error("the value is not what `{key}` takes: {problem}")]
    AgainstSchema {
        key: StepKey,
        problem: String,
        /// Where in the value, as a JSON pointer.
        pointer: String,
    },
    #[error("the answer has {bytes} bytes; at most {MAX_ANSWER_BYTES} are accepted")]
    TooLarge { bytes: usize },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for NotAnswered {
    fn from(error: StoreError) -> Self {
        NotAnswered::Engine(error.into())
    }
}

/// Settles a question of the run, whatever its live status; a run that is parked for it is queued and dispatched. Returns the row.
///
/// `key` is the question's as the log has it, or its parts as they were written, joined by slashes.
pub async fn answer(
    engine: &Arc<Engine>,
    owner: &Owner,
    id: &RunId,
    key: &str,
    answer: Answer,
) -> Result<Run, NotAnswered> {
    let (value, error) = match answer {
        Answer::Value(value) => (Some(value), None),
        Answer::Error(error) => (None, Some(error)),
    };
    let bytes = value.as_ref().map_or(0, Payload::len);
    if bytes > MAX_ANSWER_BYTES {
        return Err(NotAnswered::TooLarge { bytes });
    }
    let mut run = owned_run(engine, owner, id).await?;
    let mut fold = Fold::default();
    read_on(&engine.store, id, &mut fold).await?;
    let key = find(&fold, key)?;
    if let Some(value) = &value {
        check(&fold, &key, value)?;
    }
    let record = AnswerRecord {
        key,
        value,
        error,
        expired: false,
        at: engine.seams.now(),
    };
    let mut tail_lost = 0;
    loop {
        match try_to_answer(engine, &run, &fold, &record, tail_lost).await? {
            Tried::Landed(change) => {
                engine.hints.grew(id, 0);
                if change.then == Then::Dispatch {
                    dispatch(engine, &change.run).await;
                }
                return Ok(change.run);
            }
            Tried::TooLate(refusal) => {
                engine
                    .store
                    .keep_evidence(&run, &record, &engine.seams.write_id())
                    .await?;
                return Err(match refusal {
                    Some(refusal) => NotAnswered::Engine(refusal.into()),
                    None => NotAnswered::Settled { key: record.key },
                });
            }
            Tried::RowChanged(Some(row)) => run = *row,
            Tried::RowChanged(None) => return Err(EngineError::NotFound.into()),
            Tried::TailMoved => tail_lost += 1,
        }
        read_on(&engine.store, id, &mut fold).await?;
    }
}

enum Tried {
    Landed(Box<Change>),
    /// The question is settled, or the run has ended.
    TooLate(Option<Refusal>),
    RowChanged(Option<Box<Run>>),
    TailMoved,
}

async fn try_to_answer(
    engine: &Engine,
    run: &Run,
    fold: &Fold,
    record: &AnswerRecord,
    tail_lost: usize,
) -> Result<Tried, EngineError> {
    if !is_open(fold, &record.key) {
        return Ok(Tried::TooLate(None));
    }
    let now = engine.seams.now();
    let command = Command::Answer {
        awaited: run.status == Status::Waiting && fold.is_awaited(&record.key),
        timing: engine.timing,
    };
    let mut change = match apply(run, &command, now) {
        Ok(change) => change,
        Err(refusal) => return Ok(Tried::TooLate(Some(refusal))),
    };
    if fold.tail.ended {
        let what = format!("at seq {}: a terminal event whose row is live", fold.tail.seq);
        // Unless the end has landed since the row was read.
        return match engine.store.load_run(&run.id).await? {
            Some(row) if row.version != run.version => Ok(Tried::RowChanged(Some(Box::new(row)))),
            _ => Err(StoreError::Corrupt(what).into()),
        };
    }
    change.run.write_id = engine.seams.write_id();
    // A busy holder keeps winning the tail. It owes the event: its next beat tells it. It can owe one at a time.
    let is_owed = tail_lost >= CONTROL_APPEND_TRIES && run.status == Status::Running && run.answer_unlogged.is_none();
    let page = match is_owed {
        true => {
            change.run.answer_unlogged = Some(record.key.clone());
            None
        }
        false => {
            let event = recorded(record.clone());
            Some(control_page(&change.run, fold.tail, fold.totals, vec![event], now))
        }
    };
    let wrote = engine
        .store
        .write_answer(run, &change.run, record, page.as_ref())
        .await?;
    Ok(match wrote {
        AnswerWrite::Landed(row) => {
            change.run = *row;
            Tried::Landed(Box::new(change))
        }
        AnswerWrite::RowChanged(row) => Tried::RowChanged(row),
        AnswerWrite::TailMoved => Tried::TailMoved,
        AnswerWrite::Taken => Tried::TooLate(None),
    })
}

fn is_open(fold: &Fold, key: &StepKey) -> bool {
    let question = fold.questions.get(key);
    question.is_some_and(|question| question.settled.is_none()) && !fold.is_decided(key)
}

/// The question that is meant: by its key as the log has it; or as it was written, each part of its path encoded; or as one part.
fn find(fold: &Fold, key: &str) -> Result<StepKey, NotAnswered> {
    let by_part: Option<Vec<String>> = key.split('/').map(|part| key_part(part).ok()).collect();
    let candidates = [
        Some(key.to_owned()),
        by_part.map(|parts| parts.join("/")),
        key_part(key).ok(),
    ];
    let mut candidates = candidates.into_iter().flatten().map(StepKey::new);
    candidates
        .find(|key| fold.questions.contains_key(key))
        .ok_or_else(|| NotAnswered::NotAsked { key: key.to_owned() })
}

/// Before anything else is looked at: what is against the schema is no answer, early or late.
fn check(fold: &Fold, key: &StepKey, value: &Payload) -> Result<(), NotAnswered> {
    let schema = |question: &Question| question.schema.clone();
    let Some(schema) = fold.questions.get(key).and_then(schema) else {
        return Ok(());
    };
    let corrupt = |what: String| NotAnswered::from(StoreError::Corrupt(format!("the schema of {key}: {what}")));
    let schema: Value = schema.decode().map_err(|error| corrupt(error.to_string()))?;
    let validator = jsonschema::validator_for(&schema).map_err(|error| corrupt(error.to_string()))?;
    let against = |problem: String, pointer: String| NotAnswered::AgainstSchema {
        key: key.clone(),
        problem,
        pointer,
    };
    // A number may be too large to be looked at.
    let value: Value = value
        .decode()
        .map_err(|error| against(error.to_string(), String::new()))?;
    validator
        .validate(&value)
        .map_err(|error| against(error.to_string(), error.instance_path().to_string()))
}
