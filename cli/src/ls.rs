//! `outlast ls`: your runs, newest first.

use std::io::IsTerminal as _;

use clap::Args;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;

use crate::client::Client;
use crate::exit::Exit;
use crate::screen::say;
use crate::table::trimmed;
use crate::wire::ago;

/// The server gives so many at once.
const PAGE: usize = 100;

#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// How many runs to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub async fn ls(client: &Client, args: &LsArgs) -> anyhow::Result<Exit> {
    let (mut runs, mut after) = (Vec::new(), None::<String>);
    let (more, now) = loop {
        let asked = (args.limit - runs.len()).clamp(1, PAGE);
        let page = client.list(asked, after.as_deref()).await;
        let mut page = page.map_err(|failure| failure.into_problem(client))?;
        if let Value::Array(rows) = page["runs"].take() {
            runs.extend(rows);
        }
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() || runs.len() >= args.limit {
            break (after.is_some(), now_of(&page));
        }
    };
    if runs.is_empty() {
        say("There are no runs.");
        return Ok(Exit::Done);
    }
    let width = std::io::stdout().is_terminal().then(terminal_width).flatten();
    say(&render(&runs, &now, width));
    if more {
        eprintln!("There are more: --limit {}", args.limit.saturating_mul(2));
    }
    Ok(Exit::Done)
}

/// The server's time, or this machine's if it does not say.
fn now_of(page: &Value) -> String {
    page["serverNow"]
        .as_str()
        .map_or_else(|| jiff::Timestamp::now().to_string(), str::to_owned)
}

fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// Without a width, one run a line however long: for programs.
pub fn render(runs: &[Value], now: &str, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["RUN", "STATUS", "M", "OF N", "STARTED", "AGENT", "THREAD"]);
    for run in runs {
        let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| run["progress"][field].as_u64().unwrap_or(0).to_string();
        let thread = Some(text("threadId")).filter(|thread| *thread != text("runId"));
        table.add_row([
            text("runId"),
            status(run),
            number("committed"),
            number("planned"),
            ago(&text("createdAt"), now).unwrap_or_default(),
            text("agent"),
            thread.unwrap_or_default(),
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        // An id in two parts can't be copied.
        for column in 0..5 {
            if let Some(column) = table.column_mut(column) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
    trimmed(&mut table)
}

/// The status, and why it is not what one would think.
fn status(run: &Value) -> String {
    let mut text = run["status"].as_str().unwrap_or_default().to_owned();
    if let Some(reason) = run["reason"].as_str().filter(|reason| *reason != "stopped") {
        text.push_str(&format!(" ({reason})"));
    }
    for flag in ["paused", "stopping", "blocked"] {
        if run["flags"][flag] == true && run["endedAt"].is_null() {
            text.push_str(&format!(" ({flag})"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs() -> Vec<Value> {
        let run = |n: u64, status: &str, more: Value| {
            let id = format!("01900000-0000-7000-8000-00000000000{n}");
            let mut run = json!({
                "runId": id, "status": status, "agent": "plan", "threadId": id,
                "createdAt": "2026-01-01T23:55:00.000Z", "flags": {"paused": false, "stopping": false},
                "progress": {"committed": 7 * n, "planned": 249, "failed": 0, "unknown": 0},
            });
            run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            run
        };
        vec![
            run(1, "running", json!({"flags": {"stopping": true}})),
            run(
                2,
                "completed",
                json!({"threadId": "a conversation with a long name that goes on and on"}),
            ),
            run(3, "incomplete", json!({"reason": "steps_failed"})),
            run(
                4,
                "cancelled",
                json!({"reason": "stopped", "endedAt": "2026-01-01T23:56:00Z", "flags": {"stopping": true}}),
            ),
        ]
    }

    #[test]
    fn a_program_gets_a_line_a_run() {
        insta::assert_snapshot!(render(&runs(), "2026-01-02T00:00:00Z", None));
    }

    #[test]
    fn a_person_gets_what_fits() {
        let table = render(&runs(), "2026-01-02T00:00:00Z", Some(120));
        assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
        insta::assert_snapshot!(table);
    }
}
