//! Both functions with an agent whose step, and whose value or error, are as large as they are asked to be.

use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, BadInput, Ctx, Returned, StepError};
use outlast_runtime::{Host, lambda};
use serde::Deserialize;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let host = match std::env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("background") => Host::background(),
        _ => Host::foreground(),
    };
    lambda::serve(assistant::app().agent(Much), host).await
}

struct Much;

#[derive(Deserialize)]
struct Input {
    text: String,
    /// How often the step's result repeats it.
    step: usize,
    /// And the run's value.
    #[serde(default)]
    value: usize,
    /// And the error that it ends with instead.
    #[serde(default)]
    error: usize,
}

#[async_trait]
impl Agent for Much {
    fn name(&self) -> AgentName {
        AgentName::new("much")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let input: Input = input
            .decode()
            .map_err(|error| ErrorInfo::new("input", error.to_string()))?;
        let said = || async { Ok(input.text.repeat(input.step)) };
        let step = ctx.step("say", &(), StepPolicy::IDEMPOTENT, |_| said());
        step.await.map_err(StepError::into_info)?;
        if input.error > 0 {
            let message = input.text.repeat(input.error);
            return Err(ErrorInfo {
                message,
                ..ErrorInfo::new("much", "")
            });
        }
        let value = Payload::of(&input.text.repeat(input.value));
        Ok(Returned {
            value: value.map_err(|error| ErrorInfo::new("value", error.to_string()))?,
            verification: None,
        })
    }
}
