//! A DynamoDB-compatible server on this machine.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};

/// A client of its own, with connections of its own, for a server that looks at no credential. It reads neither the
/// environment nor any AWS configuration: what runs locally can't reach an account by accident.
pub fn dynamodb(url: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::from_keys("local", "local", None))
        .build();
    Client::from_conf(config)
}
