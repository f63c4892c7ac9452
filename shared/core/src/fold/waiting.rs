//! What a run waits for, as its log has it: points in time, answers, and branches of which not all are needed.

use std::collections::{HashMap, HashSet};

use crate::event::{Event, EventBody};
use crate::ids::StepKey;
use crate::outcome::ErrorInfo;
use crate::payload::Payload;
use crate::step::StepState;
use crate::time::Timestamp;

use super::{Corrupt, Fold};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub until: Timestamp,
    pub ended: bool,
}

/// Something that the run's code has asked outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where it stands in the log.
    pub seq: u64,
    pub expires_at: Option<Timestamp>,
    pub default: Option<Payload>,
    pub schema: Option<Payload>,
    /// The first that the log has, for good.
    pub settled: Option<Settlement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Value(Payload),
    Error(ErrorInfo),
    /// No answer came in time.
    Expired(Option<Payload>),
}

/// Of branches that nobody waits for any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// In the order of the plan: each step without a result is released or, where it may have acted and can't be repeated, unknown.
    pub to_log: Vec<EventBody>,
    /// Branches with a step whose outcome is unknown.
    pub unknown: HashSet<StepKey>,
}

/// What a key was used for. It is used for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Step,
    Wait,
    Question,
    Parallel,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Step => "a step",
            Kind::Wait => "a wait",
            Kind::Question => "a question",
            Kind::Parallel => "a parallel",
        }
    }
}

fn corrupt<T>(event: &Event, what: String) -> Result<T, Corrupt> {
    Err(Corrupt { seq: event.seq, what })
}

