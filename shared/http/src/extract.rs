//! What handlers take from a request.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::StatusCode;
use http::request::Parts;
use outlast_core::limits::MAX_BODY_BYTES;
use outlast_core::{Owner, RunId};
use serde::de::DeserializeOwned;

use crate::problem::{Code, Problem};
use crate::{Api, Invocation, identity, observe};

/// Whose request it is, as [`crate::access`] found it in front of the handler.
pub(crate) struct Caller(pub Owner);

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        match parts.extensions.get::<identity::Caller>() {
            Some(caller) => Ok(Caller(caller.owner.clone())),
            None => {
                tracing::error!("a route that asks nothing of its caller wants to know whose request it is");
                Err(Problem::of(Code::Internal))
            }
        }
    }
}

/// The run that the path names. What can't be a run's id is a run that isn't there.
pub(crate) struct RunPath(pub RunId);

impl FromRequestParts<Arc<Api>> for RunPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, api).await.ok();
        let id = id.and_then(|Path(text)| RunId::parse(&text));
        let id = id.ok_or_else(|| Problem::of(Code::RunNotFound))?;
        observe::is_about(&id);
        Ok(RunPath(id))
    }
}

/// What the host says of this request.
pub(crate) struct Via(pub Invocation);

impl FromRequestParts<Arc<Api>> for Via {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Self::Rejection> {
        Ok(Via(parts.extensions.get::<Invocation>().copied().unwrap_or_default()))
    }
}

/// The query's parameters.
pub(crate) struct Parameters<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Api>> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, api).await;
        match query {
            Ok(Query(parameters)) => Ok(Parameters(parameters)),
            Err(rejection) => Err(Problem::new(
                Code::BadRequest,
                format!("the query can't be used: {}", rejection.body_text()),
            )),
        }
    }
}

/// The whole body, within the limit.
pub(crate) struct Body(pub Bytes);

impl FromRequest<Arc<Api>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let bytes: Result<Bytes, BytesRejection> = Bytes::from_request(request, api).await;
        bytes.map(Body).map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
                Code::BodyTooLarge,
                format!("a request's body may have at most {MAX_BODY_BYTES} bytes"),
            )
            .with("limitBytes", MAX_BODY_BYTES),
            _ => Problem::new(Code::BadRequest, "the request ended before its body did"),
        })
    }
}

impl Body {
    /// The text, without a byte order mark in front.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        let text = std::str::from_utf8(&self.0).map_err(|error| {
            let at = error.valid_up_to();
            Problem::new(Code::MalformedJson, format!("the body is not UTF-8 at byte {at}"))
        })?;
        Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
    }
}
