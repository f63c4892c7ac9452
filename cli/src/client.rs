//! The server's API, as far as the commands use it.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::credential;
use crate::dev::options::DEFAULT_LISTEN;
use crate::exit::{Exit, Problem};

const EVENT_STREAM: &str = "text/event-stream";
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A stream sends a comment every 15 s: one that is silent for longer is dead.
const STREAM_SILENT_FOR: Duration = Duration::from_secs(45);

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    /// `Authorization`, marked as not to be shown.
    credential: Option<HeaderValue>,
}

/// Why the server did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// It can't be reached, or the connection broke.
    Away(String),
    /// An error of its own, 5xx, or too much to do: the same request may go well later.
    Failing { status: u16, message: String },
    /// It understood, and said no.
    Refused(Refusal),
}

#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    pub details: Value,
}

/// Of `Client::start`.
#[derive(Debug)]
pub struct Start<'a> {
    pub agent: &'a str,
    /// JSON.
    pub input: String,
    pub thread: Option<&'a str>,
    pub idempotency_key: &'a str,
}

/// A run that is durable.
#[derive(Debug)]
pub struct Started {
    pub run: String,
    /// Its client has to ask for each of its chunks, unless it can wait for the sweep.
    pub is_inline: bool,
    /// `None` if it has ended long ago.
    pub events: Option<Response>,
}

