//! What a tool is: a name, a schema, and a call whose effects are one step's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_engine::{BodyError, StepCall};
use serde_json::Value;

use crate::app::Resources;

/// What a tool may work with in one call.
pub struct ToolCall<'a> {
    /// Checked against the schema before the run was accepted.
    pub input: &'a Value,
    pub resources: &'a Resources,
    /// Idempotency key, attempt, deadline, cancellation.
    pub step: &'a StepCall,
}

/// A tool. Its call is the body of a step: it runs at least once if it is idempotent, and at most once if it isn't.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What plans and models call it: lower case, `_` between words.
    fn name(&self) -> &'static str;

    /// One sentence for whoever chooses among tools.
    fn description(&self) -> &'static str;

    /// JSON Schema of the input.
    fn input_schema(&self) -> Value;

    /// Whether this call may be repeated without harm.
    fn repeat(&self, input: &Value) -> Repeat;

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError>;

    /// Whether the effect of a committed call is there, by looking again. `None`: this tool can't tell.
    async fn verify(&self, input: &Value, resources: &Resources) -> Option<Result<bool, BodyError>> {
        let _ = (input, resources);
        None
    }
}

/// Whether a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    Idempotent,
    /// Cut off by a crash or a stop its outcome is unknown. If `timeout` passes the step has failed: no answer came in time,
    /// whatever it set in motion.
    AtMostOnce {
        timeout: Duration,
    },
}

/// Tools by name.
#[derive(Clone, Default)]
pub struct Tools(BTreeMap<&'static str, Arc<dyn Tool>>);

impl Tools {
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.0.insert(tool.name(), Arc::new(tool));
        self
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.get(name)
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}
