//! Clients for a DynamoDB-compatible server on this machine.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use outlast_core::limits::Timing;

/// A client with connections of its own, for a server that looks at no credential. It reads neither the environment nor
/// any AWS configuration: what runs locally can't reach an account by accident.
pub fn client(url: &str) -> Client {
    Client::from_conf(config(url).build())
}

/// The same for heartbeats: one that hangs leaves time for another before the lease is in doubt.
pub fn heartbeat_client(url: &str, timing: Timing) -> Client {
    let attempt = TimeoutConfig::builder().operation_attempt_timeout(timing.lease / 3);
    Client::from_conf(config(url).timeout_config(attempt.build()).build())
}

/// Whether nobody else's machine can be meant.
pub fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<axum::http::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn config(url: &str) -> aws_sdk_dynamodb::config::Builder {
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::from_static("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
}