impl Client {
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let url = http_url(url)?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(STREAM_SILENT_FOR)
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("no HTTP client")?;
        Ok(Self {
            http,
            url,
            credential: None,
        })
    }

    /// Sends this key with each request. One that was mistyped is found here, without the server.
    pub fn with_key(self, key: Option<&SecretString>) -> anyhow::Result<Self> {
        Ok(Self {
            credential: credential::header(key)?,
            ..self
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A command for the reader to type, that asks the same server.
    pub fn command(&self, command: &str) -> String {
        match self.url.strip_prefix("http://") {
            Some(DEFAULT_LISTEN) => format!("outlast {command}"),
            _ => format!("outlast {command} --url {}", self.url),
        }
    }

    /// Starts a run and opens its stream, which carries an inline one. May be sent again under the same key.
    pub async fn start(&self, start: &Start<'_>) -> Result<Started, Failure> {
        let mut fields = vec![
            format!("\"agent\":{}", json!(start.agent)),
            format!("\"input\":{}", start.input),
        ];
        fields.extend(start.thread.map(|thread| format!("\"threadId\":{}", json!(thread))));
        let request = self
            .request(Method::POST, "/runs")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, EVENT_STREAM)
            .header("idempotency-key", key_header(start.idempotency_key)?)
            .body(format!("{{{}}}", fields.join(",")));
        started(send(request).await?)
    }

    /// Carries an inline run's next chunk: its stream, as that of [`Client::events`].
    pub async fn continue_run(&self, run: &str, after: u64) -> Result<Option<Response>, Failure> {
        let request = self
            .request(Method::POST, &format!("/runs/{}/continue", part(run)))
            .header(ACCEPT, EVENT_STREAM)
            .header("last-event-id", after);
        stream_of(send(request).await?)
    }

    /// What the server says of a run, as it came.
    pub async fn show(&self, run: &str) -> Result<String, Failure> {
        let request = self.request(Method::GET, &format!("/runs/{}", part(run)));
        text_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    pub async fn list(&self, limit: usize, after: Option<&str>) -> Result<Value, Failure> {
        let after = after.map(|after| format!("&after={}", part(after))).unwrap_or_default();
        let request = self.request(Method::GET, &format!("/runs?limit={limit}{after}"));
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    pub async fn stop(&self, run: &str, force: bool) -> Result<Value, Failure> {
        let request = self
            .request(Method::POST, &format!("/runs/{}/stop", part(run)))
            .json(&json!({ "force": force }));
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    pub async fn stop_turn(&self, turn: &str, force: bool) -> Result<Value, Failure> {
        let request = self
            .request(Method::POST, &format!("/turns/{}/stop", part(turn)))
            .json(&json!({ "force": force }));
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    /// `pause` or `resume`.
    pub async fn control(&self, run: &str, verb: &str) -> Result<Value, Failure> {
        let request = self.request(Method::POST, &format!("/runs/{}/{verb}", part(run)));
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    /// One page of what remains.
    pub async fn remainder(&self, run: &str, after: Option<&str>) -> Result<Value, Failure> {
        let after = after.map(|after| format!("?after={}", part(after))).unwrap_or_default();
        let request = self.request(Method::GET, &format!("/runs/{}/remainder{after}", part(run)));
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    /// Starts a run that does the rest of this one, as [`Client::start`].
    pub async fn retry(&self, run: &str, include_unknown: bool, key: &str) -> Result<Started, Failure> {
        let request = self
            .request(Method::POST, &format!("/runs/{}/retry", part(run)))
            .header(ACCEPT, EVENT_STREAM)
            .header("idempotency-key", key_header(key)?)
            .json(&json!({ "includeUnknown": include_unknown }));
        started(send(request).await?)
    }

    /// `given` is `{"value": …}` or `{"error": …}`, as text: a value goes out as it was written.
    pub async fn answer(&self, run: &str, key: &str, given: String) -> Result<Value, Failure> {
        let request = self
            .request(Method::POST, &format!("/runs/{}/answers/{}", part(run), part(key)))
            .header(CONTENT_TYPE, "application/json")
            .body(given);
        json_of(send(request.timeout(ANSWER_WITHIN)).await?).await
    }

    /// The stream of a run's events behind `after`; `None` if the run has ended and there are no more.
    pub async fn events(&self, run: &str, after: u64) -> Result<Option<Response>, Failure> {
        let request = self
            .request(Method::GET, &format!("/runs/{}/events", part(run)))
            .header(ACCEPT, EVENT_STREAM)
            .header("last-event-id", after);
        stream_of(send(request).await?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.url));
        match &self.credential {
            Some(credential) => request.header(AUTHORIZATION, credential.clone()),
            None => request,
        }
    }
}

/// Without a slash at its end. Anything else is a wrong command line.
pub fn http_url(url: &str) -> Result<String, Problem> {
    let parsed = reqwest::Url::parse(url).ok().filter(|url| url.has_host());
    if parsed.is_none_or(|url| !matches!(url.scheme(), "http" | "https")) {
        let text = format!("{url:?} is no http(s) URL. Example: --url http://{DEFAULT_LISTEN}");
        return Err(Problem::new(Exit::Usage, text));
    }
    Ok(url.trim_end_matches('/').into())
}

async fn send(request: RequestBuilder) -> Result<Response, Failure> {
    let response = request.send().await.map_err(away)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body: Value = serde_json::from_slice(&response.bytes().await.map_err(away)?).unwrap_or_default();
    let message = body["detail"].as_str().or(body["title"].as_str());
    let message = message.map_or_else(|| format!("HTTP {status}"), str::to_owned);
    // Platforms answer so when they are too busy, or were too slow: no word of the server's own.
    let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if is_busy || !status.is_client_error() {
        let status = status.as_u16();
        return Err(Failure::Failing { status, message });
    }
    Err(Failure::Refused(Refusal {
        status: status.as_u16(),
        code: body["code"].as_str().unwrap_or_default().into(),
        message,
        details: body["error"]["details"].clone(),
    }))
}

fn started(response: Response) -> Result<Started, Failure> {
    let events = stream_of(response)?;
    let header = |name| events.as_ref()?.headers().get(name)?.to_str().ok();
    let (Some(run), executor) = (header("outlast-run-id").map(str::to_owned), header("outlast-executor")) else {
        return Err(not_ours(200, "names no run"));
    };
    Ok(Started {
        is_inline: executor == Some("inline"),
        run,
        events,
    })
}

fn stream_of(response: Response) -> Result<Option<Response>, Failure> {
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(None);
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    match kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM)) {
        true => Ok(Some(response)),
        false => Err(not_ours(response.status().as_u16(), "is no stream of events")),
    }
}

fn not_ours(status: u16, what: &str) -> Failure {
    let message = format!("the answer {what}: is this an Outlast server?");
    Failure::Failing { status, message }
}

async fn text_of(response: Response) -> Result<String, Failure> {
    response.text().await.map_err(away)
}

async fn json_of(response: Response) -> Result<Value, Failure> {
    let status = response.status().as_u16();
    let text = text_of(response).await?;
    serde_json::from_str(&text).map_err(|error| not_ours(status, &format!("is no JSON ({error})")))
}

/// The innermost cause says most: "Connection refused".
fn away(error: reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::Away(cause.to_string())
}

fn key_header(key: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(key).map_err(|_| {
        Failure::Refused(Refusal {
            status: 400,
            code: "bad_key".into(),
            message: "an idempotency key is printable ASCII".into(),
            details: Value::Null,
        })
    })
}

/// A run's id as part of a path, or a value in a query: it must not lead elsewhere.
fn part(run: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    run.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

impl Failure {
    /// As the end of a command: what happened, and what to do.
    pub fn into_problem(self, client: &Client) -> Problem {
        match self {
            Failure::Away(cause) => Problem::new(
                Exit::ServerAway,
                format!(
                    "{} can't be reached ({cause}).\nStart a server with `outlast dev`, or name another with --url.",
                    client.url
                ),
            ),
            Failure::Failing { status, message } => Problem::new(
                Exit::ServerAway,
                format!(
                    "{} failed ({status}): {message}\nTry again; the server's log says more.",
                    client.url
                ),
            ),
            Failure::Refused(refusal) => Problem::new(Exit::Refused, refusal.text(client)),
        }
    }
}

impl Refusal {
    fn text(&self, client: &Client) -> String {
        let mut text = format!("refused ({}): {}", self.status, self.message);
        if let Some(active) = self.details["activeRunId"].as_str() {
            let (tail, stop) = (format!("tail {active}"), format!("stop {active}"));
            text.push_str(&format!(
                "\nFollow it with `{}`, or end it with `{}`.",
                client.command(&tail),
                client.command(&stop)
            ));
        } else if self.code == "run_not_found" {
            text.push_str(&format!("\n`{}` lists your runs.", client.command("ls")));
        } else if self.code == "question_not_found" {
            let show = client.command("show RUN");
            text.push_str(&format!("\n`{show}` lists what a run that waits has asked."));
        }
        if let Some(advice) = credential::advice(self.status, client.credential.is_some()) {
            text.push_str(&format!("\n{advice}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_checked_before_anything_is_sent() {
        for wrong in ["", "localhost:8787", "ftp://x", "http://"] {
            assert!(Client::new(wrong).is_err(), "{wrong:?}");
        }
        let client = Client::new("http://127.0.0.1:8787/").unwrap();
        assert_eq!(client.command("tail 7"), "outlast tail 7");
        let other = Client::new("https://x.example/base/").unwrap();
        assert_eq!(other.command("ls"), "outlast ls --url https://x.example/base");
    }

    #[test]
    fn an_id_stays_one_part_of_the_path() {
        assert_eq!(part("0190-ab_c"), "0190-ab_c");
        assert_eq!(part("../x?y"), "%2E%2E%2Fx%3Fy");
    }
}
