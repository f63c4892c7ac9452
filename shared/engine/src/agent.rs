//! What a user's code is to the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::outcome::{ErrorInfo, Verification};
use outlast_core::{AgentName, Payload, StepKey};

use crate::ctx::Ctx;

/// An agent: code that is run from its start in every chunk, and finds its finished steps in the log.
///
/// Between steps it must be deterministic: what it asks of [`Ctx`] may depend on its input and on results of steps, and on
/// nothing else. Whatever touches the world belongs in a step's body.
#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> AgentName;

    /// Checked before a run is accepted: what is refused here is never stored.
    fn check_input(&self, input: &Payload) -> Result<(), BadInput>;

    /// The input of a run that does these steps of `input` and no others. `None`: this agent's work has no such parts, and
    /// its runs can't be retried.
    fn input_of_remainder(&self, _input: &Payload, _keys: &BTreeSet<StepKey>) -> Option<Payload> {
        None
    }

    /// An error or a panic ends the run `failed: agent_error`.
    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo>;
}

/// What an agent's code came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// At most 5 MB of JSON; with more the run ends as if the agent had failed, `too_large`.
    pub value: Payload,
    /// What re-reading the end state said, where the agent's tools can do that.
    pub verification: Option<Verification>,
}

/// An input that can't be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    /// It isn't what it should be at all (400), or it is well-formed and wrong (422).
    pub malformed: bool,
    /// One spelling, with a page in the docs.
    pub code: &'static str,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// Where: a JSON pointer into the input.
    pub pointer: Option<String>,
}

/// The agents of a deployment, by name.
#[derive(Clone, Default)]
pub struct Agents(BTreeMap<String, Arc<dyn Agent>>);

impl Agents {
    /// With one more; it takes the place of another of the same name.
    pub fn with(mut self, agent: impl Agent + 'static) -> Self {
        self.0.insert(agent.name().as_str().to_owned(), Arc::new(agent));
        self
    }

    pub fn get(&self, name: &AgentName) -> Option<&Arc<dyn Agent>> {
        self.0.get(name.as_str())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
