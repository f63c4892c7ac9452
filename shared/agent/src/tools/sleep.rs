//! `sleep`: a step that only takes time, for trying things out.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};
use outlast_engine::BodyError;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Repeat, Tool, ToolCall};
use crate::tools::parse;

/// At most ten minutes. Not a durable timer: its chunk goes on meanwhile, and cut off it begins anew.
pub struct Sleep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Milliseconds, at most ten minutes.
    #[schemars(range(max = 600_000))]
    ms: u64,
}

#[async_trait]
impl Tool for Sleep {
    fn name(&self) -> &'static str {
        "sleep"
    }

    fn description(&self) -> &'static str {
        "Does nothing for the given number of milliseconds."
    }

    fn input_schema(&self) -> Value {
        schema_for!(Input).into()
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let input: Input = parse(call.input)?;
        let asleep = call.resources.clock.sleep(Duration::from_millis(input.ms));
        match select(asleep, Box::pin(call.step.cancelled.cancelled())).await {
            Either::Left(_) => Ok(json!({ "slept_ms": input.ms })),
            Either::Right(_) => Err(BodyError::permanent("cancelled", "the run was stopped")),
        }
    }
}
