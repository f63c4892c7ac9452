//! One span a request, and an answer also where a handler panics.

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use outlast_core::RunId;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug, error, info_span};

use crate::problem::{Code, Problem};

pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let span = info_span!(
        "request",
        method = %request.method(),
        path = request.uri().path(),
        run = Empty,
        status = Empty,
    );
    async move {
        // What a handler shares with others it shares through the store, which takes no half-done write.
        let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        let response = response.unwrap_or_else(|_| {
            error!("a handler panicked");
            Problem::of(Code::Internal).into_response()
        });
        Span::current().record("status", response.status().as_u16());
        debug!("answered");
        response
    }
    .instrument(span)
    .await
}

/// Names the run that the request turned out to be about.
pub(crate) fn is_about(run: &RunId) {
    Span::current().record("run", display(run));
}
