//! The host on AWS Lambda.

use std::sync::Arc;

use anyhow::anyhow;
use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use lambda_http::request::RequestContext;
use lambda_http::{Context, Request};
use outlast_agent::App;
use outlast_core::Timestamp;
use outlast_http::Invocation;
use tower::ServiceBuilder;

use crate::aws::Clients;
use crate::dispatch_lambda::LambdaDispatcher;
use crate::host::Host;
use crate::internal_event::INTERNAL_DOMAIN;
use crate::settings::{Dispatch, Settings};
use crate::telemetry::{self, Format};
use crate::wiring::{self, Wiring};

/// Serves an app's invocations until Lambda ends the process. A configuration that is wrong is an error before the first
/// one.
pub async fn serve(app: App, host: Host) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    telemetry::init(Format::Json, settings.log.as_deref());
    let configured = settings.soft_cap(host.kind());
    let host = host.with_soft_cap(configured);
    if let Some(configured) = configured.filter(|configured| *configured > host.soft_cap()) {
        let cap = host.soft_cap();
        tracing::warn!(
            ?configured,
            ?cap,
            "the soft cap can only be lowered; its ceiling counts"
        );
    }
    let router = router(app, host, settings).await;
    let handler = ServiceBuilder::new()
        .map_request(mark)
        .map_response(hide_errors)
        .service(router);
    lambda_http::run_with_streaming_response(handler)
        .await
        .map_err(|error| anyhow!(error))
}

async fn router(app: App, host: Host, settings: Settings) -> axum::Router {
    let clients = Clients::from_env(settings.timing).await;
    let dispatcher = match settings.dispatch {
        Dispatch::Lambda { function } => LambdaDispatcher::new(&clients.lambda, function, &settings.base_path),
    };
    let engine = wiring::engine(
        app,
        Wiring {
            dynamodb: clients.dynamodb,
            heartbeat_dynamodb: clients.heartbeat_dynamodb,
            runs_table: settings.tables.runs,
            events_table: settings.tables.events,
            dispatcher: Arc::new(dispatcher),
            dispatch_keys: settings.dispatch_keys,
            timing: settings.timing,
            holder: holder(),
        },
    );
    outlast_http::router(wiring::api(engine, host, settings.base_path))
}

/// This execution environment, as a person finds its logs.
fn holder() -> String {
    let set = |name| std::env::var(name).ok();
    let function = set("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|| "function".into());
    let environment = set("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_else(|| std::process::id().to_string());
    format!("{function}/{environment}")
}

/// Turns what Lambda says of an invocation, which no caller can write, into the router's terms.
fn mark(mut request: Request) -> Request {
    let extensions = request.extensions();
    let deadline = extensions
        .get::<Context>()
        .map(|context| Timestamp::from_millis(i64::try_from(context.deadline).unwrap_or(i64::MAX)));
    let internal = match extensions.get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV2(context)) => context.domain_name.as_deref() == Some(INTERNAL_DOMAIN),
        _ => false,
    };
    request.extensions_mut().insert(Invocation { deadline, internal });
    request
}

/// A body that breaks off reaches the client as a last line that spells its error, and a clean end: the runtime's client
/// writes it into the body. So the error goes to the log, and the client learns no more than that there was one.
fn hide_errors(response: Response<Body>) -> Response<Body> {
    response.map(|body| {
        Body::new(body.map_err(|error| {
            tracing::warn!(%error, "an answer broke off");
            axum::Error::new(BrokeOff)
        }))
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
struct BrokeOff;

#[cfg(test)]
mod tests;
