//! The events of a run's log.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, RunId, StepKey};
use crate::outcome::{ErrorInfo, Outcome};
use crate::payload::Payload;
use crate::run::Status;
use crate::time::Timestamp;
use crate::time_budget::HostKind;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// 1, 2, 3 … without a gap.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub body: EventBody,
}

/// Fields that hold a user's JSON are [`Payload`]s, at the top level and named in [`PAYLOAD_FIELDS`]: stored as text, sent to readers as the JSON they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventBody {
    #[serde(rename = "run.accepted")]
    RunAccepted {
        agent: AgentName,
        input: Payload,
        /// The ended run whose remainder this one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_of: Option<RunId>,
    },
    #[serde(rename = "run.claimed")]
    RunClaimed { epoch: u64, holder: String, host: HostKind },
    /// `keys` is a JSON array of step keys.
    #[serde(rename = "plan.declared")]
    PlanDeclared { keys: Payload },
    #[serde(rename = "step.started")]
    StepStarted {
        key: StepKey,
        attempt: u64,
        idempotent: bool,
        input_digest: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
    },
    #[serde(rename = "step.retrying")]
    StepRetrying {
        key: StepKey,
        attempt: u64,
        error: ErrorInfo,
        not_before: Timestamp,
    },
    #[serde(rename = "step.committed")]
    StepCommitted {
        key: StepKey,
        attempt: u64,
        result: Payload,
    },
    #[serde(rename = "step.failed")]
    StepFailed {
        key: StepKey,
        attempt: u64,
        error: ErrorInfo,
    },
    #[serde(rename = "step.unknown")]
    StepUnknown { key: StepKey, attempt: u64 },
    /// It is no part of N any more: what asked for it was decided without it.
    #[serde(rename = "step.released")]
    StepReleased { key: StepKey },
    /// The run's code waits, until then at the earliest.
    #[serde(rename = "wait.started")]
    WaitStarted { key: StepKey, until: Timestamp },
    #[serde(rename = "wait.ended")]
    WaitEnded { key: StepKey },
    /// What a `parallel` or a `map` came to: nothing that its branches do later changes it.
    #[serde(rename = "parallel.ended")]
    ParallelEnded { key: StepKey, result: Payload },
    #[serde(rename = "auto_continue")]
    AutoContinue {
        reason: ContinueReason,
        /// Steps whose bodies were cut off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupted: Vec<StepKey>,
    },
    #[serde(rename = "run.parked")]
    RunParked {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The questions whose answers the run waits for; none are named where they are more than [`MOST_AWAITED`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        awaits: Vec<StepKey>,
    },
    #[serde(rename = "run.lost")]
    RunLost {
        epoch: u64,
        last_sign_of_life: Timestamp,
        crashes: u64,
    },
    #[serde(rename = "run.paused")]
    RunPaused,
    #[serde(rename = "run.resumed")]
    RunResumed,
    #[serde(rename = "stop.requested")]
    StopRequested,
    /// The run's code asks something outside: a person, another system.
    #[serde(rename = "approval.required")]
    ApprovalRequired {
        key: StepKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// The answer if none comes in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<Payload>,
        /// The JSON Schema that an answer's value must satisfy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Payload>,
    },
    /// Settles a question for good: by a value, by an error, or because none of them came in time (`value` is then its default).
    #[serde(rename = "answer.recorded")]
    AnswerRecorded {
        key: StepKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorInfo>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    #[serde(rename = "emit")]
    Emit { key: StepKey, data: Payload },
    #[serde(rename = "run.completed")]
    RunCompleted(Outcome),
    #[serde(rename = "run.incomplete")]
    RunIncomplete(Outcome),
    #[serde(rename = "run.failed")]
    RunFailed(Outcome),
    #[serde(rename = "run.cancelled")]
    RunCancelled(Outcome),
}

/// The fields that hold a user's JSON as text.
pub const PAYLOAD_FIELDS: [&str; 7] = ["input", "keys", "result", "data", "value", "default", "schema"];

/// The fields that hold points in time.
pub const TIME_FIELDS: [&str; 6] = [
    "at",
    "deadline",
    "not_before",
    "until",
    "expires_at",
    "last_sign_of_life",
];

/// How many questions a `run.parked` names.
pub const MOST_AWAITED: usize = 1000;

/// Why a chunk ended before the run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContinueReason {
    /// The soft cap.
    RunTimeout,
    /// The run was paused.
    Paused,
    /// A late beat: the lease was in doubt.
    LeaseInDoubt,
    /// The host was told to end; the run goes on elsewhere, or when it is back.
    ShutDown,
    /// The run was about to park, and an answer that it waited for had come.
    Answered,
}

