//! What a reader of the whole log knows: the tail, the steps, the flags. Every rule of the log is checked on the way.

mod ending;
mod waiting;

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::event::{Event, EventBody};
use crate::ids::StepKey;
use crate::page::{Page, Writer};
use crate::payload::Payload;
use crate::run::Totals;
use crate::step::{Step, StepState};

pub use waiting::{LeftBehind, Question, Settlement, Wait};

use waiting::Kind;

/// The end of a log. Whoever reads it compares: an ended tail or a newer epoch fences its reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    pub seq: u64,
    pub epoch: u64,
    pub ended: bool,
}

/// A log that no writer of ours can have written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("corrupt_run: at seq {seq}: {what}")]
pub struct Corrupt {
    pub seq: u64,
    pub what: String,
}

/// The state after a prefix of the log.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    pub tail: Tail,
    pub input: Option<Payload>,
    /// The declared keys, in their order; then those that joined by starting, in theirs.
    pub order: Vec<StepKey>,
    pub steps: HashMap<StepKey, Step>,
    pub emitted: HashMap<StepKey, Payload>,
    pub waits: HashMap<StepKey, Wait>,
    pub questions: HashMap<StepKey, Question>,
    /// What each `parallel` and `map` came to.
    pub parallels: HashMap<StepKey, Payload>,
    /// The questions that a parked run waits for; `None` while it isn't parked.
    pub awaits: Option<HashSet<StepKey>>,
    /// Answers from outside.
    pub answers: u64,
    pub plan: Option<Payload>,
    pub stop_requested: bool,
    pub paused: bool,
    /// The highest epoch that has a `run.claimed`. A control page may carry a newer one: its row was claimed and the
    /// claimant hasn't come to its page yet.
    pub claimed_epoch: u64,
    /// The highest epoch that the log declares lost.
    pub lost_epoch: u64,
    pub totals: Totals,
    /// Steps of which nothing more will be logged; with `turns` what a chunk's progress is measured by.
    pub finals: u64,
    /// What else brings a run on: waits and questions that began or ended.
    pub turns: u64,
    /// Bytes of the pages so far. Whoever reads them adds them up: a page doesn't know its size in the store.
    pub log_bytes: u64,
}

impl Fold {
    /// Takes in the next page. After an error the fold is what had been read up to the fault.
    pub fn page(&mut self, page: &Page) -> Result<(), Corrupt> {
        let first_seq = page.events.first().map_or(self.tail.seq + 1, |event| event.seq);
        let corrupt = |seq: u64, what: String| Err(Corrupt { seq, what });
        if page.events.is_empty() {
            return corrupt(first_seq, "a page without events".into());
        }
        if page.epoch < self.tail.epoch {
            return corrupt(
                first_seq,
                format!("epoch {} after epoch {}", page.epoch, self.tail.epoch),
            );
        }
        for event in &page.events {
            let is_of_its_page = match event.body {
                EventBody::RunClaimed { epoch, .. } => epoch == page.epoch,
                EventBody::RunLost { epoch, .. } => epoch <= page.epoch,
                _ => true,
            };
            if !is_of_its_page {
                let what = format!("{:?} in a page of epoch {}", event.body, page.epoch);
                return corrupt(event.seq, what);
            }
            self.event(event)?;
        }
        self.tail.epoch = page.epoch;
        if page.writer == Writer::Holder && (page.epoch == 0 || page.epoch != self.claimed_epoch) {
            let what = format!("a holder's page of epoch {}, which nobody claimed", page.epoch);
            return corrupt(first_seq, what);
        }
        if page.writer == Writer::Holder && page.epoch <= self.lost_epoch {
            let what = format!("a holder's page of epoch {}, which was lost", page.epoch);
            return corrupt(first_seq, what);
        }
        if self.totals != page.totals {
            let what = format!("the page counts {:?}, its events {:?}", page.totals, self.totals);
            return corrupt(page.last_seq(), what);
        }
        Ok(())
    }

