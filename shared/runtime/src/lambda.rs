//! The host on AWS Lambda.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use lambda_http::request::RequestContext;
use lambda_http::{Context, Request};
use outlast_agent::App;
use outlast_core::Timestamp;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::env_vars as vars;
use outlast_core::time_budget::HostKind;
use outlast_engine::dispatch::{Dispatcher, Dispatching};
use outlast_http::identity::{ApiKeyIdentity, NoIdentity};
use outlast_http::{Api, Identity, InternalAccess, Invocation, base_path};
use tower::ServiceBuilder;

use crate::aws::Clients;
use crate::dispatch_http::HttpDispatcher;
use crate::dispatch_lambda::{LambdaDispatcher, OwnName, Target};
use crate::host::Host;
use crate::internal_event::INTERNAL_DOMAIN;
use crate::settings::{self, Dispatch, Settings};
use crate::telemetry::{self, Format};
use crate::wiring::{self, Wiring};

/// What Lambda calls this function.
const OWN_NAME: &str = "AWS_LAMBDA_FUNCTION_NAME";

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
    if host.kind() == HostKind::Background && settings.dispatch.to(host.kind()) != Some(HostKind::Background) {
        let (dispatch, url) = (vars::DISPATCH.name, vars::BACKGROUND_URL.name);
        bail!(
            "this is the background function, and nothing is dispatched to it: set {dispatch} to `lambda`, or to `http` \
             with {url}"
        );
    }
    let own = std::env::var(OWN_NAME).ok();
    if let Dispatch::Lambda {
        background: Some(background),
        ..
    } = &settings.dispatch
        && host.kind() == HostKind::Foreground
        && own.as_deref() == Some(function_of(background))
    {
        let (variable, dispatch) = (vars::BACKGROUND_FUNCTION.name, vars::DISPATCH.name);
        bail!(
            "{variable} is `{background}`, and that is this foreground function: name the background function; or, where \
             there is none, leave {variable} out and set {dispatch} to `lambda`"
        );
    }
    let own_name = OwnName::default();
    let router = router(app, host, settings, own_name.clone()).await?;
    let handler = ServiceBuilder::new()
        .map_request(move |request| mark(request, &own_name))
        .map_response(hide_errors)
        .service(router);
    lambda_http::run_with_streaming_response(handler)
        .await
        .map_err(|error| anyhow!(error))
}

async fn router(app: App, host: Host, settings: Settings, own_name: OwnName) -> anyhow::Result<axum::Router> {
    let clients = Clients::from_env(settings.timing).await;
    let base_path = &settings.base_path;
    let to = settings.dispatch.to(host.kind());
    let (dispatch, internal): (Option<(Arc<dyn Dispatcher>, DispatchKeys)>, _) = match settings.dispatch {
        Dispatch::None => (None, InternalAccess::MarkedOnly),
        Dispatch::Lambda { background, keys } => {
            let target = background.map_or(Target::Itself(own_name), Target::Named);
            let dispatcher = LambdaDispatcher::new(&clients.lambda, target, base_path);
            (Some((Arc::new(dispatcher), keys)), InternalAccess::MarkedOnly)
        }
        Dispatch::Http { url, keys, .. } => {
            let dispatcher = HttpDispatcher::new(&url, base_path)?;
            (Some((Arc::new(dispatcher), keys)), InternalAccess::Signed)
        }
    };
    let dispatching = dispatch
        .zip(to)
        .map(|((dispatcher, keys), to)| Dispatching { dispatcher, keys, to });
    let engine = wiring::engine(
        app,
        Wiring {
            dynamodb: clients.dynamodb,
            heartbeat_dynamodb: clients.heartbeat_dynamodb,
            runs_table: settings.tables.runs,
            events_table: settings.tables.events,
            dispatching,
            timing: settings.timing,
            holder: holder(),
        },
    );
    let identity: Arc<dyn Identity> = match settings.identity {
        settings::Identity::None => Arc::new(NoIdentity),
        settings::Identity::ApiKey => {
            let clock = engine.seams().clock.clone();
            Arc::new(ApiKeyIdentity::new(engine.store().clone(), clock))
        }
    };
    Ok(outlast_http::router(Api {
        identity,
        internal,
        read_tokens: settings.read_tokens,
        ..wiring::api(engine, host, settings.base_path)
    }))
}

/// Its name alone: as it may stand in an ARN, whole or not, and with an alias or a version behind it.
fn function_of(named: &str) -> &str {
    let name = named.rsplit_once("function:").map_or(named, |(_, name)| name);
    name.split(':').next().unwrap_or(name)
}

/// This execution environment, as a person finds its logs.
fn holder() -> String {
    let set = |name| std::env::var(name).ok();
    let function = set(OWN_NAME).unwrap_or_else(|| "function".into());
    let environment = set("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_else(|| std::process::id().to_string());
    format!("{function}/{environment}")
}

/// Turns what Lambda says of an invocation, which no caller can write, into the router's terms.
fn mark(mut request: Request, own_name: &OwnName) -> Request {
    let extensions = request.extensions();
    let context = extensions.get::<Context>();
    if let Some(context) = context {
        own_name.set(&context.invoked_function_arn);
    }
    let deadline = context.map(|context| Timestamp::from_millis(i64::try_from(context.deadline).unwrap_or(i64::MAX)));
    let gateway = match extensions.get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV2(context)) => Some(context),
        _ => None,
    };
    let internal = gateway.is_some_and(|gateway| gateway.domain_name.as_deref() == Some(INTERNAL_DOMAIN));
    // Lambda's HTTP library puts the stage in front of what the event says.
    let stage = gateway
        .and_then(|gateway| gateway.stage.as_deref())
        .filter(|stage| *stage != "$default");
    let without_stage = stage.and_then(|stage| base_path::stripped(request.uri(), &format!("/{stage}")));
    if let Some(uri) = without_stage {
        *request.uri_mut() = uri;
    }
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
