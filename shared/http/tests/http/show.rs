//! `GET /api/v1/runs`, `/runs/active`, `/runs/{id}`, and `POST /runs/{id}/stop`.

use outlast_store::memory::{Effect, Fault, Kind};
use serde_json::{Value, json};

use crate::support::agents::{notes, slow};
use crate::support::{Deliver, RUNS, Rig};

/// Without what hangs on how often something was asked before.
fn redacted(mut shown: Value, fields: &[&str]) -> Value {
    for field in fields.iter().chain(&["runId", "threadId", "cost", "serverNow"]) {
        shown[field] = json!("…");
    }
    shown
}

#[tokio::test(start_paused = true)]
async fn a_run_as_it_is_shown() {
    let rig = Rig::new();
    let run = rig
        .start(json!({"steps": [
            {"key": "a", "tool": "note", "input": 1},
            {"key": "b", "tool": "fail", "input": 2},
            {"key": "c", "tool": "wait", "input": 1000},
        ]}))
        .await;
    let running = rig.until(&run, |shown| shown["status"] == "running").await;
    insta::assert_json_snapshot!("running", redacted(running, &["lastSignOfLife"]));
    let ended = rig.ended(&run).await;
    insta::assert_json_snapshot!("ended", redacted(ended, &["lastSignOfLife", "endedAt"]));
}

#[tokio::test(start_paused = true)]
async fn cost_is_told_in_requests_and_units() {
    let rig = Rig::new();
    let run = rig.start(notes(1)).await;
    let cost = rig.ended(&run).await["cost"].clone();
    for field in ["writeRequests", "readRequests"] {
        assert!(cost[field].as_u64().unwrap() > 0, "{cost}");
    }
    for field in ["writeUnits", "readUnits"] {
        assert!(cost[field].as_f64().unwrap() > 0.0, "{cost}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_runs_first_a_page_at_a_time() {
    let rig = Rig::new();
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(rig.start(notes(1)).await);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    started.reverse();
    let mut listed: Vec<String> = Vec::new();
    let mut path = format!("{RUNS}?limit=2");
    loop {
        let page = rig.get(&path).await.json();
        let runs = page["runs"].as_array().unwrap();
        assert!(runs.len() <= 2);
        listed.extend(runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("{RUNS}?limit=2&after={next}");
    }
    assert_eq!(listed, started);

    for limit in ["0", "101", "-1", "x", "", "1.5"] {
        let answer = rig.get(&format!("{RUNS}?limit={limit}")).await;
        assert_eq!(answer.problem(400), "bad_request", "{limit}");
    }
    for after in [
        "x",
        "",
        "1.x",
        "99999999999999999999.0197a8c0-0000-7000-8000-000000000000",
    ] {
        let answer = rig.get(&format!("{RUNS}?after={after}")).await;
        assert_eq!(answer.problem(400), "bad_cursor", "{after}");
    }
    // Where the store refuses everything, the cursor is not to blame.
    rig.table
        .fault(Fault::new(Effect::Reject, |request| request.kind == Kind::Query).always());
    let answer = rig.get(&format!("{RUNS}?after=x")).await;
    assert_eq!(answer.problem(500), "internal");
    assert_eq!(rig.get(RUNS).await.problem(500), "internal");
}

#[tokio::test(start_paused = true)]
async fn a_threads_live_run_is_found() {
    let rig = Rig::new();
    let active = format!("{RUNS}/active?threadId=a%2Fb");
    assert_eq!(rig.get(&active).await.problem(404), "run_not_found");
    let started = rig
        .post(RUNS, &json!({"input": slow(3_000), "threadId": "a/b"}))
        .await
        .json();
    let run = started["runId"].as_str().unwrap();
    let found = rig.get(&active).await.json();
    assert_eq!((&found["runId"], &found["threadId"]), (&json!(run), &json!("a/b")));
    assert_eq!(
        rig.get_with(&active, &[("x-owner", "someone-else")]).await.problem(404),
        "run_not_found"
    );
    rig.ended(run).await;
    assert_eq!(rig.get(&active).await.problem(404), "run_not_found");
    assert_eq!(rig.get(&format!("{RUNS}/active")).await.problem(400), "bad_request");
    assert_eq!(
        rig.get(&format!("{RUNS}/active?threadId=")).await.problem(400),
        "bad_key"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_run() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let stop = |run: &str| format!("{RUNS}/{run}/stop");
    // Nobody holds it: it ends at once, and a second stop finds it so.
    let run = rig.start(notes(1)).await;
    for _ in 0..2 {
        let stopped = rig.post_text(&stop(&run), &[], "", "").await;
        assert_eq!(
            (stopped.status.as_u16(), &stopped.json()["status"]),
            (200, &json!("cancelled"))
        );
        assert_eq!(stopped.json()["reason"], "stopped");
    }
    rig.deliver(Deliver::AtOnce);
    // Its holder is told, and ends it.
    let run = rig.start(slow(600_000)).await;
    rig.until(&run, |shown| shown["status"] == "running").await;
    let told = rig.post(&stop(&run), &json!({})).await;
    assert_eq!(
        (told.status.as_u16(), &told.json()["flags"]["stopping"]),
        (202, &json!(true))
    );
    assert_eq!(rig.ended(&run).await["status"], "cancelled");
    // Nor does a stop that may not wait.
    for (query, body) in [("?force=true", json!({})), ("", json!({"force": true}))] {
        let run = rig.start(slow(600_000)).await;
        rig.until(&run, |shown| shown["status"] == "running").await;
        let stopped = rig.post(&format!("{}{query}", stop(&run)), &body).await;
        assert_eq!(
            (stopped.status.as_u16(), &stopped.json()["status"]),
            (200, &json!("cancelled"))
        );
    }
    let run = rig.start(notes(1)).await;
    assert_eq!(
        rig.post(&stop(&run), &json!({"forced": true})).await.problem(400),
        "bad_request"
    );
    assert_eq!(
        rig.post(&format!("{}?force=maybe", stop(&run)), &json!({}))
            .await
            .problem(400),
        "bad_request"
    );
    let answer = rig.post_text(&stop(&run), &[], "text/plain", "{}").await;
    assert_eq!(answer.problem(415), "unsupported_media_type");
}
