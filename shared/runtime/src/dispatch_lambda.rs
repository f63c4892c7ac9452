//! Dispatch by `Invoke`: asynchronous, and awaited until Lambda has accepted the event.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::error::DisplayErrorContext;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use outlast_core::paths::PROCESS_RUN;
use outlast_engine::dispatch::{DispatchError, Dispatcher, SignedDispatch, TOKEN_HEADER};

use crate::internal_event::internal_event;

/// A chunk that hands off has seconds before its wall: better a failure that the sweep repairs than no answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(4);
const ACCEPTED: i32 = 202;

/// Each attempt has 2 s, all of them 4 s. Lambda takes 1 MB of payload for an asynchronous invocation; a dispatch has some hundred
/// bytes.
pub struct LambdaDispatcher {
    client: Client,
    target: Target,
    path: String,
}

/// Which function is invoked.
#[derive(Clone, Debug)]
pub enum Target {
    /// The one of this name.
    Named(String),
    /// The one that is running.
    Itself(OwnName),
}

/// What this function was last invoked as. An alias stays in its chain of invocations that way, and a deployment need not
/// be told its own name.
#[derive(Clone, Debug, Default)]
pub struct OwnName(Arc<Mutex<Option<String>>>);

impl OwnName {
    /// By the platform: an environment has one invocation at a time.
    pub(crate) fn set(&self, arn: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(arn.to_owned());
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Target {
    fn name(&self) -> Result<String, DispatchError> {
        match self {
            Target::Named(name) => Ok(name.clone()),
            Target::Itself(own) => own
                .get()
                .ok_or_else(|| DispatchError("this function doesn't know its own name: it was not invoked yet".into())),
        }
    }
}

impl LambdaDispatcher {
    /// To this function, whose routes begin with `base_path`.
    pub fn new(client: &Client, target: Target, base_path: &str) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(TIMEOUT);
        let config = client.config().to_builder().timeout_config(timeouts.build());
        Self {
            client: Client::from_conf(config.build()),
            target,
            path: format!("{base_path}{PROCESS_RUN}"),
        }
    }
}

#[async_trait]
impl Dispatcher for LambdaDispatcher {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        let event = internal_event(&self.path, Some((TOKEN_HEADER, &dispatch.token)), &dispatch.body);
        let function = self.target.name()?;
        let invoke = self
            .client
            .invoke()
            .function_name(&function)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(event.to_string()));
        let refused = |why: String| DispatchError(format!("Invoke of {function}: {why}"));
        let answer = invoke
            .send()
            .await
            .map_err(|error| refused(DisplayErrorContext(&error).to_string()))?;
        match answer.status_code() {
            ACCEPTED => Ok(()),
            status => Err(refused(format!("status {status} instead of {ACCEPTED}"))),
        }
    }
}

#[cfg(test)]
mod tests;
