//! Counts what really goes out to DynamoDB: each transmission of the SDK, retries too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

/// Requests and their bytes, by operation.
#[derive(Clone, Debug, Default)]
pub struct Sent(Arc<Mutex<BTreeMap<String, Tally>>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    pub bytes: u64,
}

impl Sent {
    /// The same client, its requests counted here.
    pub fn through(&self, client: &aws_sdk_dynamodb::Client) -> aws_sdk_dynamodb::Client {
        let config = client.config().to_builder().interceptor(self.clone()).build();
        aws_sdk_dynamodb::Client::from_conf(config)
    }

    pub fn of(&self, operation: &str) -> Tally {
        self.tallies().get(operation).copied().unwrap_or_default()
    }

    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Intercept for Sent {
    fn name(&self) -> &'static str {
        "Sent"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let bytes = request.body().bytes().map_or(0, <[u8]>::len) as u64;
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(operation).or_default();
        tally.requests += 1;
        tally.bytes += bytes;
        Ok(())
    }
}
