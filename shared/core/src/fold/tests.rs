//! The rules of the log, the computed endings, and the events as they are stored.

mod endings;
mod events;
mod properties;
mod rules;
mod waiting;

use super::*;
use crate::event::ContinueReason;
use crate::ids::{AgentName, RunId, WriteId};
use crate::outcome::{AgentResult, ErrorInfo, Outcome, Reason, Verification};
use crate::time::Timestamp;
use crate::time_budget::HostKind;

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

fn key(name: &str) -> StepKey {
    StepKey::new(name)
}

fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

fn error() -> ErrorInfo {
    ErrorInfo::new("http_status", "503")
}

fn accepted() -> EventBody {
    EventBody::RunAccepted {
        agent: AgentName::new("plan"),
        input: json("{}"),
        retry_of: None,
    }
}

fn claimed(epoch: u64) -> EventBody {
    EventBody::RunClaimed {
        epoch,
        holder: "host-1".into(),
        host: HostKind::Background,
    }
}

fn plan(keys: &[&str]) -> EventBody {
    EventBody::PlanDeclared {
        keys: Payload::of(keys).unwrap(),
    }
}

fn started_as(name: &str, attempt: u64, idempotent: bool) -> EventBody {
    EventBody::StepStarted {
        key: key(name),
        attempt,
        idempotent,
        input_digest: "d1".into(),
        deadline: Some(NOW),
    }
}

/// An idempotent step's first attempt.
fn started(name: &str) -> EventBody {
    started_as(name, 1, true)
}

fn retrying(name: &str) -> EventBody {
    EventBody::StepRetrying {
        key: key(name),
        attempt: 1,
        error: error(),
        not_before: NOW,
    }
}

fn committed(name: &str) -> EventBody {
    EventBody::StepCommitted {
        key: key(name),
        attempt: 1,
        result: json("1"),
    }
}

fn failed(name: &str) -> EventBody {
    EventBody::StepFailed {
        key: key(name),
        attempt: 1,
        error: error(),
    }
}

fn unknown(name: &str) -> EventBody {
    EventBody::StepUnknown {
        key: key(name),
        attempt: 1,
    }
}

fn parked(until: Option<Timestamp>) -> EventBody {
    EventBody::RunParked { until, awaits: vec![] }
}

fn wait_started(name: &str) -> EventBody {
    EventBody::WaitStarted {
        key: key(name),
        until: NOW,
    }
}

/// Until it expires.
fn asked(name: &str) -> EventBody {
    EventBody::ApprovalRequired {
        key: key(name),
        expires_at: Some(NOW),
        default: None,
        schema: None,
    }
}

fn answered(name: &str) -> EventBody {
    EventBody::AnswerRecorded {
        key: key(name),
        value: Some(json("null")),
        error: None,
        expired: false,
    }
}

fn refused(name: &str) -> EventBody {
    EventBody::AnswerRecorded {
        key: key(name),
        value: None,
        error: Some(error()),
        expired: false,
    }
}

fn expired(name: &str, default: Option<&str>) -> EventBody {
    EventBody::AnswerRecorded {
        key: key(name),
        value: default.map(json),
        error: None,
        expired: true,
    }
}

const fn lost(epoch: u64) -> EventBody {
    EventBody::RunLost {
        epoch,
        last_sign_of_life: NOW,
        crashes: 1,
    }
}

fn ended() -> EventBody {
    EventBody::terminal(Fold::default().outcome(AgentResult::Ended(Reason::TimeLimit)))
}

/// A log as its writers would make it: a page of a holder or of anyone else, of this epoch, with these events.
#[derive(Debug, Default)]
struct Written {
    fold: Fold,
    pages: Vec<Page>,
}

impl Written {
    fn next(&self, writer: Writer, epoch: u64, bodies: Vec<EventBody>) -> Page {
        let first_seq = self.fold.tail.seq + 1;
        let events: Vec<Event> = (first_seq..)
            .zip(bodies)
            .map(|(seq, body)| Event { seq, at: NOW, body })
            .collect();
        let mut after = self.fold.clone();
        // A fault is found when the page is taken in; until then its totals are those before it.
        let totals = match events.iter().try_for_each(|event| after.event(event)) {
            Ok(()) => after.totals,
            Err(_) => self.fold.totals,
        };
        Page {
            run_id: RunId::new("0190"),
            epoch,
            writer,
            write_id: WriteId::new("w"),
            events,
            totals,
            expires_at: 0,
        }
    }

    fn put(&mut self, page: Page) -> Result<(), Corrupt> {
        self.fold.page(&page)?;
        self.pages.push(page);
        Ok(())
    }

    #[track_caller]
    fn holder(mut self, epoch: u64, bodies: Vec<EventBody>) -> Self {
        let page = self.next(Writer::Holder, epoch, bodies);
        self.put(page).unwrap();
        self
    }

    #[track_caller]
    fn control(mut self, epoch: u64, bodies: Vec<EventBody>) -> Self {
        let page = self.next(Writer::Control, epoch, bodies);
        self.put(page).unwrap();
        self
    }
}

/// Accepted, and claimed by epoch 1.
fn begun() -> Written {
    Written::default()
        .control(0, vec![accepted()])
        .holder(1, vec![claimed(1)])
}
