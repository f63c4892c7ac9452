//! Runs without anywhere to dispatch them to: their clients' requests carry them.

use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt as _;
use outlast_store::memory::{Effect, Fault, gate};
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::agents::{notes, slow, waits};
use crate::support::answer::{Answer, seqs};
use crate::support::{Deliver, RUNS, Rig, SSE, internal, request};

/// The soft cap of a foreground chunk, and what steps in hand get behind it.
const CAP: Duration = Duration::from_secs(40);
const GRACE: Duration = Duration::from_secs(3);

async fn continued(rig: &Rig, run: &str, after: u64) -> Answer {
    let path = format!("{RUNS}/{run}/continue?after={after}");
    rig.call(request(Method::POST, &path, &[SSE], Body::empty())).await
}

async fn swept(rig: &Rig) -> serde_json::Value {
    rig.call(internal("/_sweep", "", None)).await.json()
}

#[tokio::test(start_paused = true)]
async fn a_stream_carries_its_run_and_ends_with_each_chunk() {
    let rig = Rig::inline();
    let mut answer = rig.post_with(RUNS, &[SSE], &json!({"input": waits(10, 11_000)})).await;
    let run = answer.header("outlast-run-id").to_owned();
    let (mut seen, mut chunks) = (Vec::new(), 1);
    loop {
        let events = answer.events().await;
        let mut logged = answer.logged().await;
        seen.append(&mut logged);
        let last = &seen.last().expect("events").event;
        if last == "run.completed" {
            break;
        }
        // What ends a stream that isn't the run's end: the hand-off, and the request to come back.
        assert_eq!(
            (last.as_str(), events.last().unwrap().event.as_str()),
            ("auto_continue", "reconnect")
        );
        let shown = rig.show(&run).await;
        assert_eq!(
            (&shown["status"], &shown["executor"]),
            (&json!("queued"), &json!("inline"))
        );
        answer = continued(&rig, &run, seen.len() as u64).await;
        chunks += 1;
    }
    assert_eq!(seqs(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    let shown = rig.show(&run).await;
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(chunks), &json!(0)));
    assert_eq!(shown["progress"]["committed"], 10);
    assert!((3..=5).contains(&chunks), "{chunks}");
    // All of it in these requests: nothing was dispatched.
    assert_eq!(rig.sent().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn other_answers_are_held_until_the_chunk_has_closed() {
    let rig = Rig::inline();
    let begun = tokio::time::Instant::now();
    let started = rig.post(RUNS, &json!({"input": waits(5, 11_000)})).await;
    let took = begun.elapsed();
    assert!(took >= CAP && took <= CAP + GRACE, "{took:?}");
    assert_eq!(
        (started.status.as_u16(), &started.json()["status"]),
        (202, &json!("queued"))
    );
    let path = started.json()["links"]["continue"].as_str().expect("a link").to_owned();
    let more = rig.post(&path, &json!({})).await;
    assert_eq!(
        (more.status.as_u16(), &more.json()["status"]),
        (200, &json!("completed")),
        "{}",
        more.text
    );
    // Once more: there is nothing to carry, and its end is told again.
    let again = rig.post(&path, &json!({})).await;
    assert_eq!(
        (again.status, again.json()["lastSeq"].clone()),
        (more.status, more.json()["lastSeq"].clone())
    );

    let short = rig.post(RUNS, &json!({"input": notes(3)})).await;
    assert_eq!(
        (short.status.as_u16(), &short.json()["status"]),
        (202, &json!("completed"))
    );
}

#[tokio::test(start_paused = true)]
async fn e02_a_client_that_leaves_stops_nothing_and_the_sweep_takes_its_place() {
    let rig = Rig::inline();
    let body = json!({"input": waits(10, 11_000)}).to_string();
    let headers = [SSE, ("content-type", "application/json")];
    let response = rig
        .router
        .clone()
        .oneshot(request(Method::POST, RUNS, &headers, Body::from(body)))
        .await
        .unwrap();
    let run = response.headers()["outlast-run-id"].to_str().unwrap().to_owned();
    let mut body = response.into_body();
    body.frame().await.expect("a frame").expect("data");
    drop(body);
    // Its chunk goes on to its cap all the same.
    let handed_off = rig
        .until(&run, |shown| shown["status"] == "queued" && shown["chunk"] == 1)
        .await;
    assert_eq!(handed_off["crashes"], 0);
    assert!(handed_off["progress"]["committed"].as_u64() >= Some(3));

    // Until a minute has passed it is its client's.
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(swept(&rig).await["carried"], 0);
    let mut passes = 0;
    while rig.show(&run).await["outcome"].is_null() {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let swept = swept(&rig).await;
        assert_eq!((&swept["carried"], &swept["failed"]), (&json!(1), &json!(0)));
        passes += 1;
    }
    let ended = rig.show(&run).await;
    assert_eq!(
        (&ended["status"], &ended["progress"]["committed"]),
        (&json!("completed"), &json!(10))
    );
    assert_eq!((&ended["chunk"], &ended["crashes"]), (&json!(passes + 1), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_sweep_carries_one_chunk_of_whoever_has_waited_longest() {
    let rig = Rig::inline();
    let mut runs = Vec::new();
    for _ in 0..4 {
        let started = rig.post(RUNS, &json!({"input": waits(8, 11_000)})).await;
        runs.push(started.json()["runId"].as_str().unwrap().to_owned());
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    // Two passes each, and nobody twice before everybody once.
    for pass in 0..8 {
        assert_eq!(swept(&rig).await["carried"], 1);
        let mut chunks = Vec::new();
        for run in &runs {
            chunks.push(rig.show(run).await["chunk"].as_u64().unwrap());
        }
        let carried = chunks.iter().sum::<u64>() - 4;
        assert_eq!(carried, pass + 1, "{chunks:?}");
        let (least, most) = (chunks.iter().min().unwrap(), chunks.iter().max().unwrap());
        assert!(most - least <= 1, "{chunks:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_at_a_time_carries_a_run() {
    let rig = Rig::inline();
    let started = rig.post(RUNS, &json!({"input": waits(8, 11_000)})).await;
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let (one, other) = futures::join!(continued(&rig, &run, 0), continued(&rig, &run, 0));
    let (carried, refused) = if one.status == 200 { (one, other) } else { (other, one) };
    assert_eq!(refused.problem(409), "run_conflict");
    assert_eq!(refused.json()["refusal"], "held");
    assert_eq!(seqs(&carried.logged().await)[0], 1);
    let shown = rig.show(&run).await;
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(2), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_again_carries_what_the_first_left_behind() {
    let rig = Rig::inline();
    let keyed = [("idempotency-key", "k")];
    let body = json!({"input": waits(5, 11_000)});
    let first = rig.post_with(RUNS, &keyed, &body).await;
    assert_eq!(first.json()["status"], "queued");
    let again = rig.post_with(RUNS, &keyed, &body).await;
    assert_eq!(
        (again.status.as_u16(), &again.json()["status"]),
        (200, &json!("completed"))
    );
    assert_eq!(
        (&again.json()["runId"], &again.json()["repeated"]),
        (&first.json()["runId"], &json!(true))
    );
    // Over: it is answered at once, and nothing is carried.
    let last_seq = |shown: serde_json::Value| shown["lastSeq"].clone();
    let run = first.json()["runId"].as_str().unwrap().to_owned();
    let before = last_seq(rig.show(&run).await);
    rig.post_with(RUNS, &keyed, &body).await;
    assert_eq!(last_seq(rig.show(&run).await), before);
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_of_an_inline_run_can_continue_it() {
    let rig = Rig::inline();
    let started = rig.post(RUNS, &json!({"input": waits(5, 11_000)})).await;
    let path = format!("{RUNS}/{}/continue", started.json()["runId"].as_str().unwrap());
    let other = rig.post_with(&path, &[("x-owner", "other")], &json!({})).await;
    assert_eq!(other.problem(404), "run_not_found");
    let nobody = rig.post_with(&path, &[("x-owner", "nobody")], &json!({})).await;
    assert_eq!(nobody.problem(401), "unauthorized");
    assert_eq!(
        rig.post(&format!("{path}?after=x"), &json!({})).await.problem(400),
        "bad_cursor"
    );

    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    let path = format!("{RUNS}/{run}/continue");
    assert_eq!(rig.post(&path, &json!({})).await.problem(409), "not_inline");
    assert!(rig.post(RUNS, &json!({"input": notes(1)})).await.json()["links"]["continue"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_cursor_past_the_end_is_judged_before_a_chunk_begins() {
    let rig = Rig::inline();
    let started = rig.post(RUNS, &json!({"input": waits(5, 11_000)})).await;
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let before = rig.show(&run).await;
    let begun = tokio::time::Instant::now();
    let path = format!("{RUNS}/{run}/continue?after=9999");
    for headers in [&[SSE][..], &[]] {
        let answer = rig.call(request(Method::POST, &path, headers, Body::empty())).await;
        assert_eq!(answer.problem(400), "bad_cursor");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let after = rig.show(&run).await;
    assert_eq!(
        (&after["chunk"], &after["lastSeq"]),
        (&before["chunk"], &before["lastSeq"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_cursor_past_the_end_keeps_no_new_run_from_its_stream() {
    let rig = Rig::inline();
    // A client that thinks that it comes back, to a run whose key was forgotten meanwhile.
    let headers = [SSE, ("last-event-id", "9999"), ("idempotency-key", "k")];
    let input = json!({"input": notes(1)});
    let answer = rig.post_with(RUNS, &headers, &input).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(seqs(&answer.logged().await)[0], 1);
    // The same again is no new run: now there is a log that the cursor is not in.
    let again = rig.post_with(RUNS, &headers, &input).await;
    assert_eq!(again.problem(400), "bad_cursor");
}

#[tokio::test(start_paused = true)]
async fn a_chunk_has_the_time_that_its_request_has_left() {
    let rig = Rig::inline();
    // Ten seconds go by before the run is stored.
    let (gate, turnstile) = gate();
    rig.table
        .fault(Fault::new(Effect::HoldReply(turnstile), |request| request.is_write()));
    let begun = tokio::time::Instant::now();
    let body = json!({"input": waits(20, 11_000)});
    let (started, ()) = futures::join!(rig.post(RUNS, &body), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        drop(gate);
    });
    assert_eq!(started.json()["status"], "queued");
    let took = begun.elapsed();
    assert!(took >= CAP && took <= CAP + GRACE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_is_carried_when_its_time_has_come() {
    let rig = Rig::inline();
    let later = json!({"steps": [{"key": "later", "tool": "later", "input": 200}]});
    let answer = rig.post_with(RUNS, &[SSE], &json!({"input": later})).await;
    let run = answer.header("outlast-run-id").to_owned();
    let events = answer.logged().await;
    assert_eq!(events.last().unwrap().event, "run.parked");
    let early = continued(&rig, &run, 0).await;
    assert_eq!(
        (early.problem(409), &early.json()["refusal"]),
        ("run_conflict".to_owned(), &json!("not_ready"))
    );
    assert_eq!(swept(&rig).await["carried"], 0);
    tokio::time::sleep(Duration::from_secs(201)).await;
    // Nobody's client sat out the wait: it isn't left for another minute.
    assert_eq!(swept(&rig).await["carried"], 1);
    tokio::time::sleep(Duration::from_secs(201)).await;
    let answer = continued(&rig, &run, events.len() as u64).await;
    assert_eq!(answer.logged().await.last().unwrap().event, "run.parked");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_the_end_of_the_chunk() {
    let rig = Rig::inline();
    let answer = rig.post_with(RUNS, &[SSE], &json!({"input": notes(2)})).await;
    assert_eq!(answer.logged().await.last().unwrap().event, "run.completed");
    let run = answer.header("outlast-run-id").to_owned();
    // Read without waiting: no lease, no holder, no beat is left behind the answer.
    let shown = rig.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["holder"]),
        (&json!("completed"), &json!(null))
    );
    // Ended: the rest of its log, and then nothing.
    let rest = continued(&rig, &run, 3).await;
    assert_eq!(seqs(&rest.logged().await)[0], 4);
    let last = shown["lastSeq"].as_u64().unwrap();
    assert_eq!(continued(&rig, &run, last).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn r14_a_run_that_gets_nowhere_is_ended_however_often_it_is_continued() {
    let rig = Rig::inline();
    let started = rig.post(RUNS, &json!({"input": slow(100_000)})).await;
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let second = rig.post(&format!("{RUNS}/{run}/continue"), &json!({})).await;
    assert_eq!(second.status, 202);
    let third = rig.post(&format!("{RUNS}/{run}/continue"), &json!({})).await;
    assert_eq!(
        (third.status.as_u16(), &third.json()["reason"]),
        (200, &json!("no_progress"))
    );
    assert_eq!(third.json()["chunk"], 3);
}

#[tokio::test(start_paused = true)]
async fn r27_a_chunk_with_room_for_no_more_steps_hands_off_at_once() {
    let rig = Rig::inline();
    let step = |n: u32| json!({"key": format!("s{n}"), "tool": "once", "input": 20_000});
    let plan = json!({"steps": (1..=8).map(step).collect::<Vec<_>>()});
    let begun = tokio::time::Instant::now();
    let started = rig.post(RUNS, &json!({"input": plan})).await;
    // Of 43 s a step may take 20: after five of 5 s each there is no time for another, and nothing to wait for.
    assert_eq!(begun.elapsed().as_secs(), 25);
    let path = started.json()["links"]["continue"].as_str().expect("a link").to_owned();
    let done = rig.post(&path, &json!({})).await.json();
    assert_eq!(
        (&done["status"], &done["progress"]["committed"]),
        (&json!("completed"), &json!(8))
    );
    assert_eq!((&done["chunk"], begun.elapsed().as_secs()), (&json!(2), 40));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fits_into_no_chunk_here_is_refused_and_not_waited_for() {
    let rig = Rig::inline();
    for (most, status) in [(41_000, "completed"), (41_001, "failed"), (43_000, "failed")] {
        let plan = json!({"steps": [{"key": "s", "tool": "once", "input": most}]});
        let done = rig.post(RUNS, &json!({"input": plan})).await.json();
        assert_eq!(done["status"], status, "{most}");
        let shown = rig.show(done["runId"].as_str().unwrap()).await;
        if status == "failed" {
            assert_eq!(shown["outcome"]["error"]["kind"], "step_too_long", "{shown}");
        }
    }
}
