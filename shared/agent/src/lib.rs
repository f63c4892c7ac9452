//! Agents and their tools: what runs on `Ctx`.
//!
//! - [`app`]: an app is a name, tools and agents; a deployment serves one
//! - [`tool`]: what a tool is
//! - [`tools`]: the built-in ones
//! - [`plan`]: the `plan` agent, a list of tool calls

pub mod app;
pub mod plan;
pub mod tool;
pub mod tools;

pub use app::{App, Resources};
pub use tool::{Tool, ToolCall, Tools};
