//! A reader's place in a run's log, as it gives it: "seen up to here".

use std::time::Duration;

use http::HeaderMap;

use crate::problem::{Code, Problem};

/// The header in which readers say it when they reconnect.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// The longest that a reader may wait for JSON.
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What a reader says it has seen, not yet compared with the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(Option<u64>);

impl Seen {
    /// From the query's `after` and the header; if both are given the larger counts.
    pub fn asked(after: Option<&str>, headers: &HeaderMap) -> Result<Seen, Problem> {
        let after = after.map(|text| seq("after", text.as_bytes())).transpose()?;
        let header = headers
            .get(LAST_EVENT_ID)
            // Some clients send the header empty before they have seen anything.
            .filter(|value| !value.is_empty())
            .map(|value| seq("Last-Event-ID", value.as_bytes()))
            .transpose()?;
        Ok(Seen(after.max(header)))
    }

    /// Whether the reader said anything.
    pub fn is_given(self) -> bool {
        self.0.is_some()
    }

    /// The place in a log that ends at `last_seq`.
    pub fn within(self, last_seq: u64) -> Result<u64, Problem> {
        let seen = self.0.unwrap_or(0);
        if seen > last_seq {
            let detail = format!("{seen} is past the end of this run's log, whose last seq is {last_seq}");
            return Err(Problem::new(Code::BadCursor, detail).with("lastSeq", last_seq));
        }
        Ok(seen)
    }
}

fn seq(name: &str, text: &[u8]) -> Result<u64, Problem> {
    let digits = Some(text).filter(|text| text.iter().all(u8::is_ascii_digit));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.ok_or_else(|| {
        let detail = format!("`{name}` has to be the seq of an event, a whole number, or 0 for the beginning");
        Problem::new(Code::BadCursor, detail)
    })
}

/// `20s`, `500ms` or `20`, which are seconds.
pub fn wait(text: &str) -> Result<Duration, Problem> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    millis
        .map(Duration::from_millis)
        .filter(|wait| *wait <= LONGEST_WAIT)
        .ok_or_else(|| {
            Problem::new(
                Code::BadRequest,
                "`wait` is a time such as `20s` or `500ms`, and at most `20s`",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(after: Option<&str>, header: Option<&str>) -> Result<Seen, Problem> {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(LAST_EVENT_ID, value.parse().unwrap());
        }
        Seen::asked(after, &headers)
    }

    #[test]
    fn the_larger_of_two_counts() {
        let place = |after, header| asked(after, header).unwrap().within(100).unwrap();
        assert_eq!(place(None, None), 0);
        assert_eq!(place(Some("9"), Some("10")), 10);
        assert_eq!(place(Some("10"), Some("9")), 10);
        assert_eq!(place(None, Some("100")), 100);
        assert_eq!(place(Some("7"), Some("")), 7);
    }

    #[test]
    fn only_what_the_log_has_is_a_cursor() {
        for text in ["", "-1", "+1", "1.0", "1e3", " 1", "0x1", "a", "99999999999999999999"] {
            assert_eq!(asked(Some(text), None).unwrap_err().code(), "bad_cursor", "{text:?}");
        }
        assert!(asked(None, Some("é")).is_err());
        let beyond = asked(Some("101"), None).unwrap().within(100).unwrap_err();
        assert_eq!(beyond.code(), "bad_cursor");
    }

    #[test]
    fn a_wait_has_a_unit_and_a_limit() {
        let millis = |text| wait(text).ok().map(|wait| wait.as_millis());
        assert_eq!(millis("20s"), Some(20_000));
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis("3"), Some(3_000));
        for text in [
            "",
            "s",
            "21s",
            "20001ms",
            "-1s",
            "1m",
            "99999999999999999999",
            "18446744073709551615",
        ] {
            assert_eq!(millis(text), None, "{text:?}");
        }
    }
}
