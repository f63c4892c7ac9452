//! What the server says, as far as the commands look at it. Unknown fields are let be: a newer server may say more.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Totals {
    pub planned: u64,
    pub committed: u64,
    pub failed: u64,
    pub unknown: u64,
}

/// An event of a run, as it came and as far as it is looked at.
#[derive(Clone, Debug)]
pub struct Event {
    pub seq: u64,
    pub kind: String,
    /// One line of JSON.
    pub line: String,
    pub fields: Value,
}

impl Event {
    pub fn is_terminal(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "run.completed" | "run.incomplete" | "run.failed" | "run.cancelled"
        )
    }

    pub fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }

    /// Of a terminal event.
    pub fn outcome(&self) -> Option<Outcome> {
        self.is_terminal()
            .then(|| serde_json::from_value(self.fields.clone()).unwrap_or_default())
    }
}

/// How a run ended: the terminal event, or `outcome` of what `show` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outcome {
    pub reason: Option<String>,
    #[serde(alias = "counts")]
    pub totals: Totals,
    pub failures_handled: u64,
    pub remaining: u64,
    pub remainder: Vec<String>,
    pub verification: Option<Verification>,
    pub error: Option<ErrorInfo>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Verification {
    pub checked: u64,
    /// At most the first hundred.
    pub missing: Vec<String>,
    pub missing_in_all: u64,
    pub unsettled: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ErrorInfo {
    pub kind: String,
    pub message: String,
}

/// How long an RFC 3339 time lies back, by the server's own clock; in words.
pub fn ago(time: &str, now: &str) -> Option<String> {
    let (time, now): (jiff::Timestamp, jiff::Timestamp) = (time.parse().ok()?, now.parse().ok()?);
    let seconds = u64::try_from(now.as_second() - time.as_second()).unwrap_or(0);
    Some(format!("{} ago", short(Duration::from_secs(seconds))))
}

/// `8 s`, `5 min`, `3 h`, `2 d`.
pub fn short(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_words() {
        let now = "2026-01-02T00:00:00Z";
        for (time, words) in [
            ("2026-01-01T23:59:52.5Z", "8 s ago"),
            ("2026-01-01T23:55:00Z", "5 min ago"),
            ("2026-01-01T20:00:00Z", "4 h ago"),
            ("2025-12-30T00:00:00Z", "3 d ago"),
            ("2026-01-02T00:00:03Z", "0 s ago"),
        ] {
            assert_eq!(ago(time, now).as_deref(), Some(words));
        }
        assert_eq!(ago("", now), None);
    }
}
