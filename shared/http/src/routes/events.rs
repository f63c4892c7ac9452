//! `GET /api/v1/runs/{id}/events`: a run's log from a cursor on, as a stream or as JSON.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::future::{BoxFuture, Either, Shared, select};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use outlast_core::time_budget::chunk_time;
use outlast_core::{Owner, RunId};
use outlast_engine::follow::{Follower, log_end};
use outlast_store::WireEvent;
use serde::Deserialize;

use crate::cursor::{self, Seen};
use crate::extract::{Caller, Parameters, RunPath, Via};
use crate::negotiate::wants_events;
use crate::problem::Problem;
use crate::{Api, Invocation, sse};

#[derive(Deserialize)]
pub(crate) struct EventsParameters {
    after: Option<String>,
    wait: Option<String>,
}

pub(crate) async fn events(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    RunPath(id): RunPath,
    Via(invocation): Via,
    Parameters(parameters): Parameters<EventsParameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let seen = Seen::asked(parameters.after.as_deref(), &headers)?;
    let wait = parameters.wait.as_deref().map(cursor::wait).transpose()?;
    if wants_events(&headers) {
        return open(&api, &owner, &id, seen, invocation, None).await;
    }
    let wait = wait.unwrap_or_default().min(stream_for(&api, invocation));
    as_json(&api, &owner, &id, seen, wait).await
}

/// A stream from behind what the reader has seen. 204 for one that has seen the end. With a chunk that this invocation
/// carries it lasts as long as the chunk, and ends with it.
pub(super) async fn open(
    api: &Api,
    owner: &Owner,
    id: &RunId,
    seen: Seen,
    invocation: Invocation,
    chunk: Option<Shared<BoxFuture<'static, ()>>>,
) -> Result<Response, Problem> {
    let engine = &api.engine;
    let (mut after, mut waits_until) = (0, None);
    // Every log has a first event: who has seen nothing is somewhere in it.
    if seen.is_given() {
        let end = log_end(engine, owner, id).await?;
        after = seen.within(end.last_seq)?;
        if after == end.last_seq {
            if end.ended && chunk.is_none() {
                // Says "don't come back" to readers that reconnect on their own.
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            waits_until = end.waits_until;
        }
    }
    let follower = Follower::new(engine, owner, id, after).await?;
    let opening = sse::Opening {
        stream_for: stream_for(api, invocation),
        waits_until,
        chunk,
    };
    Ok(sse::response(follower, engine.seams().clock.clone(), opening))
}

/// How long this invocation can serve a reader: within its own wall.
fn stream_for(api: &Api, invocation: Invocation) -> Duration {
    let now = api.engine.seams().now();
    let time = chunk_time(api.host, api.stream_for, invocation.deadline, now);
    time.soft_cap_at.since(now)
}

async fn as_json(api: &Api, owner: &Owner, id: &RunId, seen: Seen, wait: Duration) -> Result<Response, Problem> {
    let engine = &api.engine;
    let end = log_end(engine, owner, id).await?;
    let after = seen.within(end.last_seq)?;
    if after == end.last_seq && end.ended {
        return Ok(page(after, &[], true, false));
    }
    let mut follower = Follower::new(engine, owner, id, after).await?;
    let (mut events, mut more) = follower.read_now().await?;
    if events.is_empty() && !wait.is_zero() {
        let clock = &engine.seams().clock;
        let waited = {
            let next = pin!(follower.next());
            match select(next, clock.sleep(wait)).await {
                Either::Left((events, _)) => Some(events?),
                Either::Right(_) => None,
            }
        };
        (events, more) = match waited {
            Some(events) => (events, false),
            None => follower.read_now().await?,
        };
    }
    Ok(page(after, &events, follower.has_ended(), more))
}

/// `next` is the cursor for the next request; `more` says that it would find something at once.
fn page(after: u64, events: &[WireEvent], ended: bool, more: bool) -> Response {
    let next = events.last().map_or(after, sse::seq);
    // Each event is JSON already, as its writer wrote it.
    let events: Vec<&str> = events.iter().map(|event| event.json.as_str()).collect();
    let body = format!(
        "{{\"events\":[{}],\"next\":{next},\"ended\":{ended},\"more\":{more}}}",
        events.join(",")
    );
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}
