//! Runs as JSON.

use outlast_core::fold::Question;
use outlast_core::limits::REMAINDER_KEYS;
use outlast_core::outcome::{ErrorInfo, Verification};
use outlast_core::run::DispatchStage;
use outlast_core::{
    AgentName, Cost, Executor, Outcome, Payload, Reason, Run, RunId, Status, StepKey, ThreadKey, Timestamp, Totals,
};
use outlast_engine::show::RunView;
use serde::Serialize;
use serde_json::value::RawValue;

/// RFC 3339, in UTC, with milliseconds.
pub fn rfc3339(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis());
    format!("{:.3}", at.unwrap_or_default())
}

/// The time that a client gave as RFC 3339; parts of milliseconds are dropped.
pub fn parse_rfc3339(text: &str) -> Result<Timestamp, jiff::Error> {
    let at: jiff::Timestamp = text.parse()?;
    Ok(Timestamp::from_millis(at.as_millisecond()))
}

/// What a live run needs before it goes on: `claim`, `holder`, `time`, `answer`, `resume`, `thread`, or the `end` that it was told to come to.
pub fn waits_for(run: &Run) -> &'static str {
    match run.status {
        _ if run.stopping => "end",
        _ if run.paused => "resume",
        _ if run.blocked => "thread",
        Status::Running => "holder",
        // No point in time but its end brings it on.
        Status::Waiting if run.due_at == Some(run.ends_at) => "answer",
        Status::Waiting => "time",
        Status::Queued | Status::Lost => "claim",
        Status::Completed | Status::Incomplete | Status::Failed | Status::Cancelled => "nothing",
    }
}

/// A run, as its row has it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunJson {
    run_id: RunId,
    status: Status,
    flags: Flags,
    progress: Progress,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    executor: Executor,
    agent: AgentName,
    thread_id: ThreadKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    retry_of: Option<RunId>,
    /// How many invocations have carried it, without those that ended by waiting.
    chunk: u64,
    crashes: u64,
    last_sign_of_life: Option<String>,
    holder: Option<String>,
    created_at: String,
    ends_at: String,
    ended_at: Option<String>,
    due_at: Option<String>,
    dispatch: DispatchJson,
    cost: CostJson,
}

/// A run with what the end of its log says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownRun {
    #[serde(flatten)]
    run: RunJson,
    last_seq: u64,
    outcome: Option<OutcomeJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<QuestionJson>,
    server_now: String,
}

/// What the run waits for somebody to answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct QuestionJson {
    key: StepKey,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct Flags {
    paused: bool,
    stopping: bool,
    blocked: bool,
}

/// M of N: `committed` of `planned`.
#[derive(Debug, Serialize)]
struct Progress {
    committed: u64,
    planned: u64,
    failed: u64,
    unknown: u64,
    #[serde(skip_serializing_if = "is_zero")]
    released: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Serialize)]
struct DispatchJson {
    stage: DispatchStage,
    attempts: u64,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostJson {
    write_requests: u64,
    read_requests: u64,
    write_units: f64,
    read_units: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeJson {
    reason: Option<Reason>,
    counts: Progress,
    failures_handled: u64,
    remaining: u64,
    /// The first hundred.
    remainder: Vec<StepKey>,
    remainder_digest: Option<String>,
    verification: Option<VerificationJson>,
    error: Option<ErrorInfo>,
    value: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VerificationJson {
    checked: u64,
    missing_count: u64,
    /// The first hundred.
    missing: Vec<StepKey>,
    unsettled: u64,
}

impl RunJson {
    pub fn of(run: Run) -> Self {
        let progress = run.totals.into();
        Self::with(run, progress)
    }

    fn with(run: Run, progress: Progress) -> Self {
        Self {
            run_id: run.id,
            status: run.status,
            flags: Flags {
                paused: run.paused,
                stopping: run.stopping,
                blocked: run.blocked,
            },
            progress,
            reason: run.reason,
            executor: run.executor,
            agent: run.agent,
            thread_id: run.thread,
            turn_id: run.turn.map(|turn| turn.to_string()),
            retry_of: run.retry_of,
            chunk: run.counters.chunks,
            crashes: run.counters.crashes,
            last_sign_of_life: run.last_sign_of_life.map(rfc3339),
            holder: run.holder,
            created_at: rfc3339(run.created_at),
            ends_at: rfc3339(run.ends_at),
            ended_at: run.ended_at.map(rfc3339),
            due_at: run.due_at.map(rfc3339),
            dispatch: DispatchJson {
                stage: run.dispatch.stage,
                attempts: run.dispatch.attempts,
                error: run.dispatch.error,
            },
            cost: run.cost.into(),
        }
    }
}

impl ShownRun {
    pub fn of(view: RunView, now: Timestamp) -> Self {
        Self {
            run: RunJson::with(view.run, view.totals.into()),
            last_seq: view.last_seq,
            outcome: view.outcome.map(OutcomeJson::from),
            questions: view.questions.into_iter().map(QuestionJson::from).collect(),
            server_now: rfc3339(now),
        }
    }
}

impl From<(StepKey, Question)> for QuestionJson {
    fn from((key, question): (StepKey, Question)) -> Self {
        Self {
            key,
            expires_at: question.expires_at.map(rfc3339),
            default: question.default.as_ref().and_then(raw),
            schema: question.schema.as_ref().and_then(raw),
        }
    }
}

/// A payload is JSON by construction.
fn raw(payload: &Payload) -> Option<Box<RawValue>> {
    RawValue::from_string(payload.as_str().to_owned()).ok()
}

impl From<Totals> for Progress {
    fn from(totals: Totals) -> Self {
        Self {
            committed: totals.committed,
            planned: totals.planned,
            failed: totals.failed,
            unknown: totals.unknown,
            released: totals.released,
        }
    }
}

impl From<Cost> for CostJson {
    fn from(cost: Cost) -> Self {
        Self {
            write_requests: cost.write_requests,
            read_requests: cost.read_requests,
            write_units: cost.write_deci_units as f64 / 10.0,
            read_units: cost.read_deci_units as f64 / 10.0,
        }
    }
}

impl From<Outcome> for OutcomeJson {
    fn from(outcome: Outcome) -> Self {
        let mut remainder = outcome.remainder;
        remainder.truncate(REMAINDER_KEYS);
        Self {
            reason: outcome.reason,
            counts: outcome.totals.into(),
            failures_handled: outcome.failures_handled,
            remaining: outcome.remaining,
            remainder,
            remainder_digest: outcome.remainder_digest,
            verification: outcome.verification.map(VerificationJson::from),
            error: outcome.error,
            value: outcome.value.as_ref().and_then(raw),
        }
    }
}

impl From<Verification> for VerificationJson {
    fn from(verification: Verification) -> Self {
        let missing_count = verification.missing_in_all.max(verification.missing.len() as u64);
        let mut missing = verification.missing;
        missing.truncate(REMAINDER_KEYS);
        Self {
            checked: verification.checked,
            missing_count,
            missing,
            unsettled: verification.unsettled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        let at = Timestamp::from_millis(1_780_000_000_123);
        assert_eq!(rfc3339(at), "2026-05-28T20:26:40.123Z");
        assert_eq!(parse_rfc3339("2026-05-28T22:26:40.123+02:00").unwrap(), at);
        assert_eq!(rfc3339(Timestamp::from_millis(0)), "1970-01-01T00:00:00.000Z");
        assert!(parse_rfc3339("tomorrow").is_err());
        assert!(parse_rfc3339("2026-05-28").is_err());
    }
}
