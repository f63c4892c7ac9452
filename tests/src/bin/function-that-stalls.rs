//! Both functions with agents that get nowhere, each in its way.

use std::time::Duration;

use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, BadInput, BodyError, Ctx, Returned, StepError};
use outlast_runtime::{Host, lambda};
use serde::Deserialize;

/// Longer than any chunk.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let host = match std::env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("background") => Host::background(),
        _ => Host::foreground(),
    };
    lambda::serve(assistant::app().agent(Stuck).agent(Refused), host).await
}

/// Waits for what never comes, as for a model that answers no request in time.
struct Stuck;

#[async_trait]
impl Agent for Stuck {
    fn name(&self) -> AgentName {
        AgentName::new("stuck")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        ctx.pause(FOREVER).await;
        Err(ErrorInfo::new("impossible", "the chunk outlived a day"))
    }
}

/// Is told no for good. Then it goes on with something else across two caps and ends with what it was told; or, without
/// anything else to do, waits for what never comes. The refusal names the chunk that heard it: another would be seen.
struct Refused;

#[derive(Deserialize)]
struct Input {
    /// Longer than a chunk.
    else_ms: Option<u64>,
}

#[async_trait]
impl Agent for Refused {
    fn name(&self) -> AgentName {
        AgentName::new("refused")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let input: Input = input
            .decode()
            .map_err(|error| ErrorInfo::new("input", error.to_string()))?;
        let refused = ctx
            .step::<(), _, _>("model", &(), StepPolicy::IDEMPOTENT, |call| async move {
                let message = format!("refused in epoch {}", call.epoch);
                Err(BodyError::permanent("content_policy", message))
            })
            .await;
        let Some(else_ms) = input.else_ms else {
            ctx.pause(FOREVER).await;
            return Err(ErrorInfo::new("impossible", "the chunk outlived a day"));
        };
        for something in ["a", "b"] {
            let take_long = |_| async {
                ctx.pause(Duration::from_millis(else_ms)).await;
                Ok(())
            };
            ctx.step(something, &(), StepPolicy::IDEMPOTENT, take_long)
                .await
                .map_err(StepError::into_info)?;
        }
        Err(refused.map_or_else(StepError::into_info, |()| {
            ErrorInfo::new("impossible", "nobody refused")
        }))
    }
}
