//! Both functions on one thread each, with a tool that holds that thread and does not yield: as code does that calls
//! into a library which blocks.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::tool::{Repeat, Tool, ToolCall};
use outlast_engine::BodyError;
use outlast_runtime::{Host, lambda};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let host = match std::env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("background") => Host::background(),
        _ => Host::foreground(),
    };
    lambda::serve(assistant::app().tool(Block), host).await
}

struct Block;

#[async_trait]
impl Tool for Block {
    fn name(&self) -> &'static str {
        "block"
    }

    fn description(&self) -> &'static str {
        "Holds its thread for the given number of milliseconds."
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object", "properties": { "ms": { "type": "integer" } }, "required": ["ms"] })
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let ms = call.input["ms"].as_u64().unwrap_or_default();
        let (_held, never) = channel::<()>();
        match never.recv_timeout(Duration::from_millis(ms)) {
            Err(RecvTimeoutError::Timeout) => Ok(json!({ "blocked_ms": ms })),
            other => Err(BodyError::permanent("woken", format!("{other:?}"))),
        }
    }
}