    /// Takes in the next event. Its page's epoch is the caller's to set.
    pub fn event(&mut self, event: &Event) -> Result<(), Corrupt> {
        let corrupt = |what: String| Err(Corrupt { seq: event.seq, what });
        if event.seq != self.tail.seq + 1 {
            return corrupt(format!("expected seq {}", self.tail.seq + 1));
        }
        if self.tail.ended {
            return corrupt("an event after the terminal event".into());
        }
        match &event.body {
            EventBody::RunAccepted { input, .. } => {
                if event.seq != 1 {
                    return corrupt("a run that is under way was accepted again".into());
                }
                self.input = Some(input.clone());
            }
            EventBody::RunClaimed { epoch, .. } => {
                if *epoch <= self.claimed_epoch || *epoch < self.tail.epoch {
                    return corrupt(format!("epoch {epoch} was claimed after epoch {}", self.tail.epoch));
                }
                if *epoch <= self.lost_epoch {
                    return corrupt(format!("epoch {epoch} was claimed after it was lost"));
                }
                self.tail.epoch = *epoch;
                self.claimed_epoch = *epoch;
                self.awaits = None;
            }
            EventBody::PlanDeclared { keys } => {
                let Ok(declared) = keys.decode::<Vec<StepKey>>() else {
                    return corrupt("a plan that isn't a list of keys".into());
                };
                self.plan = Some(keys.clone());
                for key in declared {
                    self.unused_but_by(Kind::Step, &key, event)?;
                    self.declare(key);
                }
            }
            EventBody::StepStarted {
                key,
                attempt,
                idempotent,
                input_digest,
                ..
            } => {
                if self.stop_requested {
                    return corrupt(format!("step {key} started after a stop"));
                }
                self.unused_but_by(Kind::Step, key, event)?;
                if self.is_decided(key) {
                    return corrupt(format!("step {key} started after what asked for it was decided"));
                }
                self.start(key, *attempt, *idempotent, input_digest, event)?;
            }
            EventBody::StepRetrying {
                key, error, not_before, ..
            } => {
                self.running(key, event)?.state = StepState::Retrying {
                    error: error.clone(),
                    not_before: *not_before,
                };
            }
            EventBody::StepCommitted { key, result, .. } => {
                self.running(key, event)?.state = StepState::Committed { result: result.clone() };
                self.totals.committed += 1;
                self.finals += 1;
            }
            EventBody::StepFailed { key, error, .. } => {
                self.running(key, event)?.state = StepState::Failed { error: error.clone() };
                self.totals.failed += 1;
                self.finals += 1;
            }
            EventBody::StepUnknown { key, .. } => {
                self.running(key, event)?.state = StepState::Unknown;
                self.totals.unknown += 1;
                self.finals += 1;
            }
            EventBody::StepReleased { key } => self.release(key, event)?,
            EventBody::WaitStarted { key, until } => self.wait_started(key, *until, event)?,
            EventBody::WaitEnded { key } => self.wait_ended(key, event)?,
            EventBody::ApprovalRequired { key, .. } => self.asked(key, event)?,
            EventBody::AnswerRecorded { key, .. } => self.answered(key, event)?,
            EventBody::ParallelEnded { key, result } => self.parallel_ended(key, result, event)?,
            EventBody::RunParked { awaits, .. } => self.awaits = Some(awaits.iter().cloned().collect()),
            EventBody::RunLost { epoch, .. } => self.lost_epoch = self.lost_epoch.max(*epoch),
            EventBody::StopRequested => self.stop_requested = true,
            EventBody::RunPaused => self.paused = true,
            EventBody::RunResumed => self.paused = false,
            EventBody::Emit { key, data } => {
                self.emitted.insert(key.clone(), data.clone());
            }
            EventBody::AutoContinue { .. } => {}
            EventBody::RunCompleted(_)
            | EventBody::RunIncomplete(_)
            | EventBody::RunFailed(_)
            | EventBody::RunCancelled(_) => self.tail.ended = true,
        }
        self.tail.seq = event.seq;
        self.log_bytes += event.body.approximate_bytes();
        Ok(())
    }

