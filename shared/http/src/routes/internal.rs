//! `POST /_process-run` and `POST /_sweep`: what a host sends itself. To anyone else they aren't there.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use outlast_core::dispatch_token::TokenError;
use outlast_core::time_budget::chunk_time;
use outlast_core::{RunId, Status};
use outlast_engine::EngineError;
use outlast_engine::dispatch::{DeliveryError, TOKEN_HEADER};
use outlast_engine::process::{Delivery, Invocation as ChunkInvocation, ProcessError, Processed, process};
use outlast_engine::sweep::{self, Swept};
use outlast_engine::work::Worked;
use serde::Serialize;

use crate::extract::{Body, Via};
use crate::problem::{Code, Problem};
use crate::{Api, InternalAccess, Invocation, observe};

/// Stands in front of the router: whatever the method, who may not come in doesn't learn that there is a door.
pub(crate) async fn only_marked(request: Request, next: Next) -> Response {
    let is_internal = request
        .extensions()
        .get::<Invocation>()
        .is_some_and(|invocation| invocation.internal);
    match is_internal || !request.uri().path().starts_with("/_") {
        true => next.run(request).await,
        false => Problem::of(Code::RouteNotFound).into_response(),
    }
}

/// What became of a dispatch, for whoever reads the invocation's logs.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessedJson {
    claimed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    /// Someone else has the run now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fenced: bool,
}

impl ProcessedJson {
    fn not_claimed(why: &'static str) -> Self {
        Self {
            why: Some(why),
            ..Self::default()
        }
    }
}

/// Carries a chunk to its end, and only then answers: what still ran after the answer would be frozen with it.
pub(crate) async fn process_run(
    State(api): State<Arc<Api>>,
    Via(invocation): Via,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ProcessedJson>, Problem> {
    let token = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let delivery = Delivery { body: &body.0, token };
    let processed = match process(&api.engine, delivery, chunk(&api, invocation)).await {
        Ok(processed) => processed,
        // It came too late. The sweep sends another; this one is answered quietly, so that nobody repeats it.
        Err(ProcessError::Delivery(DeliveryError::Token(TokenError::Expired))) => {
            return Ok(Json(ProcessedJson::not_claimed("token_expired")));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(match processed {
        Processed::NotClaimed(EngineError::Refused(refusal)) => ProcessedJson::not_claimed(refusal.code()),
        Processed::NotClaimed(_) => ProcessedJson::not_claimed("not_found"),
        Processed::Worked(Worked::Closed(run)) => {
            observe::is_about(&run.id);
            ProcessedJson {
                claimed: true,
                status: Some(run.status),
                run_id: Some(run.id),
                ..ProcessedJson::default()
            }
        }
        Processed::Worked(Worked::Fenced) => ProcessedJson {
            claimed: true,
            fenced: true,
            ..ProcessedJson::default()
        },
    }))
}

fn chunk(api: &Api, invocation: Invocation) -> ChunkInvocation {
    let now = api.engine.seams().now();
    ChunkInvocation {
        host: api.host,
        time: chunk_time(api.host, api.soft_cap, invocation.deadline, now),
        longest_body: longest_body(api),
    }
}

/// In any chunk of this host: whatever this one's deadline is.
fn longest_body(api: &Api) -> Duration {
    let now = api.engine.seams().now();
    chunk_time(api.host, api.soft_cap, None, now).grace_ends_at.since(now)
}

pub(crate) async fn sweep(State(api): State<Arc<Api>>) -> Result<Json<Swept>, Problem> {
    let InternalAccess::MarkedOnly = api.internal;
    Ok(Json(sweep::sweep(&api.engine).await?))
}
