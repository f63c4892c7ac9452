//! Pause and resume, stop by turn, the remainder and its retry.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agents::{notes, slow, waits};
use crate::support::{Deliver, RUNS, Rig, SSE};

async fn posted(rig: &Rig, path: &str, body: Value) -> (u16, Value) {
    let answer = rig.post(path, &body).await;
    (answer.status.as_u16(), answer.json())
}

async fn kinds(rig: &Rig, run: &str) -> Vec<String> {
    let log = rig.get(&format!("{RUNS}/{run}/events")).await.json();
    let events = log["events"].as_array().unwrap().iter();
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_is_handed_off_and_goes_on_when_it_is_resumed() {
    let rig = Rig::new();
    let run = rig.start(waits(6, 10_000)).await;
    rig.until(&run, |shown| shown["progress"]["committed"] == 1).await;
    let (status, paused) = posted(&rig, &format!("{RUNS}/{run}/pause"), json!({})).await;
    assert_eq!((status, &paused["flags"]["paused"]), (202, &json!(true)));
    let handed_off = rig.until(&run, |shown| shown["status"] == "queued").await;
    assert_eq!(
        (&handed_off["flags"]["paused"], &handed_off["crashes"]),
        (&json!(true), &json!(0))
    );
    let committed = handed_off["progress"]["committed"].clone();

    // Again: no change. Days pass, and nothing happens to it.
    let before = kinds(&rig, &run).await;
    assert_eq!(posted(&rig, &format!("{RUNS}/{run}/pause"), json!({})).await.0, 200);
    tokio::time::sleep(Duration::from_secs(3 * 24 * 3600)).await;
    let still = rig.show(&run).await;
    assert_eq!(
        (&still["status"], &still["progress"]["committed"]),
        (&json!("queued"), &committed)
    );
    assert_eq!(kinds(&rig, &run).await, before);

    let (status, resumed) = posted(&rig, &format!("{RUNS}/{run}/resume"), json!({})).await;
    assert_eq!((status, &resumed["flags"]["paused"]), (200, &json!(false)));
    let ended = rig.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["progress"]["committed"]),
        (&json!("completed"), &json!(6))
    );
    let kinds = kinds(&rig, &run).await;
    let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    assert_eq!(
        (count("run.paused"), count("run.resumed"), count("auto_continue")),
        (1, 1, 1),
        "{kinds:?}"
    );
    // Too late for both.
    for verb in ["pause", "resume"] {
        let answer = rig.post(&format!("{RUNS}/{run}/{verb}"), &json!({})).await;
        assert_eq!(
            (answer.problem(409), &answer.json()["refusal"]),
            ("run_conflict".to_owned(), &json!("ended"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_that_nobody_resumes_ends_at_its_end() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    posted(&rig, &format!("{RUNS}/{run}/pause"), json!({})).await;
    tokio::time::sleep(Duration::from_secs(7 * 24 * 3600 + 1)).await;
    let ended = rig.show(&run).await;
    assert_eq!(
        (&ended["status"], &ended["reason"]),
        (&json!("incomplete"), &json!("time_limit"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_inline_run_that_is_resumed_is_carried_by_the_next_pass() {
    let rig = Rig::inline();
    let started = rig.post(RUNS, &json!({"input": waits(5, 11_000)})).await.json();
    let run = started["runId"].as_str().unwrap();
    posted(&rig, &format!("{RUNS}/{run}/pause"), json!({})).await;
    let refused = rig.post(&format!("{RUNS}/{run}/continue"), &json!({})).await;
    assert_eq!(
        (refused.problem(409), &refused.json()["refusal"]),
        ("run_conflict".to_owned(), &json!("paused"))
    );
    posted(&rig, &format!("{RUNS}/{run}/resume"), json!({})).await;
    let swept = rig.call(crate::support::internal("/_sweep", "", None)).await.json();
    assert_eq!(swept["carried"], 1);
    assert_eq!(rig.show(run).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_before_its_request_is_born_cancelled() {
    let rig = Rig::new();
    let stop = "/api/v1/turns/import%2F7/stop";
    for _ in 0..2 {
        assert_eq!(
            posted(&rig, stop, json!({})).await,
            (200, json!({"turnId": "import/7", "run": null}))
        );
    }
    let request = json!({"input": notes(3), "turnId": "import/7", "threadId": "t"});
    let (status, started) = posted(&rig, RUNS, request.clone()).await;
    assert_eq!((status, &started["status"]), (202, &json!("cancelled")));
    let run = started["runId"].as_str().unwrap();
    assert_eq!(
        kinds(&rig, run).await,
        ["run.accepted", "stop.requested", "run.cancelled"]
    );
    let shown = rig.show(run).await;
    assert_eq!((&shown["reason"], &shown["chunk"]), (&json!("stopped"), &json!(0)));
    // Nothing was dispatched, its thread is free, and the same request finds the same run.
    assert_eq!(rig.sent().len(), 0);
    let again = posted(&rig, RUNS, request).await;
    assert_eq!(
        (again.0, &again.1["runId"], &again.1["repeated"]),
        (200, &started["runId"], &json!(true))
    );
    let other = posted(&rig, RUNS, json!({"input": notes(1), "threadId": "t"})).await;
    assert_eq!(other.0, 202);
    rig.ended(other.1["runId"].as_str().unwrap()).await;
    // The stop counts for its turn, and its owner, alone.
    let stranger = rig
        .post_with(
            RUNS,
            &[("x-owner", "other")],
            &json!({"input": notes(1), "turnId": "import/7"}),
        )
        .await;
    assert_eq!(stranger.json()["status"], "queued");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_became_a_run_is_stopped_as_that_run() {
    let rig = Rig::new();
    let (_, started) = posted(&rig, RUNS, json!({"input": slow(30_000), "turnId": "k"})).await;
    let run = started["runId"].as_str().unwrap();
    rig.until(run, |shown| shown["status"] == "running").await;
    let (status, stopped) = posted(&rig, "/api/v1/turns/k/stop", json!({})).await;
    assert_eq!(
        (status, &stopped["run"]["runId"], &stopped["run"]["flags"]["stopping"]),
        (202, &json!(run), &json!(true))
    );
    assert_eq!(rig.ended(run).await["status"], "cancelled");
    assert_eq!(posted(&rig, "/api/v1/turns/k/stop?force=true", json!({})).await.0, 200);
    assert_eq!(
        rig.post("/api/v1/turns/%00/stop", &json!({})).await.status,
        200,
        "any text is a key"
    );
    assert_eq!(
        rig.post("/api/v1/turns/%FF/stop", &json!({})).await.problem(400),
        "bad_key"
    );
    let long = "x".repeat(300);
    assert_eq!(
        rig.post(&format!("/api/v1/turns/{long}/stop"), &json!({}))
            .await
            .problem(400),
        "bad_key"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_is_free_again_after_a_day() {
    let rig = Rig::new();
    posted(&rig, "/api/v1/turns/k/stop", json!({})).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600 + 1)).await;
    let (_, started) = posted(&rig, RUNS, json!({"input": notes(1), "turnId": "k"})).await;
    assert_eq!(started["status"], "queued");
}

fn mixed() -> Value {
    let step = |key: &str, tool: &str| json!({"key": key, "tool": tool, "input": 1});
    json!({"steps": [step("a", "note"), step("b/1", "fail"), step("c", "note"), step("d", "fail")]})
}

#[tokio::test(start_paused = true)]
async fn what_remains_is_listed_with_why_in_pages() {
    let rig = Rig::new();
    let (run, _) = rig.finished(mixed()).await;
    let remainder = rig.get(&format!("{RUNS}/{run}/remainder")).await.json();
    assert_eq!((&remainder["remaining"], &remainder["next"]), (&json!(2), &json!(null)));
    let first = &remainder["steps"][0];
    assert_eq!(
        (&first["key"], &first["state"], &first["attempt"]),
        (&json!("b%2F1"), &json!("failed"), &json!(1))
    );
    assert_eq!(first["error"]["kind"], "broken");

    let page = rig.get(&format!("{RUNS}/{run}/remainder?limit=1")).await.json();
    let next = page["next"].as_str().unwrap().replace('%', "%25");
    let rest = rig
        .get(&format!("{RUNS}/{run}/remainder?limit=1&after={next}"))
        .await
        .json();
    assert_eq!((&rest["steps"][0]["key"], &rest["next"]), (&json!("d"), &json!(null)));
    assert_eq!(
        rig.get(&format!("{RUNS}/{run}/remainder?after=x")).await.problem(400),
        "bad_cursor"
    );
    for limit in ["0", "10001", "x"] {
        let answer = rig.get(&format!("{RUNS}/{run}/remainder?limit={limit}")).await;
        assert_eq!(answer.problem(400), "bad_request");
    }
    // Of one that lives: what remains by now.
    let live = rig.start(waits(3, 10_000)).await;
    rig.until(&live, |shown| shown["progress"]["committed"] == 1).await;
    let remainder = rig.get(&format!("{RUNS}/{live}/remainder")).await.json();
    let states: Vec<_> = remainder["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["state"])
        .collect();
    assert_eq!(states, [&json!("interrupted"), &json!("not_started")]);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_cannot_do_in_part_is_not_retried() {
    let rig = Rig::new();
    let (run, _) = rig.finished(mixed()).await;
    let answer = rig.post(&format!("{RUNS}/{run}/retry"), &json!({})).await;
    assert_eq!(answer.problem(409), "not_retryable");
    let (done, _) = rig.finished(notes(1)).await;
    let answer = rig.post(&format!("{RUNS}/{done}/retry"), &json!({})).await;
    assert_eq!(answer.problem(409), "nothing_to_retry");
    rig.deliver(Deliver::Hold);
    let live = rig.start(notes(1)).await;
    let answer = rig.post_with(&format!("{RUNS}/{live}/retry"), &[SSE], &json!({})).await;
    assert_eq!(
        (answer.problem(409), &answer.json()["refusal"]),
        ("run_conflict".to_owned(), &json!("live"))
    );
    let bad = rig
        .post(&format!("{RUNS}/{run}/retry"), &json!({"includeAll": true}))
        .await;
    assert_eq!(bad.problem(400), "bad_request");
}
