//! `POST /_process-run` and `POST /_sweep`: what a deployment sends itself. To anyone else they aren't there.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use outlast_core::dispatch_token::TokenError;
use outlast_core::limits::CLAIM_TAKES;
use outlast_core::time_budget::chunk_time;
use outlast_core::{RunId, Status};
use outlast_engine::EngineError;
use outlast_engine::carry::{self, Invocation as ChunkInvocation};
use outlast_engine::dispatch::{DeliveryError, TOKEN_HEADER, check_delivery, check_sweep};
use outlast_engine::process::{Delivery, ProcessError, Processed, process, processed};
use outlast_engine::sweep::{Swept, sweep_and_carry};
use outlast_engine::work::Worked;
use serde::Serialize;

use crate::extract::{Body, Via};
use crate::problem::{Code, Problem};
use crate::{Api, InternalAccess, Invocation, observe};

/// Stands in front of the router: whatever the method, who may not come in doesn't learn that there is a door.
pub(crate) async fn guard(State(access): State<InternalAccess>, request: Request, next: Next) -> Response {
    let may_pass = !request.uri().path().starts_with("/_")
        || request
            .extensions()
            .get::<Invocation>()
            .is_some_and(|invocation| invocation.internal)
        // What its token is worth is judged where its body is read.
        || access == InternalAccess::Signed
            && request.method() == Method::POST
            && request.headers().contains_key(TOKEN_HEADER);
    match may_pass {
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

/// From its own platform: carries a chunk to its end, and only then answers, because what still ran after the answer would
/// be frozen with it. Over plain HTTP: 202 as soon as the token is found to be good, and the body when the chunk has ended,
/// so that whoever dispatched need not wait for it.
pub(crate) async fn process_run(
    State(api): State<Arc<Api>>,
    Via(invocation): Via,
    headers: HeaderMap,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let body = whole(body, invocation)?;
    let delivery = delivery(&headers, &body);
    let chunk = chunk(&api, invocation);
    if !invocation.internal {
        return accept(api, delivery, chunk).await;
    }
    let answer = match process(&api.engine, delivery, chunk).await {
        Ok(processed) => said(processed),
        // It came too late. The sweep sends another; this one is answered quietly, so that nobody repeats it.
        Err(ProcessError::Delivery(DeliveryError::Token(TokenError::Expired))) => {
            ProcessedJson::not_claimed("token_expired")
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(answer).into_response())
}

async fn accept(api: Arc<Api>, delivery: Delivery<'_>, chunk: ChunkInvocation) -> Result<Response, Problem> {
    let dispatch = check_delivery(&api.engine, delivery, chunk.host).await;
    let dispatch = dispatch.map_err(not_there)?;
    let (run, epoch) = (dispatch.run_id.clone(), dispatch.expected_epoch);
    let underway = carry::begin(&api.engine, run, Some(epoch), chunk);
    let answer = async move {
        let carried = underway.ended().await;
        let answer = match processed(&api.engine, &dispatch, carried).await {
            Ok(processed) => said(processed),
            Err(error) => {
                tracing::error!(run = %dispatch.run_id, %error, "a chunk broke off");
                ProcessedJson::not_claimed("error")
            }
        };
        serde_json::to_vec(&answer)
    };
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    let body = axum::body::Body::from_stream(answer.into_stream());
    Ok((StatusCode::ACCEPTED, headers, body).into_response())
}

/// What is wrong with a body is no business of a caller from outside: nobody is known to be there who would read it.
fn whole(body: Result<Body, Problem>, invocation: Invocation) -> Result<Body, Problem> {
    body.map_err(|problem| match invocation.internal {
        true => problem,
        false => Problem::of(Code::RouteNotFound),
    })
}

fn delivery<'a>(headers: &'a HeaderMap, body: &'a Body) -> Delivery<'a> {
    let token = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    Delivery { body: &body.0, token }
}

/// A caller from outside who has no good token learns no more than at any other path that isn't there.
fn not_there(error: DeliveryError) -> Problem {
    tracing::warn!(%error, "an internal call was turned away");
    Problem::of(Code::RouteNotFound)
}

fn said(processed: Processed) -> ProcessedJson {
    match processed {
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
    }
}

/// The chunk that this invocation may carry, from now on.
pub(super) fn chunk(api: &Api, invocation: Invocation) -> ChunkInvocation {
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
    let in_all = chunk_time(api.host, api.soft_cap, None, now).grace_ends_at.since(now);
    in_all.saturating_sub(CLAIM_TAKES)
}

/// One pass over all that is due, and a chunk of a run that nobody else carries.
pub(crate) async fn sweep(
    State(api): State<Arc<Api>>,
    Via(invocation): Via,
    headers: HeaderMap,
    body: Result<Body, Problem>,
) -> Result<Json<Swept>, Problem> {
    let body = whole(body, invocation)?;
    if !invocation.internal {
        check_sweep(&api.engine, delivery(&headers, &body)).map_err(not_there)?;
    }
    Ok(Json(sweep_and_carry(&api.engine, || chunk(&api, invocation)).await?))
}
