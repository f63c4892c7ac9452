//! The ending, computed: what the log says was done, against what was planned.

use std::collections::BTreeSet;

use crate::digest::sha256_hex;
use crate::ids::StepKey;
use crate::limits::REMAINDER_KEYS;
use crate::outcome::{AgentResult, Outcome, Reason};
use crate::step::StepState;
use crate::time::Timestamp;

use super::{Fold, Step};

impl Fold {
    /// How the run ends if it ends here, with `result` as what its agent's code came to.
    ///
    /// `completed` needs every planned step committed and a verification, where there is one, that agrees.
    pub fn outcome(&self, result: AgentResult) -> Outcome {
        let (value, verification, error, ended_by) = match result {
            AgentResult::Returned { value, verification } => (Some(value), verification, None, None),
            AgentResult::Failed(error) => (None, None, Some(error), Some(Reason::AgentError)),
            AgentResult::Nondeterministic(error) => (None, None, Some(error), Some(Reason::Nondeterminism)),
            AgentResult::Ended(reason) => (None, None, None, Some(reason)),
        };
        let missing: BTreeSet<&StepKey> = verification.iter().flat_map(|v| &v.missing).collect();
        let remaining = self
            .order
            .iter()
            .filter(|key| self.remains(key) || missing.contains(key));
        // A verification may name what no step was ever asked to do.
        let unheard_of = missing.iter().copied().filter(|key| !self.steps.contains_key(key));
        let remainder: Vec<StepKey> = remaining.chain(unheard_of).cloned().collect();
        let missing_any = !missing.is_empty();
        let verification = verification.map(|mut seen| {
            seen.missing_in_all = seen.missing_in_all.max(seen.missing.len() as u64);
            seen.missing.truncate(REMAINDER_KEYS);
            seen
        });
        let reason = if self.stop_requested {
            Some(Reason::Stopped)
        } else {
            ended_by
                .or_else(|| self.shortfall())
                .or(missing_any.then_some(Reason::NotVerified))
        };
        Outcome {
            reason,
            totals: self.totals,
            failures_handled: if reason.is_none() {
                self.failed_outside_the_plan()
            } else {
                0
            },
            remaining: remainder.len() as u64,
            remainder_digest: (!remainder.is_empty()).then(|| digest_of(&remainder)),
            remainder: remainder.into_iter().take(REMAINDER_KEYS).collect(),
            verification,
            error,
            value,
        }
    }

    /// What of the plan is not committed, as the reason it gives.
    fn shortfall(&self) -> Option<Reason> {
        let any = |of: fn(&StepState) -> bool, planned_only: bool| {
            self.steps
                .values()
                .any(|step| of(&step.state) && (step.planned || !planned_only))
        };
        if any(|state| matches!(state, StepState::Failed { .. }), true) {
            Some(Reason::StepsFailed)
        } else if any(
            |state| matches!(state, StepState::Unknown | StepState::Started { .. }),
            false,
        ) {
            Some(Reason::StepsUnknown)
        } else if any(|state| !state.is_final(), false) {
            Some(Reason::StepsNotRun)
        } else {
            None
        }
    }

    /// What remains to be done, in the plan's order.
    pub fn remaining(&self) -> impl Iterator<Item = (&StepKey, &Step)> {
        let remaining = self.order.iter().filter(|key| self.remains(key));
        remaining.filter_map(|key| Some((key, self.steps.get(key)?)))
    }

    /// Whether a step is part of what remains: not committed, and not a failure that the agent's code handled outside the plan.
    fn remains(&self, key: &StepKey) -> bool {
        self.steps.get(key).is_some_and(|step| match step.state {
            StepState::Committed { .. } | StepState::Released => false,
            StepState::Failed { .. } => step.planned,
            StepState::Planned | StepState::Started { .. } | StepState::Retrying { .. } | StepState::Unknown => true,
        })
    }

    fn failed_outside_the_plan(&self) -> u64 {
        let failed = self
            .steps
            .values()
            .filter(|step| !step.planned && matches!(step.state, StepState::Failed { .. }));
        failed.count() as u64
    }

    /// Bodies that may still be acting at `now`: started, no result, deadline not past.
    pub fn unsettled(&self, now: Timestamp) -> u64 {
        let unsettled = self.steps.values().filter(|step| may_act(step, now));
        unsettled.count() as u64
    }

    pub fn is_unsettled(&self, key: &StepKey, now: Timestamp) -> bool {
        self.steps.get(key).is_some_and(|step| may_act(step, now))
    }
}

fn may_act(step: &Step, now: Timestamp) -> bool {
    match step.state {
        StepState::Started { deadline, .. } => deadline.is_none_or(|deadline| deadline > now),
        _ => false,
    }
}

/// Of all keys, sorted, one a line: whoever has the list can check it.
fn digest_of(keys: &[StepKey]) -> String {
    let sorted: BTreeSet<&str> = keys.iter().map(StepKey::as_str).collect();
    let mut lines = String::new();
    for key in sorted {
        lines.push_str(key);
        lines.push('\n');
    }
    sha256_hex(lines.as_bytes())
}
