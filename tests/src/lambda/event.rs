//! A request to a public URL, as the function sees it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use serde_json::{Map, Value, json};

/// What AWS writes into `requestContext`. A caller has no say in it.
pub const PUBLIC_DOMAIN: &str = "abcdefgh.lambda-url.us-east-1.on.aws";

/// A function URL's event, version 2.0 of the payload.
pub(super) fn url_event(parts: &Parts, body: &Bytes) -> Value {
    let path = parts.uri.path();
    let mut headers = Map::new();
    for name in parts.headers.keys() {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        headers.insert(name.to_string(), values.join(",").into());
    }
    headers.insert("host".into(), PUBLIC_DOMAIN.into());
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": parts.uri.query().unwrap_or_default(),
        "headers": headers,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "abcdefgh",
            "domainName": PUBLIC_DOMAIN,
            "domainPrefix": "abcdefgh",
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "test"
            },
            "requestId": "00000000-0000-0000-0000-000000000000",
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1_767_225_600_000_u64
        },
        "isBase64Encoded": false
    });
    if !body.is_empty() {
        match std::str::from_utf8(body) {
            Ok(text) if is_text(parts) => event["body"] = text.into(),
            _ => {
                event["body"] = STANDARD.encode(body).into();
                event["isBase64Encoded"] = true.into();
            }
        }
    }
    event
}

/// Other types of content arrive in Base64.
fn is_text(parts: &Parts) -> bool {
    let kind = parts.headers.get("content-type").and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        kind.starts_with("text/")
            || ["application/json", "application/xml"]
                .iter()
                .any(|text| kind.starts_with(text))
    })
}
