//! The `plan` agent: a list of tool calls, no model, no key. Each call is a step; one that fails for good is committed as
//! failed and the others go on; at the end the tools that can look again do.

mod input;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use outlast_core::key::key_part;
use outlast_core::outcome::{ErrorInfo, Verification};
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload, StepKey};
use outlast_engine::{Agent, BadInput, BodyError, Ctx, Returned, StepCall, StepError};
use serde_json::value::{RawValue, to_raw_value};

use crate::app::Resources;
use crate::tool::{Repeat, Tool, ToolCall, Tools};

pub use input::{Checker, MAX_CONCURRENCY, MAX_RATE, Plan, PlannedCall};

/// How many effects are looked at again at once.
const VERIFY_AT_ONCE: usize = 16;
const VERIFY_TRIES: usize = 3;

/// Carries runs whose input is a [`Plan`].
pub struct PlanAgent {
    tools: Tools,
    resources: Resources,
    checker: Checker,
}

impl PlanAgent {
    pub fn new(tools: Tools, resources: Resources) -> Self {
        let checker = Checker::new(&tools);
        Self {
            tools,
            resources,
            checker,
        }
    }
}

#[async_trait]
impl Agent for PlanAgent {
    fn name(&self) -> AgentName {
        AgentName::new("plan")
    }

    fn check_input(&self, input: &Payload) -> Result<(), BadInput> {
        self.checker.check(input).map(|_| ())
    }

    fn input_of_remainder(&self, input: &Payload, keys: &BTreeSet<StepKey>) -> Option<Payload> {
        let mut plan: Plan = input.decode().ok()?;
        plan.steps
            .retain(|call| key_part(&call.key).is_ok_and(|key| keys.contains(&StepKey::new(key))));
        Payload::of(&plan).ok()
    }

    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let plan: Plan = input
            .decode()
            .map_err(|error| ErrorInfo::new("invalid_plan", error.to_string()))?;
        ctx.plan(plan.steps.iter().map(|call| &call.key))
            .await
            .map_err(StepError::into_info)?;
        let paced = match plan.rate {
            Some(rate) => ctx.paced(rate),
            None => ctx.clone(),
        };
        let concurrency = plan.concurrency.unwrap_or(1);
        let calls = plan.steps.clone();
        let calls = paced.at_once(
            calls,
            concurrency,
            |ctx, call| async move { self.call(&ctx, &call).await },
        );
        let mut committed = Vec::new();
        for (call, result) in plan.steps.into_iter().zip(calls.await) {
            if result? {
                committed.push(call);
            }
        }
        let verification = self.verify(&ctx, committed).await;
        Ok(Returned {
            value: Payload::null(),
            verification,
        })
    }
}

impl PlanAgent {
    /// Whether the call was committed. A failure and an unknown outcome are in the log; the plan goes on.
    async fn call(&self, ctx: &Ctx, call: &PlannedCall) -> Result<bool, ErrorInfo> {
        let tool = self.tool(&call.tool)?;
        let policy = match tool.repeat(&call.input) {
            Repeat::AtMostOnce { timeout } if !call.idempotent => StepPolicy::at_most_once(timeout),
            Repeat::Idempotent | Repeat::AtMostOnce { .. } => StepPolicy::IDEMPOTENT,
        };
        let body = |step: StepCall| async move {
            let result = tool
                .call(ToolCall {
                    input: &call.input,
                    resources: &self.resources,
                    step: &step,
                })
                .await?;
            to_raw_value(&result).map_err(|error| BodyError::permanent("bad_result", error.to_string()))
        };
        let identity = (&call.tool, &call.input);
        match ctx
            .step::<Box<RawValue>, _, _>(&call.key, &identity, policy, body)
            .await
        {
            Ok(_) => Ok(true),
            Err(StepError::Failed { .. } | StepError::Unknown { .. }) => Ok(false),
            Err(
                error @ (StepError::DuplicateKey { .. }
                | StepError::BadKey { .. }
                | StepError::TooLong { .. }
                | StepError::BadInput { .. }
                | StepError::WaitTooLong { .. }
                | StepError::BadQuestion { .. }
                | StepError::Expired { .. }
                | StepError::BadAnswer { .. }
                | StepError::BadLimits { .. }),
            ) => Err(error.into_info()),
        }
    }

    /// Looks again at what was committed, with the tools that can. What can't be seen is not there.
    async fn verify(&self, ctx: &Ctx, committed: Vec<Arc<PlannedCall>>) -> Option<Verification> {
        let unsettled = ctx.unsettled();
        let looks: Vec<(Arc<PlannedCall>, Option<bool>)> = futures::stream::iter(committed)
            .map(|call| async move {
                let seen = self.look(&call).await;
                (call, seen)
            })
            .buffered(VERIFY_AT_ONCE)
            .collect()
            .await;
        let checked = looks.iter().filter(|(_, seen)| seen.is_some()).count() as u64;
        let missing = looks.iter().filter(|(_, seen)| *seen == Some(false));
        let missing = missing
            .filter_map(|(call, _)| key_part(&call.key).ok())
            .map(StepKey::new)
            .collect();
        (checked > 0).then_some(Verification {
            checked,
            missing,
            unsettled,
            ..Verification::default()
        })
    }

    async fn look(&self, call: &PlannedCall) -> Option<bool> {
        let tool = self.tools.get(&call.tool)?;
        let mut seen = tool.verify(&call.input, &self.resources).await?;
        for _ in 1..VERIFY_TRIES {
            match seen {
                Err(BodyError { retryable: true, .. }) => seen = tool.verify(&call.input, &self.resources).await?,
                _ => break,
            }
        }
        Some(seen.unwrap_or_else(|error| {
            tracing::warn!(
                key = call.key,
                error = error.error.message,
                "a step's effect could not be looked at"
            );
            false
        }))
    }

    fn tool(&self, name: &str) -> Result<&Arc<dyn Tool>, ErrorInfo> {
        // Checked when the run was accepted; a later deployment may have dropped the tool.
        self.tools
            .get(name)
            .ok_or_else(|| ErrorInfo::new("unknown_tool", format!("there is no tool `{name}` here")))
    }
}

#[cfg(test)]
mod tests;
