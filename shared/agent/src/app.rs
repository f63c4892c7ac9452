//! An app: what a deployment serves.

use std::sync::Arc;

use outlast_engine::seams::Clock;
use outlast_engine::{Agent, Agents};
use outlast_store::records::Records;

use crate::plan::PlanAgent;
use crate::tool::{Tool, Tools};

/// What tools work with; the host makes it.
#[derive(Clone)]
pub struct Resources {
    pub records: Arc<dyn Records>,
    pub http: reqwest::Client,
    pub clock: Arc<dyn Clock>,
}

/// A name, tools, and agents of its own beside the built-in `plan`.
pub struct App {
    name: String,
    tools: Tools,
    agents: Agents,
}

impl App {
    /// An app without tools; its one agent is `plan`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Tools::default(),
            agents: Agents::default(),
        }
    }

    /// With one more tool; it takes the place of another of the same name.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools = self.tools.with(tool);
        self
    }

    /// With one more agent. Its name must not be `plan`: the built-in one would take its place.
    pub fn agent(mut self, agent: impl Agent + 'static) -> Self {
        self.agents = self.agents.with(agent);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The agents, with their tools at work on `resources`.
    pub fn into_agents(self, resources: Resources) -> Agents {
        self.agents.with(PlanAgent::new(self.tools, resources))
    }
}
