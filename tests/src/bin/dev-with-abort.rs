//! `outlast dev` with a tool that kills its process.

use async_trait::async_trait;
use clap::Parser as _;
use outlast_agent::tool::Repeat;
use outlast_agent::{Tool, ToolCall};
use outlast_engine::BodyError;
use serde_json::{Value, json};

struct Abort;

#[async_trait]
impl Tool for Abort {
    fn name(&self) -> &'static str {
        "abort"
    }

    fn description(&self) -> &'static str {
        "Kills the process that it runs in."
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, _call: ToolCall<'_>) -> Result<Value, BodyError> {
        std::process::abort()
    }
}

fn main() -> anyhow::Result<()> {
    outlast_cli::dev::main(assistant::app().tool(Abort), outlast_cli::dev::DevOptions::parse())
}
