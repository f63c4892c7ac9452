//! How a run ends: computed from its log, never from what an agent says of itself.

use serde::{Deserialize, Serialize};

use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::{Status, Totals};

/// Why a run did not complete. One spelling for row, event, API, metrics and docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    NoProgress,
    ChunkLimit,
    TimeLimit,
    HistoryTooLarge,
    StepsFailed,
    StepsUnknown,
    /// The agent returned and planned steps never ran.
    StepsNotRun,
    NotVerified,
    CrashLimit,
    NeverStarted,
    Nondeterminism,
    AgentError,
    Stopped,
}

impl Reason {
    pub const ALL: [Reason; 13] = [
        Reason::NoProgress,
        Reason::ChunkLimit,
        Reason::TimeLimit,
        Reason::HistoryTooLarge,
        Reason::StepsFailed,
        Reason::StepsUnknown,
        Reason::StepsNotRun,
        Reason::NotVerified,
        Reason::CrashLimit,
        Reason::NeverStarted,
        Reason::Nondeterminism,
        Reason::AgentError,
        Reason::Stopped,
    ];

    /// The terminal status that goes with it.
    pub const fn status(self) -> Status {
        match self {
            Reason::NoProgress
            | Reason::ChunkLimit
            | Reason::TimeLimit
            | Reason::HistoryTooLarge
            | Reason::StepsFailed
            | Reason::StepsUnknown
            | Reason::StepsNotRun
            | Reason::NotVerified => Status::Incomplete,
            Reason::CrashLimit | Reason::NeverStarted | Reason::Nondeterminism | Reason::AgentError => Status::Failed,
            Reason::Stopped => Status::Cancelled,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::NoProgress => "no_progress",
            Reason::ChunkLimit => "chunk_limit",
            Reason::TimeLimit => "time_limit",
            Reason::HistoryTooLarge => "history_too_large",
            Reason::StepsFailed => "steps_failed",
            Reason::StepsUnknown => "steps_unknown",
            Reason::StepsNotRun => "steps_not_run",
            Reason::NotVerified => "not_verified",
            Reason::CrashLimit => "crash_limit",
            Reason::NeverStarted => "never_started",
            Reason::Nondeterminism => "nondeterminism",
            Reason::AgentError => "agent_error",
            Reason::Stopped => "stopped",
        }
    }
}

/// The terminal status for a reason, or for none.
pub const fn terminal_status(reason: Option<Reason>) -> Status {
    match reason {
        None => Status::Completed,
        Some(reason) => reason.status(),
    }
}

/// An error as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The kind of error, in one word a program can match: `http_status`, `timeout`, `panic` …
    pub kind: String,
    pub message: String,
    /// The step it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<StepKey>,
}

impl ErrorInfo {
    /// At most 2,000 bytes of message are kept.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        const KEPT: usize = 2000;
        let mut message = message.into();
        if message.len() > KEPT {
            let end = (0..=KEPT).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        Self {
            kind: kind.into(),
            message,
            key: None,
        }
    }

    pub fn at(mut self, key: StepKey) -> Self {
        self.key = Some(key);
        self
    }
}

/// What re-reading the end state said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Steps whose effect was looked for.
    pub checked: u64,
    /// Those whose effect was not there; of a terminal event the first hundred, which a page has room for.
    pub missing: Vec<StepKey>,
    /// How many those are in all. A terminal event says it; they are among what remains.
    #[serde(default)]
    pub missing_in_all: u64,
    /// Bodies that had started, had no result and could still act while this looked.
    #[serde(default)]
    pub unsettled: u64,
}

/// What an agent's code came to in the chunk that ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentResult {
    Returned {
        value: Payload,
        verification: Option<Verification>,
    },
    Failed(ErrorInfo),
    /// The code asked for something else than the log says it did.
    Nondeterministic(ErrorInfo),
    /// The run ends for a reason that is not the agent's: a limit, a stop.
    Ended(Reason),
}

/// The terminal event's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// M of N and the rest.
    pub totals: Totals,
    /// Steps outside the plan that failed and that the agent's code handled.
    #[serde(default)]
    pub failures_handled: u64,
    /// How many keys remain, the digest of all of them (sorted, one a line), and the first hundred.
    pub remaining: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remainder_digest: Option<String>,
    #[serde(default)]
    pub remainder: Vec<StepKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What the agent returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
}

impl Outcome {
    pub fn status(&self) -> Status {
        terminal_status(self.reason)
    }
}