impl EventBody {
    pub fn terminal(outcome: Outcome) -> EventBody {
        match outcome.status() {
            Status::Completed => EventBody::RunCompleted(outcome),
            Status::Incomplete => EventBody::RunIncomplete(outcome),
            Status::Cancelled => EventBody::RunCancelled(outcome),
            Status::Failed | Status::Queued | Status::Running | Status::Waiting | Status::Lost => {
                EventBody::RunFailed(outcome)
            }
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            EventBody::RunCompleted(outcome)
            | EventBody::RunIncomplete(outcome)
            | EventBody::RunFailed(outcome)
            | EventBody::RunCancelled(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Bytes of the user's JSON that the event holds.
    fn payload_bytes(&self) -> usize {
        let bytes = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
        match self {
            EventBody::RunAccepted { input: payload, .. }
            | EventBody::PlanDeclared { keys: payload }
            | EventBody::StepCommitted { result: payload, .. }
            | EventBody::ParallelEnded { result: payload, .. }
            | EventBody::Emit { data: payload, .. } => payload.len(),
            EventBody::AnswerRecorded { value, .. } => bytes(value),
            EventBody::ApprovalRequired { default, schema, .. } => bytes(default) + bytes(schema),
            _ => self.outcome().map_or(0, |outcome| bytes(&outcome.value)),
        }
    }

    /// Its size, near enough for limits: payload, key and error as they are, everything else at a flat rate.
    pub fn approximate_bytes(&self) -> u64 {
        const EACH: usize = 200;
        let of_step = match self {
            EventBody::StepRetrying { key, error, .. } | EventBody::StepFailed { key, error, .. } => {
                key.as_str().len() + error.kind.len() + error.message.len()
            }
            EventBody::StepStarted { key, .. }
            | EventBody::StepCommitted { key, .. }
            | EventBody::StepUnknown { key, .. }
            | EventBody::StepReleased { key }
            | EventBody::WaitStarted { key, .. }
            | EventBody::WaitEnded { key }
            | EventBody::ParallelEnded { key, .. }
            | EventBody::ApprovalRequired { key, .. }
            | EventBody::Emit { key, .. } => key.as_str().len(),
            EventBody::AnswerRecorded { key, error, .. } => {
                let error = error.as_ref();
                key.as_str().len() + error.map_or(0, |error| error.kind.len() + error.message.len())
            }
            EventBody::RunParked { awaits, .. } => awaits.iter().map(|key| key.as_str().len() + 8).sum(),
            _ => 0,
        };
        (EACH + of_step + self.payload_bytes()) as u64
    }

    pub fn is_terminal(&self) -> bool {
        self.outcome().is_some()
    }
}

/// The event as readers get it: one line of JSON, payloads spliced in as they were written.
pub fn wire_json(event: &Event) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(event) else {
        // Every event is a struct of strings, numbers and payloads: it serialises.
        unreachable!("an event is a JSON object")
    };
    splice(&fields)
}

/// The same of an event's stored fields, of whatever kind it is. Fails if a payload is no JSON, which would forge the
/// rest of the line.
pub fn wire_object(fields: &serde_json::Map<String, serde_json::Value>) -> Result<String, String> {
    for field in PAYLOAD_FIELDS {
        if let Some(serde_json::Value::String(text)) = fields.get(field) {
            serde_json::from_str::<serde::de::IgnoredAny>(text)
                .map_err(|error| format!("{field} is not JSON: {error}"))?;
        }
    }
    Ok(splice(fields))
}

fn splice(fields: &serde_json::Map<String, serde_json::Value>) -> String {
    let mut line = String::from("{");
    for (name, value) in fields {
        if line.len() > 1 {
            line.push(',');
        }
        line.push_str(&serde_json::Value::from(name.as_str()).to_string());
        line.push(':');
        match value {
            serde_json::Value::String(text) if PAYLOAD_FIELDS.contains(&name.as_str()) => {
                line.push_str(&one_line(text))
            }
            serde_json::Value::Number(millis) if TIME_FIELDS.contains(&name.as_str()) => match rfc3339(millis) {
                Some(time) => line.push_str(&serde_json::Value::from(time).to_string()),
                None => line.push_str(&millis.to_string()),
            },
            value => line.push_str(&value.to_string()),
        }
    }
    line.push('}');
    line
}

/// What is stored as epoch milliseconds is sent as RFC 3339, in UTC.
fn rfc3339(millis: &serde_json::Number) -> Option<String> {
    jiff::Timestamp::from_millisecond(millis.as_i64()?)
        .ok()
        .map(|time| time.to_string())
}

/// JSON as one line. Inside its strings a line break is always escaped, so a bare one is only white space.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Totals;

    fn event(body: EventBody) -> Event {
        Event {
            seq: 7,
            at: Timestamp::from_millis(1_780_000_000_000),
            body,
        }
    }

    #[test]
    fn a_payload_reaches_the_reader_as_it_was_written() {
        let result = Payload::parse("{\"z\": 1.0,\n\"a\": 12345678901234567890123}").unwrap();
        let committed = event(EventBody::StepCommitted {
            key: StepKey::new("k"),
            attempt: 1,
            result,
        });
        let line = wire_json(&committed);
        assert!(
            line.contains(r#""result":{"z": 1.0, "a": 12345678901234567890123}"#),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }

    #[test]
    fn every_point_in_time_is_sent_as_rfc_3339() {
        let time = || Timestamp::from_millis(1_780_000_000_123);
        let error = ErrorInfo::new("x", "y");
        let bodies = [
            EventBody::StepStarted {
                key: StepKey::new("k"),
                attempt: 1,
                idempotent: true,
                input_digest: String::new(),
                deadline: Some(time()),
            },
            EventBody::StepRetrying {
                key: StepKey::new("k"),
                attempt: 1,
                error,
                not_before: time(),
            },
            EventBody::RunParked {
                until: Some(time()),
                awaits: vec![],
            },
            EventBody::WaitStarted {
                key: StepKey::new("k"),
                until: time(),
            },
            EventBody::ApprovalRequired {
                key: StepKey::new("k"),
                expires_at: Some(time()),
                default: None,
                schema: None,
            },
            EventBody::RunLost {
                epoch: 1,
                last_sign_of_life: time(),
                crashes: 1,
            },
        ];
        for body in bodies {
            let line = wire_json(&event(body));
            assert!(line.contains(r#""at":"2026-05-28T20:26:40Z""#), "{line}");
            assert!(line.contains(r#":"2026-05-28T20:26:40.123Z""#), "{line}");
        }
    }

    #[test]
    fn every_payload_field_is_named() {
        let payload = || Payload::parse(r#"{"it":"is json"}"#).unwrap();
        let outcome = Outcome {
            reason: None,
            totals: Totals::default(),
            failures_handled: 0,
            remaining: 0,
            remainder_digest: None,
            remainder: vec![],
            verification: None,
            error: None,
            value: Some(payload()),
        };
        let bodies = [
            EventBody::RunAccepted {
                agent: AgentName::new("plan"),
                input: payload(),
                retry_of: None,
            },
            EventBody::PlanDeclared { keys: payload() },
            EventBody::StepCommitted {
                key: StepKey::new("k"),
                attempt: 1,
                result: payload(),
            },
            EventBody::Emit {
                key: StepKey::new("k"),
                data: payload(),
            },
            EventBody::AnswerRecorded {
                key: StepKey::new("k"),
                value: Some(payload()),
                error: None,
                expired: false,
            },
            EventBody::ApprovalRequired {
                key: StepKey::new("k"),
                expires_at: None,
                default: Some(payload()),
                schema: None,
            },
            EventBody::ApprovalRequired {
                key: StepKey::new("k"),
                expires_at: None,
                default: None,
                schema: Some(payload()),
            },
            EventBody::ParallelEnded {
                key: StepKey::new("k"),
                result: payload(),
            },
            EventBody::terminal(outcome),
        ];
        for body in bodies {
            let line = wire_json(&event(body));
            assert!(line.contains(r#":{"it":"is json"}"#), "{line}");
        }
    }

    #[test]
    fn r37_any_text_survives_and_forges_nothing() {
        for text in [
            "a\nb",
            "a\r\nb",
            "a\rb",
            "\u{2028}",
            " lead",
            ":lead",
            "",
            "\0",
            "data: x\n\nevent: y",
        ] {
            let original = event(EventBody::Emit {
                key: StepKey::new(text),
                data: Payload::of(text).unwrap(),
            });
            let line = wire_json(&original);
            assert!(!line.contains(['\n', '\r']), "{line:?}");
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((read["data"].as_str(), read["key"].as_str()), (Some(text), Some(text)));
            let stored = serde_json::to_string(&original).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&stored).unwrap(), original);
        }
    }
}
