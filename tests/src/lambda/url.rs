//! A function's public URL: requests become events, streamed answers come back live.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use tokio::net::TcpListener;

use super::Function;
use super::event::url_event;

const MAX_BYTES: usize = 6 * 1024 * 1024;

pub(super) fn serve(listener: TcpListener, function: Arc<Function>) {
    let routes = Router::new().fallback(request).with_state(function);
    tokio::spawn(async move { axum::serve(listener, routes).await });
}

async fn request(State(function): State<Arc<Function>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BYTES).await else {
        return plain(413, "a request has at most 6 MB");
    };
    // Whoever asked may leave, and the function still goes on.
    let event = url_event(&parts, &body).to_string().into();
    let invoked = tokio::spawn(async move { function.invoke(event).await });
    match invoked.await.expect("an invocation doesn't panic") {
        Ok(answer) => {
            let mut response = Response::new(answer.body);
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            response
        }
        Err(failure) => plain(502, &format!("{failure:?}")),
    }
}

fn plain(status: u16, text: &str) -> Response {
    let body = Body::from(text.to_owned());
    Response::builder().status(status).body(body).expect("a response")
}
