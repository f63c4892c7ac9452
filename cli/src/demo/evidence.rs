//! What the demo sees for itself: the events that it read, what the server says, and the table in the file.

use std::collections::{HashMap, HashSet};

use comfy_table::{Table, presets};
use serde_json::{Map, Value};

use super::import;
use crate::wire::{Event, Outcome};

/// What a run must cross for the demo to have shown anything.
const LEAST_CHUNKS: u64 = 4;

#[derive(Default)]
pub struct Evidence {
    seqs: Vec<u64>,
    started: HashMap<String, u64>,
    committed: HashSet<String>,
    /// Steps that began although they were committed.
    begun_after_commit: Vec<String>,
    /// Events that came although the reader had said that it has them.
    pub repeated: u64,
    pub kills: u64,
    pub chunks: u64,
    pub crashes: u64,
    pub ended: Option<(String, Outcome)>,
    /// What `show` says at the end.
    pub shown: Value,
    rows: usize,
    /// Rows that the file holds as they are in the source, and items that are no row.
    found: usize,
    strange: usize,
    pub seconds: f64,
}

impl Evidence {
    pub fn event(&mut self, event: &Event) {
        self.seqs.push(event.seq);
        let key = event.text("key").to_owned();
        match event.kind.as_str() {
            "step.started" if self.committed.contains(&key) => self.begun_after_commit.push(key),
            "step.started" => *self.started.entry(key).or_default() += 1,
            "step.committed" => drop(self.committed.insert(key)),
            _ => {}
        }
    }

    /// Compares the table's items with the rows that were imported.
    pub fn compare(&mut self, rows: &[Map<String, Value>], items: &[Value]) {
        self.rows = rows.len();
        self.found = rows.iter().filter(|row| items.contains(&import::item(row))).count();
        self.strange = items.len().saturating_sub(self.found);
    }

    fn begun_twice(&self) -> usize {
        self.started.values().filter(|times| **times > 1).count()
    }

    fn in_order(&self) -> bool {
        self.repeated == 0 && self.seqs.iter().copied().eq(1..=self.seqs.len() as u64)
    }

    /// The claims that don't hold.
    pub fn failed_checks(&self) -> Vec<String> {
        let rows = self.rows as u64;
        let status = self.ended.as_ref().map_or("not ended", |(kind, _)| kind.as_str());
        let outcome = self.ended.as_ref().map(|(_, outcome)| outcome);
        let totals = outcome.map(|outcome| outcome.totals).unwrap_or_default();
        let verified = outcome.and_then(|outcome| outcome.verification.as_ref());
        let checks = [
            (status == "run.completed", format!("the run did not complete: {status}")),
            (
                (totals.committed, totals.planned) == (rows, rows),
                format!("{} of {} steps are committed", totals.committed, totals.planned),
            ),
            (
                verified.is_some_and(|seen| seen.checked == rows && seen.missing.is_empty() && seen.unsettled == 0),
                "the run's verification does not cover every row".into(),
            ),
            (
                self.found == self.rows && self.strange == 0,
                format!(
                    "the file holds {} of {rows} rows, and {} others",
                    self.found, self.strange
                ),
            ),
            (
                self.chunks >= LEAST_CHUNKS,
                format!("the run crossed {} chunks only", self.chunks),
            ),
            (
                (self.kills, self.crashes) == (1, 1),
                format!("{} kills, {} crashes counted", self.kills, self.crashes),
            ),
            (
                self.shown["crashes"] == self.crashes && self.shown["chunk"] == self.chunks,
                "the run's row and its log disagree".into(),
            ),
            (self.in_order(), "events are missing, out of order or came twice".into()),
            (
                self.begun_after_commit.is_empty(),
                format!("committed steps began again: {}", self.begun_after_commit.join(", ")),
            ),
        ];
        let failed = checks.into_iter().filter(|(holds, _)| !holds);
        failed.map(|(_, claim)| claim).collect()
    }

    pub fn summary(&self) -> String {
        let outcome = self
            .ended
            .as_ref()
            .map(|(_, outcome)| outcome.clone())
            .unwrap_or_default();
        let cost = |field: &str| self.shown["cost"][field].as_f64().unwrap_or(0.0);
        let order = if self.in_order() { ", each once, in order" } else { "" };
        let facts = [
            (
                "steps committed",
                format!("{} of {}", outcome.totals.committed, outcome.totals.planned),
            ),
            (
                "verified by the run",
                outcome
                    .verification
                    .map_or(0, |seen| {
                        seen.checked - seen.missing_in_all.max(seen.missing.len() as u64)
                    })
                    .to_string(),
            ),
            (
                "rows in the file, as in the source",
                format!("{} of {}", self.found, self.rows),
            ),
            ("chunks", self.chunks.to_string()),
            ("crashes", self.crashes.to_string()),
            ("events read", format!("{}{order}", self.seqs.len())),
            ("steps begun again after the kill", self.begun_twice().to_string()),
            ("committed steps begun again", self.begun_after_commit.len().to_string()),
            ("write requests", cost("writeRequests").to_string()),
            ("write units", cost("writeUnits").to_string()),
            ("seconds", format!("{:.1}", self.seconds)),
        ];
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.add_rows(facts.map(|(name, fact)| [name.to_owned(), fact]));
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: u64, fields: Value) -> Event {
        Event {
            seq,
            kind: fields["type"].as_str().unwrap().into(),
            line: String::new(),
            fields,
        }
    }

    /// One row, imported across a kill, as it should be.
    fn sound() -> Evidence {
        let mut evidence = Evidence {
            kills: 1,
            crashes: 1,
            chunks: 5,
            shown: json!({"crashes": 1, "chunk": 5, "cost": {"writeRequests": 9, "writeUnits": 11.5}}),
            ..Evidence::default()
        };
        let outcome = json!({"totals": {"planned": 1, "committed": 1}, "verification": {"checked": 1}});
        evidence.ended = Some(("run.completed".into(), serde_json::from_value(outcome).unwrap()));
        evidence.event(&event(1, json!({"type": "step.started", "key": "AD"})));
        evidence.event(&event(2, json!({"type": "step.started", "key": "AD"})));
        evidence.event(&event(3, json!({"type": "step.committed", "key": "AD"})));
        let row = json!({"alpha2": "AD", "name": "Andorra"});
        let items = [json!({"alpha2": {"S": "AD"}, "name": {"S": "Andorra"}})];
        evidence.compare(&[row.as_object().unwrap().clone()], &items);
        evidence
    }

    #[test]
    fn what_is_sound_passes() {
        let evidence = sound();
        assert_eq!(evidence.failed_checks(), Vec::<String>::new());
        insta::assert_snapshot!(evidence.summary());
    }

    #[test]
    fn each_fault_is_seen() {
        let faults: [fn(&mut Evidence); 7] = [
            |evidence| evidence.event(&event(5, json!({"type": "emit"}))),
            |evidence| evidence.event(&event(4, json!({"type": "step.started", "key": "AD"}))),
            |evidence| evidence.repeated = 1,
            |evidence| evidence.found = 0,
            |evidence| evidence.crashes = 0,
            |evidence| evidence.chunks = 3,
            |evidence| evidence.ended = None,
        ];
        for (number, fault) in faults.iter().enumerate() {
            let mut evidence = sound();
            fault(&mut evidence);
            assert!(!evidence.failed_checks().is_empty(), "fault {number}");
        }
    }
}
