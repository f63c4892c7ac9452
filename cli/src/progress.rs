//! A run's progress, folded from its events, and its ending in one statement.

use std::collections::HashMap;

use serde_json::Value;

use crate::exit::Exit;
use crate::wire::{Event, Outcome, Totals};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Open,
    Committed,
    Failed,
    Unknown,
    /// No part of N any more.
    Released,
}

/// What the events so far say.
#[derive(Default)]
pub struct Progress {
    steps: HashMap<String, Step>,
    totals: Totals,
    pub chunks: u64,
    pub crashes: u64,
    /// Its terminal event's kind and content.
    pub ended: Option<(String, Outcome)>,
}

impl Progress {
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Takes an event; what is worth a line, if it changes the run's state.
    pub fn event(&mut self, event: &Event) -> Option<String> {
        match event.kind.as_str() {
            "plan.declared" => self.declared(&event.fields["keys"]),
            "step.started" => self.step(event, Step::Open),
            "step.committed" => self.step(event, Step::Committed),
            "step.unknown" => self.step(event, Step::Unknown),
            "step.released" => self.step(event, Step::Released),
            "step.failed" => {
                self.step(event, Step::Failed);
                return Some(format!("step {} failed: {}", event.text("key"), message(event)));
            }
            "run.claimed" => {
                self.chunks += 1;
                return Some(format!("chunk {} begins", self.chunks));
            }
            "run.lost" => {
                self.crashes += 1;
                return Some(String::from(
                    "the chunk's process is lost; the run goes on in another one",
                ));
            }
            "auto_continue" => return Some(format!("the chunk hands off: {}", hand_off(event.text("reason")))),
            "run.parked" => return Some("the run waits".into()),
            "approval.required" => return Some(format!("it asks for {}", event.text("key"))),
            "answer.recorded" => return Some(answered(event)),
            "run.paused" => return Some("paused".into()),
            "run.resumed" => return Some("resumed".into()),
            "stop.requested" => return Some("a stop was requested".into()),
            "corrupt" => return Some("events that can't be read any more: this run's log is damaged".into()),
            _ => self.ended = event.outcome().map(|outcome| (event.kind.clone(), outcome)),
        }
        None
    }

    fn declared(&mut self, keys: &Value) {
        for key in keys.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.steps.entry(key.to_owned()).or_insert(Step::Open);
        }
        self.totals.planned = self.planned();
    }

    fn planned(&self) -> u64 {
        self.steps.values().filter(|step| **step != Step::Released).count() as u64
    }

    fn step(&mut self, event: &Event, step: Step) {
        let before = self.steps.insert(event.text("key").to_owned(), step);
        for (step, by) in [(before, -1), (Some(step), 1)] {
            let total = match step {
                Some(Step::Committed) => &mut self.totals.committed,
                Some(Step::Failed) => &mut self.totals.failed,
                Some(Step::Unknown) => &mut self.totals.unknown,
                Some(Step::Open | Step::Released) | None => continue,
            };
            *total = total.saturating_add_signed(by);
        }
        match (before, step) {
            (None, Step::Released) | (Some(Step::Released), _) => {}
            (None, _) => self.totals.planned += 1,
            (Some(_), Step::Released) => self.totals.planned = self.totals.planned.saturating_sub(1),
            (Some(_), _) => {}
        }
    }

    /// How the run ended, as an exit code.
    pub fn exit(&self) -> Option<Exit> {
        let (kind, _) = self.ended.as_ref()?;
        Exit::of_status(kind.strip_prefix("run.").unwrap_or_default())
    }
}

fn message(event: &Event) -> &str {
    event.fields["error"]["message"].as_str().unwrap_or("no message")
}

fn answered(event: &Event) -> String {
    let key = event.text("key");
    match (event.fields["expired"] == true, event.fields["error"].is_object()) {
        (true, _) => format!("nobody answered {key} in time"),
        (false, true) => format!("{key} was answered with an error: {}", message(event)),
        (false, false) => format!("{key} was answered"),
    }
}

fn hand_off(reason: &str) -> &str {
    match reason {
        "run_timeout" => "its soft cap is reached",
        "paused" => "the run is paused",
        "lease_in_doubt" => "its lease is in doubt",
        "shut_down" => "its host is shutting down",
        "answered" => "an answer came as it was about to wait",
        other => other,
    }
}

