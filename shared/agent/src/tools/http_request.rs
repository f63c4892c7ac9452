//! `http_request`: one HTTP request, with an `Idempotency-Key`.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode, header};
use outlast_engine::BodyError;
use reqwest::Response;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Repeat, Tool, ToolCall};
use crate::tools::parse;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a response's body is kept in the step's result.
const KEPT_BODY_BYTES: usize = 16 * 1024;

/// One HTTP request a call, to wherever this process's network reaches: there is no list of allowed hosts. Up to ten redirects are
/// followed; 30 s are waited for an answer, of which 16 KB are kept. See `docs/TOOLS.md`.
pub struct HttpRequest;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// GET, HEAD, OPTIONS, TRACE, PUT and DELETE are repeated after a failure or an interruption, as RFC 9110 (9.2.2)
    /// allows; anything else is sent at most once, unless the step says `"idempotent": true`.
    #[schemars(regex(pattern = r"^[A-Za-z]+$"))]
    method: String,
    #[schemars(regex(pattern = r"^https?://"))]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Text is sent as it is; any other JSON as `application/json`.
    #[serde(default)]
    body: Option<Value>,
}

#[async_trait]
impl Tool for HttpRequest {
    fn name(&self) -> &'static str {
        "http_request"
    }

    fn description(&self) -> &'static str {
        "Sends one HTTP request; a response of class 2xx is success."
    }

    fn input_schema(&self) -> Value {
        schema_for!(Input).into()
    }

    fn repeat(&self, input: &Value) -> Repeat {
        let method = input["method"].as_str().unwrap_or_default().to_ascii_uppercase();
        match method.as_str() {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE" => Repeat::Idempotent,
            _ => Repeat::AtMostOnce { timeout: TIMEOUT },
        }
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let input: Input = parse(call.input)?;
        let request = build(&call, &input)?;
        let response = request.send().await.map_err(send_error)?;
        judge(response).await
    }
}

fn build(call: &ToolCall<'_>, input: &Input) -> Result<reqwest::RequestBuilder, BodyError> {
    let method = Method::from_bytes(input.method.to_ascii_uppercase().as_bytes())
        .map_err(|_| BodyError::permanent("bad_input", format!("`{}` is no HTTP method", input.method)))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &input.headers {
        let bad = || BodyError::permanent("bad_input", format!("the header `{name}` can't be sent as it is"));
        let name = header::HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        headers.insert(name, header::HeaderValue::try_from(value.as_str()).map_err(|_| bad())?);
    }
    let key = header::HeaderName::from_static("idempotency-key");
    if !headers.contains_key(&key)
        && let Ok(value) = header::HeaderValue::try_from(call.step.idempotency_key.as_str())
    {
        headers.insert(key, value);
    }
    let request = call
        .resources
        .http
        .request(method, &input.url)
        .timeout(TIMEOUT)
        .headers(headers);
    Ok(match &input.body {
        None => request,
        Some(Value::String(text)) => request.body(text.clone()),
        Some(json) => request.json(json),
    })
}

/// What was never sent can't have acted; of what was sent without an answer nobody knows.
fn send_error(error: reqwest::Error) -> BodyError {
    let what = describe(&error);
    if error.is_builder() {
        BodyError::permanent("bad_input", what)
    } else if error.is_connect() {
        BodyError::retryable("connection", what)
    } else if error.is_timeout() {
        BodyError::unknown("timeout", what)
    } else {
        BodyError::unknown("connection", what)
    }
}

/// The error and what caused it; a URL's credentials stay out of it.
fn describe(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        text = if text.is_empty() {
            error.to_string()
        } else {
            format!("{text}: {error}")
        };
        cause = error.source();
    }
    let host = error
        .url()
        .and_then(|url| url.host_str())
        .unwrap_or("the server")
        .to_owned();
    if text.is_empty() {
        format!("the request to {host} failed")
    } else {
        format!("the request to {host} failed: {text}")
    }
}

async fn judge(response: Response) -> Result<Value, BodyError> {
    let status = response.status();
    let headers = response.headers().clone();
    let body = kept_body(response).await;
    if status.is_success() {
        // The status is the answer; a body that breaks off behind it takes nothing back.
        return Ok(json!({ "status": status.as_u16(), "body": body.ok() }));
    }
    let said = body.unwrap_or_default();
    let message = format!("{status}: {}", said.chars().take(200).collect::<String>());
    let mut error = match status.as_u16() {
        // A gateway's word: what became of the request behind it, it doesn't know.
        502 | 504 => BodyError::unknown("http_status", message),
        _ if is_passing(status) => BodyError::retryable("http_status", message),
        _ => BodyError::permanent("http_status", message),
    };
    error.retry_after = retry_after(&headers);
    Err(error)
}

/// Statuses that another attempt may not meet again.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 503)
}

async fn kept_body(mut response: Response) -> Result<String, BodyError> {
    let mut kept = Vec::new();
    while kept.len() < KEPT_BODY_BYTES {
        match response.chunk().await.map_err(send_error)? {
            Some(chunk) => kept.extend_from_slice(&chunk),
            None => break,
        }
    }
    kept.truncate(KEPT_BODY_BYTES);
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

/// RFC 9110, 10.2.3: seconds, or a date, which is taken relative to the response's own `Date`.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &header::HeaderValue| value.to_str().ok())
    };
    let value = text(header::RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    let wait = date(value)?.duration_since(date(text(header::DATE)?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotent_by_its_method() {
        for (method, expected) in [
            ("GET", true),
            ("put", true),
            ("DELETE", true),
            ("POST", false),
            ("PATCH", false),
        ] {
            let repeat = HttpRequest.repeat(&json!({ "method": method, "url": "http://x" }));
            assert_eq!(repeat == Repeat::Idempotent, expected, "{method}");
        }
    }

    #[test]
    fn retry_after_as_seconds_and_as_a_date() {
        let headers = |pairs: &[(header::HeaderName, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| (name.clone(), value.parse().unwrap()))
                .collect::<HeaderMap>()
        };
        assert_eq!(
            retry_after(&headers(&[(header::RETRY_AFTER, "30")])),
            Some(Duration::from_secs(30))
        );
        let dated = headers(&[
            (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (header::RETRY_AFTER, "Sun, 06 Nov 1994 08:50:07 GMT"),
        ]);
        assert_eq!(retry_after(&dated), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(&headers(&[(header::RETRY_AFTER, "soon")])), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
