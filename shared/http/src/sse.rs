//! A run's log as server-sent events.
//!
//! An event's id is its seq. What isn't an event of the log (comments, `retry:`, the request to reconnect) has none, so a
//! reader's last id is always a place in the log. The stream ends cleanly after the terminal event, or after it has
//! asked its reader to reconnect; any other end is a broken body, and the reader resumes from its last id.

use crate::view::parse_rfc3339;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::future::{BoxFuture, Either, Shared, select};
use futures::stream::{Stream, unfold};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use outlast_core::Timestamp;
use outlast_engine::EngineError;
use outlast_engine::follow::Follower;
use outlast_engine::seams::Clock;
use outlast_store::WireEvent;
use tracing::warn;

/// Without anything else to say, a comment goes out this often: proxies close what is silent.
pub const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// How soon a reader comes back.
pub const RETRY: Duration = Duration::from_secs(1);
/// How soon it comes back to a run that waits for longer than a stream lasts.
pub const RETRY_PARKED: Duration = Duration::from_secs(30);

/// How a stream begins.
#[derive(Clone, Debug)]
pub struct Opening {
    pub stream_for: Duration,
    /// The run waits until then, and the reader has seen all there is.
    pub waits_until: Option<Timestamp>,
    /// The chunk that this invocation carries. The stream lasts exactly as long as it does, whatever `stream_for` says.
    pub chunk: Option<Shared<BoxFuture<'static, ()>>>,
}

