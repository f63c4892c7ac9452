//! Clients of the AWS SDK, configured as its environment variables say.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use outlast_core::limits::Timing;

/// Those of one process.
pub(crate) struct Clients {
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub heartbeat_dynamodb: aws_sdk_dynamodb::Client,
    pub lambda: aws_sdk_lambda::Client,
}

impl Clients {
    pub(crate) async fn from_env(timing: Timing) -> Self {
        let config = load().await;
        // Loaded anew, so that heartbeats share neither connections nor a cache of credentials with work.
        let heartbeats = load()
            .await
            .into_builder()
            .timeout_config(within(timing.lease / 3))
            .build();
        Self {
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            heartbeat_dynamodb: aws_sdk_dynamodb::Client::new(&heartbeats),
            lambda: aws_sdk_lambda::Client::new(&config),
        }
    }
}

pub(crate) async fn load() -> SdkConfig {
    aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await
}

/// A beat that hangs must leave time for another before the lease is in doubt.
fn within(attempt: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().operation_attempt_timeout(attempt).build()
}
