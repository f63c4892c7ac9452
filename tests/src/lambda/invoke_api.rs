//! The API by which functions are invoked.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::HeaderMap;
use tokio::net::TcpListener;

use super::{Lambda, Trace};

/// Of an asynchronous invocation.
const MAX_EVENT_BYTES: usize = 1024 * 1024;
const MAX_BYTES: usize = 6 * 1024 * 1024;

pub(super) fn serve(listener: TcpListener, lambda: Arc<Lambda>) {
    let routes = Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(lambda);
    tokio::spawn(async move { axum::serve(listener, routes).await });
}

async fn invoke(
    State(lambda): State<Arc<Lambda>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    payload: Bytes,
) -> Response {
    let Some(function) = lambda.function(&name) else {
        return refused(404, "ResourceNotFoundException", &format!("no function {name}"));
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_err() {
        return refused(400, "InvalidRequestContentException", "the payload is no JSON");
    }
    if let Some(refusal) = lambda.refusal() {
        return refused(refusal.status, refusal.kind, "as the test wants it");
    }
    let trace = headers.get("x-amzn-trace-id").and_then(|value| value.to_str().ok());
    let trace = trace.and_then(Trace::read).unwrap_or_else(Trace::begun);
    let kind = headers.get("x-amz-invocation-type");
    if kind.is_some_and(|kind| kind == "Event") {
        if payload.len() > MAX_EVENT_BYTES {
            return refused(413, "RequestTooLargeException", "an event has at most 1 MB");
        }
        lambda.accept(&function, payload, trace);
        return response(202, Body::empty());
    }
    match function.invoke_in(&trace, payload).await {
        Ok(answer) => response(200, answer.body),
        Err(failure) => {
            let mut response = response(200, Body::from(format!("{failure:?}")));
            response
                .headers_mut()
                .insert("x-amz-function-error", http::HeaderValue::from_static("Unhandled"));
            response
        }
    }
}

fn refused(status: u16, kind: &str, message: &str) -> Response {
    let body = serde_json::json!({ "Type": "User", "Message": message });
    let mut response = response(status, Body::from(body.to_string()));
    let kind = kind.parse().expect("a header's value");
    response.headers_mut().insert("x-amzn-errortype", kind);
    response
}

fn response(status: u16, body: Body) -> Response {
    Response::builder().status(status).body(body).expect("a response")
}
