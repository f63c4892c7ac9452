//! `outlast show`: what one run looks like now.

use anyhow::Context as _;
use clap::Args;
use comfy_table::{Table, presets};
use serde_json::Value;

use crate::client::Client;
use crate::exit::Exit;
use crate::progress::statement;
use crate::screen::say;
use crate::table::trimmed;
use crate::wire::{Outcome, ago};

#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The run's id
    run: String,
    /// Print what the server says as it came
    #[arg(long)]
    json: bool,
}

pub async fn show(client: &Client, args: &ShowArgs) -> anyhow::Result<Exit> {
    let shown = client.show(&args.run).await;
    let text = shown.map_err(|failure| failure.into_problem(client))?;
    if args.json {
        say(&text);
    } else {
        say(&render(
            &serde_json::from_str(&text).context("the server's answer is no JSON")?,
        ));
    }
    Ok(Exit::Done)
}

/// The exit code that goes with how a run ended.
pub async fn ending(client: &Client, run: &str) -> anyhow::Result<Exit> {
    let shown = client.show(run).await.map_err(|failure| failure.into_problem(client))?;
    let shown: Value = serde_json::from_str(&shown).context("the server's answer is no JSON")?;
    Ok(Exit::of_status(shown["status"].as_str().unwrap_or_default()).unwrap_or(Exit::Error))
}

/// A line a fact; facts that aren't there have none.
pub fn render(run: &Value) -> String {
    let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
    let number = |field: &str| run[field].as_u64().unwrap_or(0);
    let now = text("serverNow");
    let time = |field: &str| {
        let words = ago(&text(field), &now).map(|ago| format!(" ({ago})"));
        format!("{}{}", text(field), words.unwrap_or_default())
    };
    let mut facts = vec![
        ("run", text("runId")),
        ("status", status(run)),
        ("progress", progress(run)),
        ("chunks", number("chunk").to_string()),
        ("crashes", number("crashes").to_string()),
        ("events", number("lastSeq").to_string()),
        ("agent", text("agent")),
        ("executor", text("executor")),
        ("holder", text("holder")),
        ("started", time("createdAt")),
        ("last sign of life", time("lastSignOfLife")),
        ("ended", time("endedAt")),
        (
            "dispatch",
            run["dispatch"]["error"].as_str().unwrap_or_default().to_owned(),
        ),
        ("cost", cost(&run["cost"])),
        ("outcome", outcome(run)),
        ("waits for", questions(run)),
    ];
    if text("threadId") != text("runId") {
        facts.insert(6, ("thread", text("threadId")));
    }
    facts.retain(|(_, fact)| !fact.is_empty());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, fact) in facts {
        table.add_row([name, &fact]);
    }
    trimmed(&mut table)
}

fn status(run: &Value) -> String {
    let mut text = run["status"].as_str().unwrap_or_default().to_owned();
    let flags = run["flags"].as_object().filter(|_| run["endedAt"].is_null());
    for (flag, _) in flags.into_iter().flatten().filter(|(_, set)| **set == true) {
        text.push_str(&format!(", {flag}"));
    }
    text
}

fn progress(run: &Value) -> String {
    let of = |field: &str| run["progress"][field].as_u64().unwrap_or(0);
    let mut text = format!("{} of {}", of("committed"), of("planned"));
    for what in ["failed", "unknown", "released"] {
        if of(what) > 0 {
            text.push_str(&format!(", {} {what}", of(what)));
        }
    }
    text
}

fn cost(cost: &Value) -> String {
    let of = |field: &str| cost[field].as_f64().unwrap_or(0.0);
    format!(
        "{} write requests, {} write units; {} read requests, {} read units",
        of("writeRequests"),
        of("writeUnits"),
        of("readRequests"),
        of("readUnits")
    )
}

/// A line a question.
fn questions(run: &Value) -> String {
    let line = |question: &Value| {
        let mut line = format!("an answer to {}", question["key"].as_str().unwrap_or_default());
        if let Some(expires_at) = question["expiresAt"].as_str() {
            line.push_str(&format!(", until {expires_at}"));
        }
        if !question["schema"].is_null() {
            line.push_str(&format!(", of the schema {}", question["schema"]));
        }
        line
    };
    let lines: Vec<String> = run["questions"].as_array().into_iter().flatten().map(line).collect();
    lines.join("\n")
}

fn outcome(run: &Value) -> String {
    match serde_json::from_value::<Outcome>(run["outcome"].clone()) {
        Ok(outcome) => statement(run["status"].as_str().unwrap_or_default(), &outcome),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_run_waits_for_is_told_with_its_terms() {
        let questions = json!([
            {"key": "refund%207%3F", "expiresAt": "2026-01-03T00:00:00.000Z", "schema": {"type": "object"}},
            {"key": "fan/a/ok", "expiresAt": null},
        ]);
        let text = render(&run(json!({ "status": "waiting", "questions": questions })));
        let expected = r#"an answer to refund%207%3F, until 2026-01-03T00:00:00.000Z, of the schema {"type":"object"}"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("an answer to fan/a/ok"), "{text}");
    }

    fn run(more: Value) -> Value {
        let mut run = json!({
            "runId": "01900000-0000-7000-8000-000000000001", "threadId": "01900000-0000-7000-8000-000000000001",
            "status": "running", "flags": {"paused": false, "stopping": false, "blocked": false},
            "progress": {"committed": 120, "planned": 249, "failed": 0, "unknown": 0},
            "executor": "background", "agent": "plan", "chunk": 3, "crashes": 1, "lastSeq": 251, "holder": "dev-17",
            "createdAt": "2026-01-01T23:59:30.000Z", "lastSignOfLife": "2026-01-01T23:59:59.500Z", "endedAt": null,
            "dispatch": {"stage": "none", "attempts": 0, "error": null},
            "cost": {"writeRequests": 130, "readRequests": 9, "writeUnits": 141.5, "readUnits": 6.0},
            "outcome": null, "serverNow": "2026-01-02T00:00:00.000Z",
        });
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run
    }

    #[test]
    fn a_live_run() {
        insta::assert_snapshot!(render(&run(
            json!({"threadId": "imports", "flags": {"stopping": true}})
        )));
    }

    #[test]
    fn a_finished_run() {
        insta::assert_snapshot!(render(&run(json!({
            "status": "incomplete", "endedAt": "2026-01-01T23:59:59.900Z", "holder": null,
            "progress": {"committed": 248, "planned": 249, "failed": 1, "unknown": 0},
            "outcome": {
                "reason": "steps_failed", "remaining": 1, "remainder": ["AF"], "error": null, "value": null,
                "counts": {"committed": 248, "planned": 249, "failed": 1, "unknown": 0, "failuresHandled": 0},
                "verification": {"checked": 248, "missingCount": 0, "missing": [], "unsettled": 0},
            },
        }))));
    }
}
