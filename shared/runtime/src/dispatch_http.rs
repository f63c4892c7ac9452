//! Dispatch by a POST to a function's URL: for any host that can call itself, and for `cargo lambda watch`.

use std::time::Duration;

use async_trait::async_trait;
use axum::http::{StatusCode, Uri};
use outlast_core::paths::PROCESS_RUN;
use outlast_engine::dispatch::{DispatchError, Dispatcher, SignedDispatch, TOKEN_HEADER};
use tokio::sync::oneshot;

/// How long an answer is waited for. A host that can take one request at a time, as an emulator's, answers a function's
/// request to itself only once that function has ended: no answer yet is no refusal.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Longer than any invocation: until then the connection is kept, because hosts drop what they were doing for a client that
/// has gone.
const KEPT_FOR: Duration = Duration::from_secs(20 * 60);

/// 202 means accepted, and anything else that comes within 2 s means refused. Without an answer by then the dispatch counts
/// as sent: only a claim is a start, and the sweep repeats one that leads to none.
pub struct HttpDispatcher {
    client: reqwest::Client,
    url: String,
}

impl HttpDispatcher {
    /// To the function at `url`, whose routes begin with `base_path`.
    pub fn new(url: &Uri, base_path: &str) -> reqwest::Result<Self> {
        let url = url.to_string();
        // Where a redirect leads, the token must not go.
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Ok(Self {
            client: client.build()?,
            url: format!("{}{base_path}{PROCESS_RUN}", url.trim_end_matches('/')),
        })
    }
}

#[async_trait]
impl Dispatcher for HttpDispatcher {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        let request = self
            .client
            .post(&self.url)
            .timeout(KEPT_FOR)
            .header("content-type", "application/json")
            .header(TOKEN_HEADER, &dispatch.token)
            .body(dispatch.body.clone());
        let (tell, answered) = oneshot::channel();
        tokio::spawn(async move {
            match request.send().await {
                Ok(response) => {
                    let _ = tell.send(Ok(response.status()));
                    // It comes when the chunk has ended.
                    let _ = response.bytes().await;
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        });
        let refused = |why: String| Err(DispatchError(format!("POST to {}: {why}", self.url)));
        match tokio::time::timeout(ANSWER_WITHIN, answered).await {
            Ok(Ok(Ok(StatusCode::ACCEPTED))) => Ok(()),
            Ok(Ok(Ok(status))) => refused(format!("status {status} instead of 202")),
            Ok(Ok(Err(error))) => refused(format!("{:#}", anyhow::Error::from(error.without_url()))),
            Ok(Err(_)) => refused("the request was given up".into()),
            Err(_) => {
                tracing::info!(url = self.url, "no answer to a dispatch yet: it counts as sent");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