/// The stream as `text/event-stream` (WHATWG HTML, 9.2), never cached and never transformed on the way.
pub fn response(follower: Follower, clock: Arc<dyn Clock>, opening: Opening) -> Response {
    let mut response = Response::new(Body::from_stream(stream(follower, clock, opening)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The stream's bytes; an error breaks the body off.
pub fn stream(
    follower: Follower,
    clock: Arc<dyn Clock>,
    opening: Opening,
) -> impl Stream<Item = Result<Bytes, EngineError>> + Send + 'static {
    let now = clock.monotonic();
    let closes_at = now + opening.stream_for;
    let closes_on = clock.now() + opening.stream_for;
    let reader = Reader {
        follower,
        clock,
        closes_at,
        closes_on,
        comment_at: now + COMMENT_EVERY,
        waits_until: opening.waits_until,
        chunk: opening.chunk.map_or(Chunk::Elsewhere, Chunk::Underway),
        phase: Phase::Opening,
    };
    unfold(reader, Reader::next)
}

struct Reader {
    follower: Follower,
    clock: Arc<dyn Clock>,
    closes_at: Duration,
    /// The same on the clock that the run's times are said in.
    closes_on: Timestamp,
    comment_at: Duration,
    waits_until: Option<Timestamp>,
    chunk: Chunk,
    phase: Phase,
}

/// The run's chunk, as far as this stream has to do with it.
#[derive(Clone)]
enum Chunk {
    /// Somebody else carries the run, or nobody.
    Elsewhere,
    Underway(Shared<BoxFuture<'static, ()>>),
    Closed,
}

impl Chunk {
    async fn closed(self) {
        match self {
            Chunk::Underway(chunk) => chunk.await,
            Chunk::Elsewhere | Chunk::Closed => std::future::pending().await,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Following,
    /// One consistent read, and goodbye.
    Leaving,
    Done,
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Bytes, EngineError>, Reader)> {
        let said = match self.phase {
            Phase::Opening => {
                self.phase = Phase::Following;
                Ok(retry(RETRY))
            }
            Phase::Following => match self.follow().await.transpose() {
                Some(said) => said,
                None if self.phase == Phase::Leaving => self.leave().await,
                None => return None,
            },
            Phase::Leaving => self.leave().await,
            Phase::Done => {
                self.let_the_chunk_close().await;
                return None;
            }
        };
        if said.is_err() {
            self.let_the_chunk_close().await;
        }
        let said = said.map(Bytes::from).inspect_err(|error| {
            warn!(%error, "a reader's stream breaks off");
            self.phase = Phase::Done;
        });
        Some((said, self))
    }

    /// What is to be said next; `None` after the end, and when it is time to leave.
    async fn follow(&mut self) -> Result<Option<String>, EngineError> {
        let now = self.clock.monotonic();
        if self.is_time(now) || self.waits_for_long() {
            self.phase = Phase::Leaving;
            return Ok(None);
        }
        let closes_at = match self.chunk {
            Chunk::Underway(_) => Duration::MAX,
            Chunk::Elsewhere | Chunk::Closed => self.closes_at,
        };
        let pause = closes_at.min(self.comment_at).saturating_sub(now);
        let next = {
            // Dropped in the middle of a read it loses nothing: what was read counts only once it is handed out.
            let next = pin!(self.follower.next());
            let nothing = pin!(select(self.clock.sleep(pause), Box::pin(self.chunk.clone().closed())));
            match select(next, nothing).await {
                Either::Left((events, _)) => Some(events?),
                Either::Right((Either::Left(_), _)) => None,
                Either::Right((Either::Right(_), _)) => {
                    self.chunk = Chunk::Closed;
                    None
                }
            }
        };
        let events = match next {
            Some(events) => events,
            None if !self.is_time(self.clock.monotonic()) => {
                self.comment_at = self.clock.monotonic() + COMMENT_EVERY;
                return Ok(Some(String::from(": still here\n\n")));
            }
            None => {
                self.phase = Phase::Leaving;
                return Ok(None);
            }
        };
        if events.is_empty() {
            self.phase = Phase::Done;
            return Ok(None);
        }
        Ok(Some(self.hand_out(&events)))
    }

    /// What is there now; then, if there is nothing more to be had at once, the request to come back.
    async fn leave(&mut self) -> Result<String, EngineError> {
        let (events, more) = self.follower.read_now().await?;
        let is_time = self.is_time(self.clock.monotonic());
        let mut said = match events.is_empty() {
            true => String::new(),
            false => self.hand_out(&events),
        };
        if self.phase == Phase::Done {
            return Ok(said);
        }
        // A run that waited and has gone on is followed on.
        if !is_time && (more || !self.waits_for_long()) {
            self.phase = Phase::Following;
            return Ok(said);
        }
        said.push_str(&reconnect(self.waits_for_long().then_some(RETRY_PARKED)));
        self.phase = Phase::Done;
        Ok(said)
    }

    fn hand_out(&mut self, events: &[WireEvent]) -> String {
        self.comment_at = self.clock.monotonic() + COMMENT_EVERY;
        self.waits_until = events.last().and_then(parked_until);
        self.phase = match self.follower.has_ended() {
            true => Phase::Done,
            false => Phase::Following,
        };
        events.iter().map(frame).collect()
    }

    fn is_time(&self, now: Duration) -> bool {
        match self.chunk {
            Chunk::Elsewhere => now >= self.closes_at,
            Chunk::Underway(_) => false,
            Chunk::Closed => true,
        }
    }

    /// The answer must not end before the chunk does: what ran behind it would be frozen.
    async fn let_the_chunk_close(&mut self) {
        if let Chunk::Underway(chunk) = std::mem::replace(&mut self.chunk, Chunk::Closed) {
            chunk.await;
        }
    }

    /// Nothing will come while this stream lasts.
    fn waits_for_long(&self) -> bool {
        !matches!(self.chunk, Chunk::Underway(_)) && self.waits_until.is_some_and(|until| until > self.closes_on)
    }
}

/// Without an id: the reader's last one stays what it was.
fn reconnect(after: Option<Duration>) -> String {
    let retry = after.map(|after| format!("retry: {}\n", after.as_millis()));
    format!("event: reconnect\n{}data: {{}}\n\n", retry.unwrap_or_default())
}

fn retry(after: Duration) -> String {
    format!("retry: {}\n\n", after.as_millis())
}

/// One event. JSON has no bare line breaks within strings, so none here is content.
fn frame(event: &WireEvent) -> String {
    format!(
        "id: {}\nevent: {}\ndata: {}\n\n",
        seq(event),
        one_line(&event.kind),
        one_line(&event.json)
    )
}

/// The seq up to which this event brings its reader.
pub(crate) fn seq(event: &WireEvent) -> u64 {
    event.seq
}

fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains(['\n', '\r']) {
        true => text.replace(['\n', '\r'], " ").into(),
        false => text.into(),
    }
}

/// Until when a run waits whose last event this is; with no time given, for as long as it may.
fn parked_until(event: &WireEvent) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct Parked {
        until: Option<String>,
    }
    if event.kind != "run.parked" {
        return None;
    }
    let parked: Parked = serde_json::from_str(&event.json).ok()?;
    match parked.until {
        Some(until) => parse_rfc3339(&until).ok(),
        None => Some(Timestamp::from_millis(i64::MAX)),
    }
}