impl Fold {
    /// What the log has this key for, in words.
    pub fn kind_of(&self, key: &StepKey) -> Option<&'static str> {
        self.used_for(key).map(Kind::name)
    }

    fn used_for(&self, key: &StepKey) -> Option<Kind> {
        if self.steps.contains_key(key) {
            Some(Kind::Step)
        } else if self.waits.contains_key(key) {
            Some(Kind::Wait)
        } else if self.questions.contains_key(key) {
            Some(Kind::Question)
        } else if self.parallels.contains_key(key) {
            Some(Kind::Parallel)
        } else {
            None
        }
    }

    pub(super) fn unused_but_by(&self, kind: Kind, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        match self.used_for(key) {
            Some(other) if other != kind => {
                let (is, was) = (kind.name(), other.name());
                corrupt(event, format!("{key} is {is} and was {was}"))
            }
            _ => Ok(()),
        }
    }

    fn unused(&self, kind: Kind, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        match self.used_for(key) {
            Some(other) => {
                let (is, was) = (kind.name(), other.name());
                corrupt(event, format!("{key} is {is} and was {was} before"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn wait_started(&mut self, key: &StepKey, until: Timestamp, event: &Event) -> Result<(), Corrupt> {
        self.unused(Kind::Wait, key, event)?;
        self.waits.insert(key.clone(), Wait { until, ended: false });
        self.turns += 1;
        Ok(())
    }

    pub(super) fn wait_ended(&mut self, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        match self.waits.get_mut(key) {
            Some(wait) if !wait.ended => wait.ended = true,
            _ => return corrupt(event, format!("the end of wait {key}, which is not under way")),
        }
        self.turns += 1;
        Ok(())
    }

    pub(super) fn asked(&mut self, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        let EventBody::ApprovalRequired {
            expires_at,
            default,
            schema,
            ..
        } = &event.body
        else {
            return Ok(());
        };
        self.unused(Kind::Question, key, event)?;
        let question = Question {
            seq: event.seq,
            expires_at: *expires_at,
            default: default.clone(),
            schema: schema.clone(),
            settled: None,
        };
        self.questions.insert(key.clone(), question);
        self.turns += 1;
        Ok(())
    }

    pub(super) fn answered(&mut self, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        let EventBody::AnswerRecorded {
            value, error, expired, ..
        } = &event.body
        else {
            return Ok(());
        };
        let settlement = match (value, error, expired) {
            (default, None, true) => Settlement::Expired(default.clone()),
            (Some(value), None, false) => Settlement::Value(value.clone()),
            (None, Some(error), false) => Settlement::Error(error.clone()),
            _ => return corrupt(event, format!("an answer to {key} that is not one thing")),
        };
        let Some(question) = self.questions.get_mut(key) else {
            return corrupt(event, format!("an answer to {key}, which nobody asked"));
        };
        if question.settled.is_some() {
            return corrupt(event, format!("a second answer to {key}"));
        }
        if *expired && question.expires_at.is_none() {
            return corrupt(event, format!("{key} expired, and has no time to"));
        }
        question.settled = Some(settlement);
        self.answers += u64::from(!expired);
        self.turns += 1;
        Ok(())
    }

    pub(super) fn parallel_ended(&mut self, key: &StepKey, result: &Payload, event: &Event) -> Result<(), Corrupt> {
        self.unused(Kind::Parallel, key, event)?;
        self.parallels.insert(key.clone(), result.clone());
        self.turns += 1;
        Ok(())
    }

    /// Takes a step out of N. One that may have acted and may not be repeated can't be: its outcome is unknown.
    pub(super) fn release(&mut self, key: &StepKey, event: &Event) -> Result<(), Corrupt> {
        match self.steps.get_mut(key) {
            Some(step) if may_be_released(&step.state, step.idempotent) => step.state = StepState::Released,
            _ => return corrupt(event, format!("step {key} was released and can't be")),
        }
        self.totals.planned -= 1;
        self.totals.released += 1;
        self.finals += 1;
        Ok(())
    }

    /// Whether a `parallel` that this key belongs to was decided: nothing more of it is asked for.
    pub fn is_decided(&self, key: &StepKey) -> bool {
        key.scopes().any(|scope| self.parallels.contains_key(&scope))
    }

    /// What branches of a decided `parallel` leave behind that have no result, given their scopes.
    pub fn left_behind(&self, branches: &HashSet<StepKey>) -> LeftBehind {
        let mut left = LeftBehind::default();
        for key in &self.order {
            let Some(branch) = key.scopes().find(|scope| branches.contains(scope)) else {
                continue;
            };
            let Some(step) = self.steps.get(key) else { continue };
            let unknown = || EventBody::StepUnknown {
                key: key.clone(),
                attempt: step.attempt,
            };
            if may_be_released(&step.state, step.idempotent) {
                left.to_log.push(EventBody::StepReleased { key: key.clone() });
            } else if !step.state.is_final() {
                left.to_log.push(unknown());
                left.unknown.insert(branch);
            } else if step.state == StepState::Unknown {
                left.unknown.insert(branch);
            }
        }
        left
    }

    /// Whether a parked run waits for the answer to this question.
    pub fn is_awaited(&self, key: &StepKey) -> bool {
        let awaits = self.awaits.as_ref();
        awaits.is_some_and(|keys| keys.is_empty() || keys.contains(key))
    }

    /// The questions that an answer would settle, in the order in which they were asked.
    pub fn open_questions(&self) -> Vec<(&StepKey, &Question)> {
        let mut open: Vec<_> = open(&self.questions).filter(|(key, _)| !self.is_decided(key)).collect();
        open.sort_by_key(|(_, question)| question.seq);
        open
    }
}

fn open(questions: &HashMap<StepKey, Question>) -> impl Iterator<Item = (&StepKey, &Question)> {
    questions.iter().filter(|(_, question)| question.settled.is_none())
}

fn may_be_released(state: &StepState, idempotent: bool) -> bool {
    match state {
        StepState::Planned | StepState::Retrying { .. } => true,
        StepState::Started { .. } => idempotent,
        StepState::Committed { .. } | StepState::Failed { .. } | StepState::Unknown | StepState::Released => false,
    }
}
