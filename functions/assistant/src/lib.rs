//! The app: its agents and its tools. This is the folder to edit.

use outlast_agent::App;
use outlast_agent::tools::{HttpRequest, PutRecord, Sleep};

/// What both functions, and `outlast dev`, serve.
pub fn app() -> App {
    App::new("assistant").tool(HttpRequest).tool(PutRecord).tool(Sleep)
}