/// How the run ended, in one statement: N of N, or M of N and what remains.
pub fn statement(kind: &str, outcome: &Outcome) -> String {
    let Totals { planned, committed, .. } = outcome.totals;
    let mut text = format!("{committed} of {planned}");
    match kind.strip_prefix("run.").unwrap_or(kind) {
        "completed" => text.push_str(" steps committed"),
        ended => {
            let reason = outcome.reason.as_deref().unwrap_or("no reason given");
            text.push_str(&format!(" steps committed; {ended}: {reason}"));
        }
    }
    if let Some(verification) = &outcome.verification {
        let missing = verification.missing_in_all.max(verification.missing.len() as u64);
        text.push_str(&match missing {
            0 => format!(", {} verified", verification.checked),
            missing => format!(", {missing} of {} not found on verification", verification.checked),
        });
        if verification.unsettled > 0 {
            text.push_str(&format!(" (while {} could still be acting)", verification.unsettled));
        }
    }
    if outcome.failures_handled > 0 {
        text.push_str(&format!(", {} failed and handled", outcome.failures_handled));
    }
    if let Some(error) = &outcome.error {
        text.push_str(&format!("\nerror: {}: {}", error.kind, error.message));
    }
    if outcome.remaining > 0 {
        text.push_str(&format!("\n{} remaining: {}", outcome.remaining, some_of(outcome)));
    }
    text
}

fn some_of(outcome: &Outcome) -> String {
    const NAMED: usize = 10;
    let named: Vec<&str> = outcome.remainder.iter().take(NAMED).map(String::as_str).collect();
    let mut text = named.join(", ");
    if outcome.remaining > named.len() as u64 {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(fields: Value) -> Event {
        Event {
            seq: 1,
            kind: fields["type"].as_str().unwrap().into(),
            line: String::new(),
            fields,
        }
    }

    #[test]
    fn events_add_up_to_m_of_n() {
        let mut progress = Progress::default();
        let lines: Vec<_> = [
            json!({"type": "run.accepted"}),
            json!({"type": "run.claimed", "epoch": 1}),
            json!({"type": "plan.declared", "keys": ["a", "b", "c", "d"]}),
            json!({"type": "step.started", "key": "a"}),
            json!({"type": "step.committed", "key": "a"}),
            json!({"type": "step.started", "key": "b"}),
            json!({"type": "run.lost", "epoch": 1, "crashes": 1}),
            json!({"type": "run.claimed", "epoch": 2}),
            json!({"type": "step.unknown", "key": "b"}),
            json!({"type": "step.started", "key": "c"}),
            json!({"type": "step.failed", "key": "c", "error": {"kind": "http_status", "message": "404"}}),
            json!({"type": "step.started", "key": "extra"}),
            json!({"type": "auto_continue", "reason": "run_timeout"}),
        ]
        .into_iter()
        .filter_map(|fields| progress.event(&event(fields)))
        .collect();
        let expected = Totals {
            planned: 5,
            committed: 1,
            failed: 1,
            unknown: 1,
        };
        assert_eq!(progress.totals(), expected);
        assert_eq!((progress.chunks, progress.crashes), (2, 1));
        assert_eq!(progress.exit(), None);
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn an_ending_is_stated_with_what_remains() {
        let ending = |fields: Value| {
            let mut progress = Progress::default();
            progress.event(&event(fields));
            let (kind, outcome) = progress.ended.clone().unwrap();
            format!("{:?} {}", progress.exit().unwrap(), statement(&kind, &outcome))
        };
        let totals = |committed: u64| json!({"planned": 12, "committed": committed, "failed": 0, "unknown": 0});
        let keys: Vec<_> = (0..12).map(|n| format!("k{n}")).collect();
        let endings = [
            ending(json!({"type": "run.completed", "totals": totals(12), "remaining": 0})),
            ending(
                json!({"type": "run.completed", "totals": totals(12), "remaining": 0, "failures_handled": 1,
                "verification": {"checked": 12, "missing": [], "unsettled": 0}}),
            ),
            ending(
                json!({"type": "run.incomplete", "reason": "not_verified", "totals": totals(12), "remaining": 1,
                "remainder": ["k3"], "verification": {"checked": 12, "missing": ["k3"], "unsettled": 2}}),
            ),
            ending(
                json!({"type": "run.failed", "reason": "crash_limit", "totals": totals(0), "remaining": 12,
                "remainder": keys}),
            ),
            ending(
                json!({"type": "run.failed", "reason": "agent_error", "totals": totals(12), "remaining": 0,
                "error": {"kind": "panic", "message": "boom"}}),
            ),
            ending(
                json!({"type": "run.cancelled", "reason": "stopped", "totals": totals(11), "remaining": 1,
                "remainder": ["k11"]}),
            ),
        ];
        insta::assert_snapshot!(endings.join("\n"));
    }
}
