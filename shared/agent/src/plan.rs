//! The `plan` agent.
use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, BadInput, Ctx, Returned};

use crate::app::Resources;
use crate::tool::Tools;

pub struct PlanAgent {
    pub(crate) tools: Tools,
    pub(crate) resources: Resources,
}

impl PlanAgent {
    pub fn new(tools: Tools, resources: Resources) -> Self {
        Self { tools, resources }
    }
}

#[async_trait]
impl Agent for PlanAgent {
    fn name(&self) -> AgentName {
        AgentName::new("plan")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, _ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        Err(ErrorInfo::new("x", "y"))
    }
}
