//! How a request is passed on, and how each fault is played.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

use super::{Asked, Fault, TableProxy};
use crate::wait::after;

/// Closes a connection without an answer.
#[derive(Debug)]
pub(super) struct ClosedByFault;

impl std::fmt::Display for ClosedByFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed by a fault")
    }
}

impl std::error::Error for ClosedByFault {}

/// A request, whole, to be sent now or later.
pub(super) struct Kept {
    pub asked: Asked,
    pub head: Parts,
    pub body: Bytes,
}

impl Kept {
    pub fn into_request(self) -> (HeaderMap, Bytes) {
        let mut headers = self.head.headers;
        for name in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        (headers, self.body)
    }
}

pub(super) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    fn into_response(mut self) -> Response<Full<Bytes>> {
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            self.headers.remove(name);
        }
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

pub(super) struct Upstream {
    url: String,
    client: reqwest::Client,
}

impl Upstream {
    pub fn new(url: String) -> Self {
        Self {
            url,
            client: reqwest::Client::new(),
        }
    }

    /// `None`: the server is gone, as at a test's end.
    pub async fn send(&self, (headers, body): (HeaderMap, Bytes)) -> Option<Reply> {
        let response = self
            .client
            .post(&self.url)
            .headers(headers)
            .body(body)
            .send()
            .await
            .ok()?;
        Some(Reply {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.bytes().await.ok()?,
        })
    }
}

impl TableProxy {
    pub(super) async fn pass(&self, request: Kept) -> Result<Response<Full<Bytes>>, ClosedByFault> {
        let reply = self.upstream.send(request.into_request()).await;
        reply.map(Reply::into_response).ok_or(ClosedByFault)
    }

    pub(super) async fn play(&self, fault: Fault, request: Kept) -> Result<Response<Full<Bytes>>, ClosedByFault> {
        match fault {
            Fault::Throttled => Ok(said(400, "ThrottlingException")),
            Fault::Exceeded => Ok(said(400, "ProvisionedThroughputExceededException")),
            Fault::Conflict => Ok(conflict(&request.asked)),
            Fault::ServerError => Ok(said(500, "InternalServerError")),
            Fault::Unavailable => Ok(from_in_between(503)),
            Fault::LostRequest => Err(ClosedByFault),
            Fault::LostReply => {
                self.pass(request).await?;
                Err(ClosedByFault)
            }
            Fault::NoReply => {
                self.pass(request).await?;
                std::future::pending().await
            }
            Fault::HeldReply => {
                let mut released = self.released.subscribe();
                let reply = self.pass(request).await;
                self.lock().held += 1;
                let _ = released.changed().await;
                self.lock().held -= 1;
                reply
            }
            Fault::Slow(time) => {
                after(time).await;
                self.pass(request).await
            }
            Fault::Late => {
                self.lock().kept.push(request);
                Err(ClosedByFault)
            }
        }
    }
}

fn said(status: u16, kind: &str) -> Response<Full<Bytes>> {
    refused(status, kind, json!({ "message": "as the test wants it" }))
}

/// A transaction that meets another is cancelled, with a reason for each of its items.
fn conflict(asked: &Asked) -> Response<Full<Bytes>> {
    if asked.operation != "TransactWriteItems" {
        return said(400, "TransactionConflictException");
    }
    let reasons = json!([{ "Code": "None" }, { "Code": "TransactionConflict", "Message": "as the test wants it" }]);
    let fields = json!({ "message": "as the test wants it", "CancellationReasons": reasons });
    refused(400, "TransactionCanceledException", fields)
}

fn refused(status: u16, kind: &str, mut fields: serde_json::Value) -> Response<Full<Bytes>> {
    fields["__type"] = format!("com.amazonaws.dynamodb.v20120810#{kind}").into();
    let response = Response::builder().status(status);
    let response = response.header("content-type", "application/x-amz-json-1.0");
    response.body(Full::new(fields.to_string().into())).expect("a response")
}

fn from_in_between(status: u16) -> Response<Full<Bytes>> {
    let page = "<html>Service Unavailable</html>";
    let response = Response::builder().status(status).header("content-type", "text/html");
    response.body(Full::new(page.into())).expect("a response")
}
