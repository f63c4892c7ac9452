//! What a client sends and what it would like to get.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::problem::{Code, Problem};

/// Whether the client prefers a stream of events to JSON. It has to name it: `*/*` is JSON.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted: Vec<(String, f32)> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(weighed)
        .collect();
    let best = |wanted: &str| {
        accepted
            .iter()
            .enumerate()
            .filter(|(_, (media, weight))| media == wanted && *weight > 0.0)
            .max_by(|(i, (_, a)), (j, (_, b))| a.total_cmp(b).then(j.cmp(i)))
            .map(|(place, (_, weight))| (place, *weight))
    };
    match (best("text/event-stream"), best("application/json")) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some((events_at, events)), Some((json_at, json))) => events > json || (events == json && events_at < json_at),
    }
}

fn weighed(media_range: &str) -> (String, f32) {
    let mut parts = media_range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(1.0, |(_, weight)| weight.trim().parse().unwrap_or(0.0));
    (media, weight)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Json,
    JsonLines,
}

/// What the body is. A page of another site can't send these types without being asked first: anything else, a missing
/// type included, is refused.
pub(crate) fn sent(headers: &HeaderMap) -> Result<Sent, Problem> {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (media, _) = weighed(sent.unwrap_or_default());
    match media.as_str() {
        "application/json" => Ok(Sent::Json),
        media if media.starts_with("application/") && media.ends_with("+json") => Ok(Sent::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
            Ok(Sent::JsonLines)
        }
        _ => {
            let problem = Problem::new(
                Code::UnsupportedMediaType,
                "the body's Content-Type has to be application/json, or application/x-ndjson for a plan as JSON Lines",
            );
            Err(problem.with("contentType", sent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_to_be_named_and_preferred() {
        let check = |accept: &[&str], expected: bool| {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(ACCEPT, value.parse().unwrap());
            }
            assert_eq!(wants_events(&headers), expected, "{accept:?}");
        };
        check(&[], false);
        check(&["*/*"], false);
        check(&["text/html,application/xhtml+xml,*/*;q=0.8"], false);
        check(&["text/event-stream"], true);
        check(&["Text/Event-Stream; charset=utf-8"], true);
        check(&["text/event-stream, */*;q=0.1"], true);
        check(&["*/*", "text/event-stream"], true);
        check(&["application/json, text/event-stream"], false);
        check(&["text/event-stream, application/json"], true);
        check(&["application/json;q=0.5, text/event-stream;q=0.9"], true);
        check(&["application/json, text/event-stream;q=0.9"], false);
        check(&["text/event-stream;q=0"], false);
        check(&["text/event-stream;q=x"], false);
    }

    #[test]
    fn a_body_says_what_it_is() {
        let check = |content_type: Option<&str>, expected: Option<Sent>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = content_type {
                headers.insert(CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(sent(&headers).ok(), expected, "{content_type:?}");
        };
        check(Some("application/json"), Some(Sent::Json));
        check(Some("Application/JSON; charset=utf-8"), Some(Sent::Json));
        check(Some("application/vnd.x+json"), Some(Sent::Json));
        check(Some("application/x-ndjson"), Some(Sent::JsonLines));
        check(Some("application/jsonl"), Some(Sent::JsonLines));
        check(Some("text/plain"), None);
        check(Some("application/x-www-form-urlencoded"), None);
        check(None, None);
    }
}
