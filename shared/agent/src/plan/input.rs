//! A plan's input: parsed, and checked to its last step before anything is stored.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use outlast_core::Payload;
use outlast_core::key::key_part;
use outlast_core::limits::{MAX_PLAN_BYTES, MAX_STEPS};
use outlast_engine::BadInput;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::Tools;

/// At most this many steps at once.
pub const MAX_CONCURRENCY: usize = 100;
/// At most so many beginnings of steps a second.
pub const MAX_RATE: f64 = 10_000.0;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub steps: Vec<Arc<PlannedCall>>,
    /// How many steps may be in hand at once; 1 if nothing is said.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// How many steps may begin a second; no limit if nothing is said.
    #[serde(default)]
    pub rate: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    pub key: String,
    pub tool: String,
    #[serde(default)]
    pub input: Value,
    /// That this call may be repeated, where its tool would say that it may not.
    #[serde(default)]
    pub idempotent: bool,
}

/// The validators of the tools' schemas, made once.
pub struct Checker {
    validators: HashMap<&'static str, Validator>,
}

impl Checker {
    /// A schema that is none lets nothing through; [`Checker::check`] says so.
    pub fn new(tools: &Tools) -> Self {
        let validators = tools.names().into_iter().filter_map(|name| {
            let schema = tools.get(name)?.input_schema();
            jsonschema::validator_for(&schema)
                .ok()
                .map(|validator| (name, validator))
        });
        Self {
            validators: validators.collect(),
        }
    }

    pub fn check(&self, input: &Payload) -> Result<Plan, BadInput> {
        if input.len() > MAX_PLAN_BYTES {
            let message = format!(
                "the plan has {} bytes; at most {MAX_PLAN_BYTES} are accepted",
                input.len()
            );
            return Err(bad("plan_too_large", message, "".into()));
        }
        let plan = parse(input)?;
        if plan.steps.is_empty() {
            return Err(bad("invalid_plan", "the plan has no steps".into(), "/steps".into()));
        }
        if plan.steps.len() > MAX_STEPS {
            let message = format!(
                "the plan has {} steps; at most {MAX_STEPS} are accepted",
                plan.steps.len()
            );
            return Err(bad("plan_too_large", message, "/steps".into()));
        }
        check_pace(&plan)?;
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (index, call) in plan.steps.iter().enumerate() {
            self.check_call(index, call)?;
            if let Some(first) = places.insert(&call.key, index) {
                let message = format!(
                    "step {}: the key `{}` is step {}'s already",
                    index + 1,
                    call.key,
                    first + 1
                );
                return Err(bad("invalid_plan", message, format!("/steps/{index}/key")));
            }
        }
        Ok(plan)
    }

    fn check_call(&self, index: usize, call: &PlannedCall) -> Result<(), BadInput> {
        let step = index + 1;
        key_part(&call.key).map_err(|problem| {
            bad(
                "invalid_plan",
                format!("step {step}: its key can't be used: {problem}"),
                format!("/steps/{index}/key"),
            )
        })?;
        let Some(validator) = self.validators.get(call.tool.as_str()) else {
            let mut known: Vec<_> = self.validators.keys().copied().collect();
            known.sort_unstable();
            let message = format!(
                "step {step} (`{}`): there is no tool `{}` here; there are: {}",
                call.key,
                call.tool,
                known.join(", ")
            );
            return Err(bad("unknown_tool", message, format!("/steps/{index}/tool")));
        };
        if let Err(error) = validator.validate(&call.input) {
            let place = error.instance_path().to_string();
            let message = format!("step {step} (`{}`): input{place}: {error}", call.key);
            return Err(bad(
                "invalid_tool_input",
                message,
                format!("/steps/{index}/input{place}"),
            ));
        }
        Ok(())
    }
}

fn parse(input: &Payload) -> Result<Plan, BadInput> {
    serde_json::from_str(input.as_str()).map_err(|error| {
        let message = format!(
            "the input is no plan: {error}; it should be {{\"steps\": [{{\"key\", \"tool\", \"input\"}}, …], \"concurrency\"?, \"rate\"?}}"
        );
        BadInput { malformed: true, code: "invalid_plan", message, pointer: None }
    })
}

fn check_pace(plan: &Plan) -> Result<(), BadInput> {
    if let Some(concurrency) = plan
        .concurrency
        .filter(|concurrency| !(1..=MAX_CONCURRENCY).contains(concurrency))
    {
        let message = format!("concurrency is {concurrency}; it must be from 1 to {MAX_CONCURRENCY}");
        return Err(bad("invalid_plan", message, "/concurrency".into()));
    }
    if let Some(rate) = plan.rate.filter(|rate| !(*rate > 0.0 && *rate <= MAX_RATE)) {
        let message = format!("rate is {rate}; it must be above 0 and at most {MAX_RATE} a second");
        return Err(bad("invalid_plan", message, "/rate".into()));
    }
    Ok(())
}

fn bad(code: &'static str, message: String, pointer: String) -> BadInput {
    BadInput {
        malformed: false,
        code,
        message,
        pointer: Some(pointer),
    }
}
