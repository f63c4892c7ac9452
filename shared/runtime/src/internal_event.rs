//! Events that a deployment sends to itself, shaped as a function URL's so that the one handler serves them.

use serde_json::{Value, json};

/// What `requestContext.domainName` says in an event of ours. AWS fills it in for whoever comes through a URL or a
/// gateway; only who may invoke the function itself can write it.
pub const INTERNAL_DOMAIN: &str = "outlast.internal";

/// A POST of JSON to `path`.
pub fn internal_event(path: &str, header: Option<(&str, &str)>, body: &str) -> Value {
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"host": INTERNAL_DOMAIN, "content-type": "application/json"},
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "outlast",
            "domainName": INTERNAL_DOMAIN,
            "domainPrefix": "outlast",
            "http": {
                "method": "POST",
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "outlast"
            },
            "requestId": "internal",
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0
        },
        "body": body,
        "isBase64Encoded": false
    });
    if let Some((name, value)) = header {
        event["headers"][name] = value.into();
    }
    event
}
