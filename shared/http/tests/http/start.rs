//! `POST /api/v1/runs`.

use outlast_core::limits::{MAX_BODY_BYTES, TURN_RETENTION};
use outlast_store::memory::{Effect, Fault, Kind, gate};
use serde_json::json;

use crate::support::agents::{notes, slow};
use crate::support::answer::seqs;
use crate::support::{Deliver, RUNS, Rig};

#[tokio::test(start_paused = true)]
async fn a_request_becomes_a_run() {
    let rig = Rig::new();
    let started = rig.post(RUNS, &json!({"input": notes(3), "threadId": "t 1"})).await;
    assert_eq!(started.status, 202);
    let body = started.json();
    let run = body["runId"].as_str().unwrap();
    let here = format!("{RUNS}/{run}");
    assert_eq!(
        body,
        json!({"runId": run, "status": "queued", "threadId": "t 1", "repeated": false,
               "links": {"self": here, "events": format!("{here}/events"), "stop": format!("{here}/stop")}})
    );
    assert_eq!(
        (started.header("location"), started.header("outlast-run-id")),
        (&*here, run)
    );
    let ended = rig.ended(run).await;
    assert_eq!(
        (&ended["status"], &ended["progress"]["committed"]),
        (&json!("completed"), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_events_gets_the_runs_stream() {
    let rig = Rig::new();
    let accept = [("accept", "text/event-stream")];
    let answer = rig.post_with(RUNS, &accept, &json!({"input": notes(2)})).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text.starts_with("retry: 1000\n\n"), "{}", answer.text);
    let events = answer.events().await;
    let kinds: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("run.accepted", "run.completed"));
    assert_eq!(seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    let run = answer.header("outlast-run-id");
    assert_eq!(answer.header("location"), format!("{RUNS}/{run}"));
    assert_eq!(rig.show(run).await["status"], "completed");

    // Sent again with its key, the same stream from where its reader was.
    let keyed = [("accept", "text/event-stream"), ("idempotency-key", "k")];
    let first = rig.post_with(RUNS, &keyed, &json!({"input": notes(2)})).await;
    let resumed = [keyed[0], keyed[1], ("last-event-id", "3")];
    let again = rig.post_with(RUNS, &resumed, &json!({"input": notes(2)})).await;
    assert_eq!(again.header("outlast-run-id"), first.header("outlast-run-id"));
    assert_eq!(seqs(&again.events().await)[0], 4);
}

#[tokio::test(start_paused = true)]
async fn an_input_is_kept_as_it_came() {
    let rig = Rig::new();
    let input = r#"{"steps": [ {"tool":"note","key":"k", "input":{"z":1.0,"a":12345678901234567890123}} ]}"#;
    let body = format!("\u{feff}{{\"input\":{input}}}");
    let started = rig.post_text(RUNS, &[], "application/json; charset=utf-8", &body).await;
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let events = rig.get(&format!("{RUNS}/{run}/events")).await;
    assert!(events.text.contains(&format!("\"input\":{input}")), "{}", events.text);
}

#[tokio::test]
async fn a_body_that_is_no_request_is_refused_by_name() {
    let rig = Rig::new();
    let check = async |body: &str, status: u16, code: &str, named: &str| {
        let answer = rig.post_text(RUNS, &[], "application/json", body).await;
        assert_eq!(answer.problem(status), code, "{body}");
        assert!(answer.text.contains(named), "{body}: {}", answer.text);
    };
    check("", 400, "malformed_json", "line 1").await;
    check("{", 400, "malformed_json", "line 1").await;
    check("{\"input\":{},\n\"agent\":}", 400, "malformed_json", "line 2 column 9").await;
    check("[]", 400, "bad_request", "column 2").await;
    check("{}", 400, "bad_request", "`input`").await;
    check(r#"{"input":{},"thread":"t"}"#, 400, "bad_request", "`thread`").await;
    check(r#"{"input":{},"owner":"me"}"#, 400, "bad_request", "`owner`").await;
    check(r#"{"input":{},"input":{}}"#, 400, "bad_request", "`input`").await;
    check(r#"{"input":{},"turnId":7}"#, 400, "bad_request", "string").await;
    check(r#"{"input":{},"agent":"nobody"}"#, 422, "unknown_agent", "nobody").await;
    check(r#"{"input":{},"threadId":""}"#, 400, "bad_key", "threadId").await;
    check(
        &format!(r#"{{"input":{{"steps":[]}},"turnId":"{}"}}"#, "x".repeat(257)),
        400,
        "bad_key",
        "turnId",
    )
    .await;
    check(
        r#"{"input":{"steps":[]},"endsAt":"soon"}"#,
        400,
        "bad_request",
        "endsAt",
    )
    .await;
    check(
        r#"{"input":{"steps":[]},"endsAt":"2020-01-01T00:00:00Z"}"#,
        422,
        "bad_end_time",
        "endsAt",
    )
    .await;
    check(
        r#"{"input":{"steps":[]},"endsAt":"2099-01-01T00:00:00Z"}"#,
        422,
        "bad_end_time",
        "endsAt",
    )
    .await;
    check(
        r#"{"input":{"steps":[{"key":"a","tool":"nope"}]}}"#,
        422,
        "unknown_tool",
        "/steps/0/tool",
    )
    .await;
    check(r#"{"input":7}"#, 400, "invalid_plan", "").await;
    check("{\"input\":\"\u{0}\"}", 400, "malformed_json", "").await;

    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = rig.post_text(RUNS, &[], media, "{}").await;
        assert_eq!(answer.problem(415), "unsupported_media_type");
    }
    let answer = rig
        .post_text(
            &format!("{RUNS}?threadId=t"),
            &[],
            "application/json",
            r#"{"input":{}}"#,
        )
        .await;
    assert_eq!(answer.problem(400), "bad_request");
    assert!(rig.table.keys().is_empty(), "nothing was stored");
}

#[tokio::test]
async fn bytes_that_are_no_text_and_bodies_beyond_the_limit() {
    let rig = Rig::new();
    let request = |body: Vec<u8>| {
        let request = http::Request::post(RUNS).header("content-type", "application/json");
        request.body(axum::body::Body::from(body)).unwrap()
    };
    let answer = rig.call(request(b"{\"input\":\"\xff\"}".to_vec())).await;
    assert_eq!(answer.problem(400), "malformed_json");
    let answer = rig.call(request(vec![b' '; MAX_BODY_BYTES + 1])).await;
    assert_eq!(answer.problem(413), "body_too_large");
    assert_eq!(answer.json()["limitBytes"], MAX_BODY_BYTES);
    // As much as is allowed is read.
    let answer = rig.call(request(vec![b' '; MAX_BODY_BYTES])).await;
    assert_eq!(answer.problem(400), "malformed_json");
}

#[tokio::test(start_paused = true)]
async fn r34_one_key_is_one_run() {
    let rig = Rig::new();
    let key = [("idempotency-key", "k-1")];
    let body = json!({"input": notes(2)});
    // The first has looked for the key, found nothing, and is about to write when the second comes and overtakes it.
    let (gate, turnstile) = gate();
    rig.table
        .fault(Fault::on(Kind::Transact, "turn#", Effect::HoldRequest(turnstile)));
    let (one, other) = futures::join!(rig.post_with(RUNS, &key, &body), async {
        gate.arrived().await;
        let other = rig.post_with(RUNS, &key, &body).await;
        gate.open();
        other
    });
    assert_eq!((one.status.as_u16(), other.status.as_u16()), (200, 202));
    assert_eq!(one.json()["runId"], other.json()["runId"]);
    let mut repeated =
        [one, other].map(|answer| (answer.status.as_u16(), answer.json()["repeated"].as_bool().unwrap()));
    repeated.sort();
    assert_eq!(repeated, [(200, true), (202, false)]);
    assert_eq!(rig.get(RUNS).await.json()["runs"].as_array().unwrap().len(), 1);

    // A key in quotes, or in the body, is the same key.
    let quoted = rig.post_with(RUNS, &[("idempotency-key", "\"k-1\"")], &body).await;
    assert_eq!(quoted.status, 200);
    let in_body = rig.post(RUNS, &json!({"input": notes(2), "turnId": "k-1"})).await;
    assert_eq!(
        (in_body.status.as_u16(), &in_body.json()["repeated"]),
        (200, &json!(true))
    );
    let both = rig
        .post_with(RUNS, &key, &json!({"input": notes(2), "turnId": "k-1"}))
        .await;
    assert_eq!(both.status, 200);

    let mismatch = rig.post_with(RUNS, &key, &json!({"input": notes(3)})).await;
    assert_eq!(mismatch.problem(422), "idempotency_mismatch");
    let two = rig
        .post_with(RUNS, &key, &json!({"input": notes(2), "turnId": "k-2"}))
        .await;
    assert_eq!(two.problem(400), "idempotency_key_conflict");
    let empty = rig.post_with(RUNS, &[("idempotency-key", "")], &body).await;
    assert_eq!(empty.problem(400), "bad_key");
    // Another owner's key is another key.
    let foreign = [("idempotency-key", "k-1"), ("x-owner", "someone-else")];
    assert_eq!(
        rig.post_with(RUNS, &foreign, &json!({"input": notes(3)})).await.status,
        202
    );
}

#[tokio::test(start_paused = true)]
async fn r34_a_key_outlives_a_reply_that_was_lost_and_a_run_that_died() {
    let rig = Rig::new();
    let key = [("idempotency-key", "k")];
    rig.table
        .fault(Fault::on(Kind::Transact, "turn#", Effect::LoseReply).times(3));
    let first = rig.post_with(RUNS, &key, &json!({"input": notes(2)})).await;
    assert_eq!(first.status, 202, "it found what it had written: {}", first.text);
    let run = first.json()["runId"].as_str().unwrap().to_owned();
    rig.ended(&run).await;
    let again = rig.post_with(RUNS, &key, &json!({"input": notes(2)})).await;
    assert_eq!(
        (&again.json()["runId"], &again.json()["status"]),
        (&json!(run), &json!("completed"))
    );

    // After a day the key is free.
    tokio::time::sleep(TURN_RETENTION).await;
    let another = rig.post_with(RUNS, &key, &json!({"input": notes(3)})).await;
    assert_eq!(
        (another.status.as_u16(), &another.json()["repeated"]),
        (202, &json!(false))
    );

    rig.table
        .fault(Fault::on(Kind::Transact, "turn#", Effect::LoseRequest).always());
    let key = [("idempotency-key", "k-2")];
    let away = rig.post_with(RUNS, &key, &json!({"input": notes(2)})).await;
    assert_eq!(away.problem(503), "store_unavailable");
    assert_eq!(away.header("retry-after"), "2");
    assert!(!away.text.contains("fault script"), "{}", away.text);
}

#[tokio::test(start_paused = true)]
async fn a_thread_has_one_live_run() {
    let rig = Rig::new();
    let body = json!({"input": slow(5_000), "threadId": "t"});
    let first = rig.post(RUNS, &body).await.json()["runId"].as_str().unwrap().to_owned();
    rig.until(&first, |shown| shown["status"] == "running").await;
    let busy = rig.post(RUNS, &body).await;
    assert_eq!(busy.problem(409), "thread_busy");
    let problem = busy.json();
    assert_eq!(
        (&problem["activeRunId"], &problem["waitsFor"]),
        (&json!(first), &json!("holder"))
    );
    assert_eq!(problem["error"]["details"]["activeRunId"], first);
    rig.ended(&first).await;
    assert_eq!(rig.post(RUNS, &body).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn what_names_no_agent_runs_the_plan() {
    let rig = Rig::new();
    let named = rig.post(RUNS, &json!({"agent": "other", "input": notes(1)})).await;
    let other = named.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(rig.show(&other).await["agent"], "other");
    let run = rig.start(notes(1)).await;
    assert_eq!(rig.show(&run).await["agent"], "plan");

    let agents = outlast_engine::Agents::default().with(crate::support::agents::Steps("other"));
    let rig = Rig::with(agents, |_| {});
    rig.deliver(Deliver::Hold);
    let answer = rig.post(RUNS, &json!({"input": notes(1)})).await;
    assert_eq!(answer.problem(400), "bad_request");
    assert_eq!(answer.json()["agents"], json!(["other"]));
}
