//! The app: its agent and its tools. This is the folder to edit.

use outlast_agent::App;

pub fn app() -> App {
    App::new("assistant")
}
