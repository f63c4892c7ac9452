//! Agents made of a closure.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, BadInput, Ctx, Returned, StepError};

type Run = Arc<dyn Fn(Ctx) -> BoxFuture<'static, Result<(), StepError>> + Send + Sync>;

/// An agent whose code is a closure, and whose input is not looked at.
#[derive(Clone)]
pub struct Script {
    name: &'static str,
    run: Run,
}

impl Script {
    pub fn new<F, Fut>(name: &'static str, run: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), StepError>> + Send + 'static,
    {
        let run = Arc::new(move |ctx| -> BoxFuture<'static, _> { Box::pin(run(ctx)) });
        Self { name, run }
    }
}

#[async_trait]
impl Agent for Script {
    fn name(&self) -> AgentName {
        AgentName::new(self.name)
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        (self.run)(ctx).await.map_err(StepError::into_info)?;
        Ok(Returned {
            value: Payload::null(),
            verification: None,
        })
    }
}

/// A step that does nothing and returns its number.
pub async fn no_op(ctx: &Ctx, number: usize) -> Result<(), StepError> {
    let key = format!("step-{number:05}");
    ctx.step::<usize, _, _>(&key, &number, StepPolicy::IDEMPOTENT, |_| async move { Ok(number) })
        .await?;
    Ok(())
}
