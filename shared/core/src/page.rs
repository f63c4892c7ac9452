//! Pages: what is written at once. One item holds one or more consecutive events.

use crate::event::Event;
use crate::ids::{RunId, WriteId};
use crate::run::Totals;

/// The schema of rows and pages that this code writes and knows.
pub const SCHEMA: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// By a plain conditional put at the tail.
    Holder,
    /// Anyone else, and the holder's own endings: in one transaction with the row.
    Control,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub run_id: RunId,
    pub epoch: u64,
    pub writer: Writer,
    pub write_id: WriteId,
    /// At least one, consecutive.
    pub events: Vec<Event>,
    /// M of N after this page, so that the tail alone gives them.
    pub totals: Totals,
    /// TTL seconds: the run's latest possible end and the retention.
    pub expires_at: i64,
}

impl Page {
    pub fn first_seq(&self) -> u64 {
        self.events.first().map_or(0, |event| event.seq)
    }

    pub fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    /// Holds the run's terminal event.
    pub fn is_ended(&self) -> bool {
        self.events.last().is_some_and(|event| event.body.is_terminal())
    }
}