    fn declare(&mut self, key: StepKey) {
        if let Some(step) = self.steps.get_mut(&key) {
            step.planned = true;
            return;
        }
        self.totals.planned += 1;
        self.order.push(key.clone());
        let step = Step {
            planned: true,
            attempt: 0,
            idempotent: false,
            input_digest: None,
            state: StepState::Planned,
        };
        self.steps.insert(key, step);
    }

    fn start(
        &mut self,
        key: &StepKey,
        attempt: u64,
        idempotent: bool,
        input_digest: &str,
        event: &Event,
    ) -> Result<(), Corrupt> {
        if !self.steps.contains_key(key) {
            self.declare(key.clone());
            self.steps.entry(key.clone()).and_modify(|step| step.planned = false);
        }
        let epoch = self.claimed_epoch;
        let Some(step) = self.steps.get_mut(key) else {
            return Ok(());
        };
        if step.state.is_final() {
            return Err(Corrupt {
                seq: event.seq,
                what: format!("step {key} started after its end"),
            });
        }
        if !step.idempotent && step.state != StepState::Planned && attempt <= step.attempt {
            return Err(Corrupt {
                seq: event.seq,
                what: format!("attempt {attempt} of step {key}, which is not idempotent, started twice"),
            });
        }
        let deadline = match &event.body {
            EventBody::StepStarted { deadline, .. } => *deadline,
            _ => None,
        };
        step.attempt = attempt;
        step.idempotent = idempotent;
        step.input_digest.get_or_insert_with(|| input_digest.into());
        step.state = StepState::Started { epoch, deadline };
        Ok(())
    }

    /// The step that an event speaks of, which must have started and not ended.
    fn running(&mut self, key: &StepKey, event: &Event) -> Result<&mut Step, Corrupt> {
        match self.steps.get_mut(key) {
            Some(step) if matches!(step.state, StepState::Started { .. }) => Ok(step),
            _ => Err(Corrupt {
                seq: event.seq,
                what: format!("a result of step {key}, which is not running"),
            }),
        }
    }

    /// The totals behind `bodies`, were they appended now.
    pub fn totals_after(&self, bodies: &[EventBody]) -> Totals {
        let mut totals = self.totals;
        let mut joining: HashSet<StepKey> = HashSet::new();
        let mut join = |key: StepKey| u64::from(!self.steps.contains_key(&key) && joining.insert(key));
        for body in bodies {
            match body {
                EventBody::PlanDeclared { keys } => {
                    let declared = keys.decode::<Vec<StepKey>>().unwrap_or_default();
                    totals.planned += declared.into_iter().map(&mut join).sum::<u64>();
                }
                EventBody::StepStarted { key, .. } => totals.planned += join(key.clone()),
                EventBody::StepCommitted { .. } => totals.committed += 1,
                EventBody::StepFailed { .. } => totals.failed += 1,
                EventBody::StepUnknown { .. } => totals.unknown += 1,
                EventBody::StepReleased { .. } => {
                    totals.planned = totals.planned.saturating_sub(1);
                    totals.released += 1;
                }
                _ => {}
            }
        }
        totals
    }

    /// Steps that an earlier holder started and that have no result, in the order of the plan.
    pub fn interrupted(&self, my_epoch: u64) -> Vec<StepKey> {
        self.order
            .iter()
            .filter(|key| {
                self.steps
                    .get(*key)
                    .is_some_and(|step| matches!(step.state, StepState::Started { epoch, .. } if epoch < my_epoch))
            })
            .cloned()
            .collect()
    }

    /// Whether a holder of `epoch` that reads this far must stop at once.
    pub fn fences(&self, epoch: u64) -> bool {
        self.tail.ended || self.tail.epoch > epoch || self.lost_epoch >= epoch
    }
}

#[cfg(test)]
mod tests;
