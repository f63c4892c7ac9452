//! The Runtime API, as one execution environment sees it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};

use super::answer::{self, Answer, Failure};
use super::environment::{Environment, Invocation};
use super::function::Deadline;
use crate::wait::after;

type Invocations = mpsc::UnboundedReceiver<Invocation>;

#[derive(Clone)]
struct Api {
    environment: Arc<Environment>,
    invocations: Arc<Mutex<Invocations>>,
}

pub(super) fn serve(listener: TcpListener, environment: Arc<Environment>, invocations: Invocations) {
    let api = Api {
        environment,
        invocations: Arc::new(Mutex::new(invocations)),
    };
    let routes = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .with_state(api);
    tokio::spawn(async move { axum::serve(listener, routes).await });
}

async fn next(State(api): State<Api>) -> Response {
    let environment = &api.environment;
    environment.asks_for_more();
    let Some(invocation) = api.invocations.lock().await.recv().await else {
        // Nobody will ever invoke it again.
        return std::future::pending().await;
    };
    let request_id = invocation.request_id;
    environment.handed_over();
    let settings = &environment.settings;
    let wall = {
        let (environment, request_id) = (environment.clone(), request_id.clone());
        async move {
            after(environment.settings.timeout).await;
            environment.time_out(&request_id);
        }
    };
    tokio::spawn(wall);
    let deadline = match settings.deadline {
        Deadline::True => epoch_ms() + u64::try_from(settings.timeout.as_millis()).expect("a short time"),
        Deadline::Nonsense(deadline) => deadline,
    };
    Response::builder()
        .header("lambda-runtime-aws-request-id", request_id)
        .header("lambda-runtime-deadline-ms", deadline)
        .header("lambda-runtime-invoked-function-arn", settings.arn())
        .header("lambda-runtime-trace-id", invocation.trace.to_string())
        .header("content-type", "application/json")
        .body(Body::from(invocation.payload))
        .expect("an invocation")
}

async fn response(State(api): State<Api>, Path(id): Path<String>, headers: HeaderMap, body: Body) -> StatusCode {
    let Some(invoker) = api.environment.answering(&id) else {
        return StatusCode::BAD_REQUEST;
    };
    let mode = headers.get("lambda-runtime-function-response-mode");
    if mode.is_some_and(|mode| mode == "streaming") {
        match answer::begin(body).await {
            Ok((answer, arriving)) => {
                let _ = invoker.send(Ok(answer));
                arriving.finish().await;
            }
            Err(error) => {
                let _ = invoker.send(Err(Failure::Error(error)));
            }
        }
    } else {
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let answer = serde_json::from_slice(&body).ok().as_ref().and_then(Answer::from_json);
        let _ = invoker.send(answer.ok_or_else(|| Failure::Error("no HTTP answer".into())));
    }
    StatusCode::ACCEPTED
}

async fn error(State(api): State<Api>, Path(id): Path<String>, body: String) -> StatusCode {
    if let Some(invoker) = api.environment.answering(&id) {
        let _ = invoker.send(Err(Failure::Error(body)));
    }
    StatusCode::ACCEPTED
}

/// The process ends after it, and that is what its invoker hears of.
async fn init_error(body: String) -> StatusCode {
    eprintln!("init error: {body}");
    StatusCode::ACCEPTED
}

fn epoch_ms() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    u64::try_from(since_1970.as_millis()).expect("a clock before the year 500 million")
}
