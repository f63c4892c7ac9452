//! A question: registered in the log, and settled there once, by whatever comes first: an answer from outside, or its expiry.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use outlast_core::digest::input_digest;
use outlast_core::event::EventBody;
use outlast_core::fold::Settlement;
use outlast_core::limits::MAX_QUESTION_BYTES;
use outlast_core::{Payload, StepKey, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::chunk::Chunk;
use crate::step::{StepError, nondeterminism, same_kind};
use crate::wait::logged_or_away;

/// What is asked, and how it may be answered.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// From the first time on that the run comes to ask. Without it only the run's end ends the wait.
    pub expires_in: Option<Duration>,
    /// The answer if none comes in time. With the schema it may have 64 KB, as JSON.
    pub default: Option<Value>,
    /// The JSON Schema of an answer's value. One that doesn't satisfy it is turned away, and the question stays open.
    pub schema: Option<Value>,
}

/// A question that is registered. Its answer is waited for with [`Question::answer`].
#[derive(Clone)]
pub struct Question {
    chunk: Arc<Chunk>,
    key: StepKey,
    expires_at: Option<Timestamp>,
}

pub(crate) async fn ask(chunk: &Arc<Chunk>, key: StepKey, asked: Ask) -> Result<Question, StepError> {
    if !chunk.ask(&key) {
        return Err(StepError::DuplicateKey { key });
    }
    let _open = chunk.open();
    same_kind(chunk, &key, "a question").await;
    let (default, schema) = check(&key, &asked)?;
    let logged = chunk.journal.with_fold(|fold| fold.questions.get(&key).cloned());
    let expires_at = match logged {
        Some(logged) => {
            if !is_same(&logged.default, &default) || !is_same(&logged.schema, &schema) {
                let message = format!("question {key} was asked with another default or schema than now");
                nondeterminism::<()>(chunk, key.clone(), message).await;
            }
            logged.expires_at
        }
        None => {
            let now = chunk.engine.seams.now();
            let expires_at = asked.expires_in.map(|time| now + time);
            let required = EventBody::ApprovalRequired {
                key: key.clone(),
                expires_at,
                default,
                schema,
            };
            logged_or_away(chunk, required).await;
            expires_at
        }
    };
    Ok(Question {
        chunk: chunk.clone(),
        key,
        expires_at,
    })
}

fn check(key: &StepKey, asked: &Ask) -> Result<(Option<Payload>, Option<Payload>), StepError> {
    let bad = |problem: String| StepError::BadQuestion {
        key: key.clone(),
        problem,
    };
    let json = |value: &Option<Value>| value.as_ref().map(Payload::of).transpose();
    let default = json(&asked.default).map_err(|error| bad(error.to_string()))?;
    let schema = json(&asked.schema).map_err(|error| bad(error.to_string()))?;
    let bytes = [&default, &schema]
        .into_iter()
        .flatten()
        .map(Payload::len)
        .sum::<usize>();
    if bytes > MAX_QUESTION_BYTES {
        let problem = format!("its default and schema have {bytes} bytes; at most {MAX_QUESTION_BYTES}");
        return Err(bad(problem));
    }
    if let Some(schema) = &asked.schema {
        jsonschema::validator_for(schema).map_err(|error| bad(format!("its schema: {error}")))?;
    }
    Ok((default, schema))
}

/// The order of a map's keys doesn't count.
fn is_same(logged: &Option<Payload>, now: &Option<Payload>) -> bool {
    logged.as_ref().map(input_digest) == now.as_ref().map(input_digest)
}

impl Question {
    /// Under which it is answered: the path of its scopes, as in the log.
    pub fn key(&self) -> &StepKey {
        &self.key
    }

    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// The answer, when it is there: its value; the error that it was answered with, as [`StepError::Failed`]; or, once its time has
    /// passed, the default, or [`StepError::Expired`]. The first of these in the log settles it for good.
    ///
    /// A value that is no `T` is [`StepError::BadAnswer`]: ask with a schema, and it is turned away at the door.
    pub async fn answer<T: DeserializeOwned>(&self) -> Result<T, StepError> {
        let key = self.key.clone();
        let value = match self.settled().await {
            Settlement::Value(value) | Settlement::Expired(Some(value)) => value,
            Settlement::Error(error) => return Err(StepError::Failed { key, error }),
            Settlement::Expired(None) => return Err(StepError::Expired { key }),
        };
        value.decode().map_err(|error| StepError::BadAnswer {
            key,
            problem: error.to_string(),
        })
    }

    async fn settled(&self) -> Settlement {
        let Self { chunk, key, expires_at } = self;
        let seams = &chunk.engine.seams;
        let _open = chunk.open();
        loop {
            let mut grown = Box::pin(chunk.journal.grown());
            // From here on, so that nothing is missed between the look and the wait.
            grown.as_mut().enable();
            let settled = |question: &outlast_core::fold::Question| question.settled.clone();
            if let Some(settled) = chunk
                .journal
                .with_fold(|fold| fold.questions.get(key).and_then(settled))
            {
                return settled;
            }
            match expires_at {
                Some(at) if *at <= seams.now() => {
                    chunk.expire(key);
                    grown.await;
                }
                Some(at) => {
                    let _blocked = chunk.await_answer(key, *expires_at);
                    select(grown, Box::pin(seams.sleep_until(*at))).await;
                }
                None => {
                    let _blocked = chunk.await_answer(key, None);
                    grown.await;
                }
            }
        }
    }
}
