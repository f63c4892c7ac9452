//! What a run has come to is counted on its row, across the processes that carry it: no chunk starts it all again.

use std::time::Duration;

use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::log_rules::has_ended;
use serde_json::{Value, json};

const CHUNK: Duration = Duration::from_millis(500);

async fn deploy() -> Deployment {
    let options = Options {
        foreground: "function-that-stalls",
        background: "function-that-stalls",
        ..Options::default()
    };
    Deployment::start(options.with_short_chunks(CHUNK)).await
}

async fn start(deployed: &Deployment, agent: &str, input: &Value) -> String {
    let body = json!({ "agent": agent, "input": input, "threadId": "t" });
    let (status, answer) = deployed.post("/api/v1/runs", &body).await;
    assert_eq!(status, 202, "{answer}");
    answer["runId"].as_str().unwrap().to_owned()
}

/// However it ended.
/// The one run that there is, and its thread, which is free.
async fn assert_one_run(deployed: &Deployment, run: &str, chunks: u64) {
    let (_, listed) = deployed.get("/api/v1/runs").await;
    let listed = listed["runs"].as_array().expect("runs");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["runId"], run);
    // An invocation a chunk, and none after the last.
    deployed.sweep().await;
    assert_eq!(deployed.lambda.events().len() as u64, chunks);
    start(deployed, "stuck", &json!({})).await;
}

#[tokio::test]
async fn r14_a_run_that_gets_nowhere_ends_after_three_chunks_and_is_one_run() {
    let deployed = deploy().await;
    let run = start(&deployed, "stuck", &json!({})).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    assert_eq!(
        kinds(&log),
        [
            "run.accepted",
            "run.claimed",
            "auto_continue",
            "run.claimed",
            "auto_continue",
            "run.claimed",
            "run.incomplete"
        ]
    );
    let shown = deployed.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("incomplete"), &json!("no_progress")),
        "{shown}"
    );
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(3), &json!(0)), "{shown}");
    // What it cost is kept too: each chunk has at least claimed and closed.
    assert!(shown["cost"]["writeRequests"].as_u64().unwrap() >= 6, "{shown}");
    assert_one_run(&deployed, &run, 3).await;
}

#[tokio::test]
async fn r14_a_permanent_error_is_heard_once_and_a_later_chunk_ends_with_it() {
    let deployed = deploy().await;
    let else_ms = CHUNK.as_millis() + 50;
    let run = start(&deployed, "refused", &json!({ "else_ms": else_ms })).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    let shown = deployed.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("failed"), &json!("agent_error")),
        "{shown}"
    );
    let error = &shown["outcome"]["error"];
    assert_eq!(
        (&error["kind"], &error["message"], &error["key"]),
        (&json!("content_policy"), &json!("refused in epoch 1"), &json!("model")),
        "{shown}"
    );
    let asked = log
        .iter()
        .filter(|event| event["type"] == "step.started" && event["key"] == "model");
    assert_eq!(asked.count(), 1, "{:?}", kinds(&log));
    let chunks = shown["chunk"].as_u64().unwrap();
    assert!(chunks >= 2, "{shown}");
    assert_one_run(&deployed, &run, chunks).await;
}

#[tokio::test]
async fn r14_one_that_is_refused_and_then_gets_nowhere_still_shows_the_refusal() {
    let deployed = deploy().await;
    let run = start(&deployed, "refused", &json!({})).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    let refusals: Vec<_> = log.iter().filter(|event| event["type"] == "step.failed").collect();
    assert_eq!(refusals.len(), 1, "{:?}", kinds(&log));
    assert_eq!(refusals[0]["error"]["message"], "refused in epoch 1");
    let shown = deployed.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("incomplete"), &json!("no_progress")),
        "{shown}"
    );
    // Being refused was the first chunk's progress; three more came to nothing.
    assert_eq!(
        (&shown["chunk"], &shown["progress"]["failed"]),
        (&json!(4), &json!(1)),
        "{shown}"
    );
    assert_one_run(&deployed, &run, 4).await;
}
