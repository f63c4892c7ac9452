//! Agents whose runs take what course a test likes.

use std::time::Duration;

use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, Agents, Ask, BadInput, BodyError, Ctx, Returned, StepError};
use serde::Deserialize;
use serde_json::{Value, json};

pub fn all() -> Agents {
    Agents::default().with(Steps("plan")).with(Steps("other"))
}

/// `{"steps": [{"key", "tool", "input"}]}`, one after the other.
pub struct Steps(pub &'static str);

#[derive(Deserialize)]
struct Input {
    steps: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    key: String,
    /// `note` gives its input back, `say` emits it, `wait` takes that many milliseconds, `once` takes five seconds of at
    /// most that many milliseconds and is not to be repeated, `fail` fails, `later` asks for a
    /// try in that many seconds. No steps: `sleep` waits that many seconds, `ask` asks, with its input as the schema, and emits
    /// what came of it as `<key>!`.
    tool: String,
    #[serde(default)]
    input: Value,
}

#[async_trait]
impl Agent for Steps {
    fn name(&self) -> AgentName {
        AgentName::new(self.0)
    }

    fn check_input(&self, input: &Payload) -> Result<(), BadInput> {
        let bad = |malformed, code, message: String, pointer| BadInput {
            malformed,
            code,
            message,
            pointer,
        };
        let input: Input = input
            .decode()
            .map_err(|error| bad(true, "invalid_plan", error.to_string(), None))?;
        for (index, call) in input.steps.iter().enumerate() {
            if !["note", "say", "sleep", "ask", "wait", "once", "fail", "later"].contains(&call.tool.as_str()) {
                let message = format!("there is no tool {}", call.tool);
                return Err(bad(
                    false,
                    "unknown_tool",
                    message,
                    Some(format!("/steps/{index}/tool")),
                ));
            }
        }
        Ok(())
    }

    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let Input { steps } = input.decode().expect("checked");
        let planned = steps
            .iter()
            .filter(|call| !["say", "sleep", "ask"].contains(&call.tool.as_str()));
        ctx.plan(planned.map(|call| &call.key))
            .await
            .map_err(StepError::into_info)?;
        for call in &steps {
            if call.tool == "say" {
                ctx.emit(&call.key, &call.input).await.map_err(StepError::into_info)?;
                continue;
            }
            if call.tool == "sleep" {
                let seconds = call.input.as_u64().unwrap_or(0);
                ctx.wait(&call.key, Duration::from_secs(seconds)).await?;
                continue;
            }
            if call.tool == "ask" {
                let question = Ask {
                    schema: Some(call.input.clone()),
                    ..Ask::default()
                };
                let answer = ctx.ask(&call.key, question).await?.answer::<Value>().await;
                let said = match answer {
                    Err(StepError::Failed { error, .. }) => json!({ "failed": error.kind, "message": error.message }),
                    answer => json!({ "value": answer? }),
                };
                ctx.emit(&format!("{}!", call.key), &said).await?;
                continue;
            }
            let policy = match (call.tool.as_str(), call.input.as_u64()) {
                ("once", Some(most)) => StepPolicy::at_most_once(Duration::from_millis(most)),
                _ => StepPolicy::IDEMPOTENT,
            };
            let done = ctx.step(&call.key, &call.input, policy, |_| body(&ctx, call)).await;
            match done {
                Ok(_) | Err(StepError::Failed { .. }) => {}
                Err(error) => return Err(error.into_info()),
            }
        }
        Ok(Returned {
            value: Payload::of(&json!({"steps": steps.len()})).expect("JSON"),
            verification: None,
        })
    }
}

async fn body(ctx: &Ctx, call: &Call) -> Result<Value, BodyError> {
    let number = call.input.as_u64().unwrap_or(0);
    match call.tool.as_str() {
        "wait" => ctx.pause(Duration::from_millis(number)).await,
        "once" => ctx.pause(Duration::from_secs(5)).await,
        "fail" => return Err(BodyError::permanent("broken", "it can't be done")),
        "later" => {
            return Err(BodyError {
                retry_after: Some(Duration::from_secs(number)),
                ..BodyError::retryable("busy", "not now")
            });
        }
        _ => {}
    }
    Ok(call.input.clone())
}

/// A plan of this many steps that do nothing.
pub fn notes(count: usize) -> Value {
    let steps: Vec<Value> = (1..=count)
        .map(|n| json!({"key": format!("n{n}"), "tool": "note", "input": n}))
        .collect();
    json!({ "steps": steps })
}

/// Steps that take this long each.
pub fn waits(count: usize, millis: u64) -> Value {
    let steps: Vec<Value> = (1..=count)
        .map(|n| json!({"key": format!("w{n}"), "tool": "wait", "input": millis}))
        .collect();
    json!({ "steps": steps })
}

/// One step that takes this long.
pub fn slow(millis: u64) -> Value {
    json!({"steps": [{"key": "slow", "tool": "wait", "input": millis}]})
}

/// What an agent says, one event a text.
pub fn saying(texts: &[&str]) -> Value {
    let steps: Vec<Value> = (1..)
        .zip(texts)
        .map(|(n, text)| json!({"key": format!("s{n}"), "tool": "say", "input": text}))
        .collect();
    json!({ "steps": steps })
}
