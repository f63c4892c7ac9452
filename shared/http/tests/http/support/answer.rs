//! An answer, read to its end.

use axum::body::Body;
use axum::response::Response;
use eventsource_stream::{Event, Eventsource as _};
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The body ended as it should.
    pub is_whole: bool,
}

impl Answer {
    pub async fn of(response: Response) -> Answer {
        let (parts, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        let mut is_whole = true;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(frame.data_ref().expect("no trailers")),
                Err(_) => is_whole = false,
            }
        }
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes).expect("UTF-8"),
            is_whole,
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }

    /// The code of the problem that this has to be, with everything that a problem has.
    #[track_caller]
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let body = self.json();
        let code = body["code"].as_str().expect("a code");
        assert_eq!(body["status"], status);
        assert_eq!(body["type"], format!("/docs/errors/{code}"));
        assert!(!body["title"].as_str().unwrap().is_empty());
        assert!(!body["detail"].as_str().unwrap().is_empty());
        assert_eq!(body["error"]["code"], code);
        assert_eq!(body["error"]["message"], body["detail"]);
        assert!(body["error"]["details"].is_object());
        code.to_owned()
    }

    pub async fn events(&self) -> Vec<Event> {
        assert_eq!(self.header("content-type"), "text/event-stream", "{self:?}");
        let stream = Body::from(self.text.clone()).into_data_stream().eventsource();
        stream.map(|event| event.expect("well-formed")).collect().await
    }

    /// The events of the log, without the request to come back.
    pub async fn logged(&self) -> Vec<Event> {
        let mut events = self.events().await;
        events.retain(|event| event.event != "reconnect");
        events
    }
}

/// The seqs of events.
pub fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.id.parse().expect("a seq")).collect()
}
