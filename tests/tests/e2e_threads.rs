//! Threads and idempotency keys, and a stop that frees a thread.

use std::time::Duration;

use outlast_tests::dev::Dev;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

fn sleeper(ms: u64) -> Value {
    json!({ "steps": [{ "key": "nap", "tool": "sleep", "input": { "ms": ms } }] })
}

fn on_thread(thread: &str, plan: Value) -> Value {
    json!({ "agent": "plan", "input": plan, "threadId": thread })
}

async fn is_running(dev: &Dev, run: &str) {
    wait_until("the run is claimed", LIMIT, async || {
        dev.show(run).await["status"] == "running"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_on_one_thread_one_runs_and_the_other_is_told_which() {
    let dev = Dev::start(&[]).await;
    let body = on_thread("t", sleeper(60_000));
    let (first, second) = tokio::join!(dev.post("/api/v1/runs", &body), dev.post("/api/v1/runs", &body));
    let (ran, refused) = if first.0 == 202 {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!((ran.0, refused.0), (202, 409), "{ran:?} {refused:?}");
    assert_eq!(
        refused.1["error"]["details"]["activeRunId"], ran.1["runId"],
        "{refused:?}"
    );
    let active = dev.get("/api/v1/runs/active?threadId=t").await;
    assert_eq!(active["runId"], ran.1["runId"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r34_the_same_key_is_the_same_run_and_another_body_is_refused() {
    let dev = Dev::start(&[]).await;
    let mut body = on_thread("t", sleeper(1));
    body["turnId"] = json!("turn-1");
    let (first, second) = tokio::join!(dev.post("/api/v1/runs", &body), dev.post("/api/v1/runs", &body));
    assert_eq!(first.1["runId"], second.1["runId"], "{first:?} {second:?}");
    dev.ended(first.1["runId"].as_str().unwrap(), LIMIT).await;
    let again = dev.post("/api/v1/runs", &body).await;
    assert_eq!(again.1["runId"], first.1["runId"]);
    body["input"] = sleeper(2);
    let other = dev.post("/api/v1/runs", &body).await;
    assert_eq!(
        (other.0, &other.1["code"]),
        (422, &json!("idempotency_mismatch")),
        "{other:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_stop_frees_the_thread_at_once_though_the_holder_is_dead() {
    let mut dev = Dev::start(&[]).await;
    let (_, started) = dev.post("/api/v1/runs", &on_thread("t", sleeper(60_000))).await;
    let run = started["runId"].as_str().unwrap().to_owned();
    is_running(&dev, &run).await;
    dev.kill().await;
    dev.restart().await;
    let (status, stopped) = dev
        .post(&format!("/api/v1/runs/{run}/stop"), &json!({ "force": true }))
        .await;
    assert_eq!((status, &stopped["status"]), (200, &json!("cancelled")), "{stopped}");
    let (status, next) = dev.post("/api/v1/runs", &on_thread("t", sleeper(1))).await;
    assert_eq!(status, 202, "{next}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_reaches_a_live_holder_and_nothing_starts_after_it() {
    let dev = Dev::start(&[]).await;
    let steps: Vec<_> = (0..50)
        .map(|n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 200 } }))
        .collect();
    let run = dev.start_plan(&json!({ "steps": steps })).await;
    wait_until("a step is committed", LIMIT, async || {
        dev.show(&run).await["progress"]["committed"] != 0
    })
    .await;
    let (status, _) = dev.post(&format!("/api/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(status, 200);
    let shown = dev.ended(&run, LIMIT).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("cancelled"), &json!("stopped"))
    );
    let events = dev.events(&run).await;
    let stop = events
        .iter()
        .position(|event| event["type"] == "stop.requested")
        .expect("the stop is logged");
    assert!(
        events[stop..].iter().all(|event| event["type"] != "step.started"),
        "{:#?}",
        &events[stop..]
    );
    let (again, _) = dev.post(&format!("/api/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(again, 200, "a stop of what has ended changes nothing");
}
