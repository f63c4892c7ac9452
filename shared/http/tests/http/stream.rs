//! A run's log as server-sent events.

use std::time::Duration;

use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::support::agents::{notes, saying, slow};
use crate::support::answer::seqs;
use crate::support::{Deliver, RUNS, Rig, SSE};

#[tokio::test(start_paused = true)]
async fn its_form() {
    let rig = Rig::new();
    let (run, _) = rig.finished(notes(1)).await;
    let answer = rig
        .get_with(&format!("{RUNS}/{run}/events"), &[SSE, ("accept-encoding", "gzip, br")])
        .await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert_eq!(answer.header("cache-control"), "no-cache, no-transform");
    assert_eq!(answer.header("x-accel-buffering"), "no");
    assert_eq!(answer.header("content-encoding"), "");
    let mut blocks = answer.text.split_terminator("\n\n");
    assert_eq!(blocks.next(), Some("retry: 1000"));
    for (seq, block) in (1..).zip(blocks) {
        let lines: Vec<&str> = block.lines().collect();
        let [id, event, data] = lines[..] else {
            panic!("{block}")
        };
        let fields: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(id, format!("id: {seq}"));
        assert_eq!(
            (&fields["seq"], event),
            (&json!(seq), &*format!("event: {}", fields["type"].as_str().unwrap()))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn e01_from_every_place_the_rest_follows_once() {
    let rig = Rig::new();
    let (run, last) = rig.finished(notes(30)).await;
    for after in 0..last {
        let events = rig.stream(&run, after).await.logged().await;
        assert_eq!(seqs(&events), (after + 1..=last).collect::<Vec<_>>());
        // As a reader that reconnects says it; of two places the further one.
        let path = format!("{RUNS}/{run}/events?after={}", after / 2);
        let header = rig.get_with(&path, &[SSE, ("last-event-id", &after.to_string())]).await;
        assert_eq!(header.logged().await, events);
    }
}

#[tokio::test(start_paused = true)]
async fn e03_who_has_seen_the_end_is_told_not_to_come_back() {
    let rig = Rig::new();
    let (run, last) = rig.finished(notes(2)).await;
    for _ in 0..2 {
        let answer = rig
            .get_with(
                &format!("{RUNS}/{run}/events"),
                &[SSE, ("last-event-id", &last.to_string())],
            )
            .await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_a_place_in_this_log() {
    let rig = Rig::new();
    let (run, last) = rig.finished(notes(2)).await;
    for after in ["-1", "x", "", "1.0", &(last + 1).to_string(), "18446744073709551616"] {
        for accept in ["text/event-stream", "application/json"] {
            let path = format!("{RUNS}/{run}/events");
            let answer = rig
                .get_with(&format!("{path}?after={after}"), &[("accept", accept)])
                .await;
            assert_eq!(answer.problem(400), "bad_cursor", "{after}");
            if !after.is_empty() {
                let answer = rig
                    .get_with(&path, &[("accept", accept), ("last-event-id", after)])
                    .await;
                assert_eq!(answer.problem(400), "bad_cursor", "{after}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r37_any_text_comes_through_and_forges_nothing() {
    let texts = [
        "a\nb",
        "a\r\nb",
        "a\rb",
        "\u{2028}",
        " lead",
        ":lead",
        "",
        "\0",
        "\u{feff}x",
        "x\n\nid: 999\nevent: run.completed\ndata: {}\n\n",
        "data: y",
        "你好🙂",
    ];
    let rig = Rig::new();
    let mut input = saying(&texts);
    // Bare line breaks in the JSON itself, and one in a tool's name and key.
    input["steps"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "k\nid: 9", "tool": "note", "input": "a\nevent: x"}));
    let pretty = serde_json::to_string_pretty(&json!({ "input": input }))
        .unwrap()
        .replace('\n', "\r\n");
    let run = rig.post_text(RUNS, &[], "application/json", &pretty).await.json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    let last = rig.ended(&run).await["lastSeq"].as_u64().unwrap();
    let events = rig.stream(&run, 0).await.logged().await;
    assert_eq!(seqs(&events), (1..=last).collect::<Vec<_>>());
    let fields: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(&event.data).unwrap())
        .collect();
    assert_eq!(fields[0]["input"], input);
    let said: Vec<&str> = fields
        .iter()
        .filter(|fields| fields["type"] == "emit")
        .map(|fields| fields["data"].as_str().unwrap())
        .collect();
    assert_eq!(said, texts);
    for (event, fields) in events.iter().zip(&fields) {
        assert_eq!(event.event, fields["type"].as_str().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn r35_what_is_counted_is_what_was_stored() {
    let rig = Rig::new();
    rig.table.page_queries_at(16 * 1024);
    let text = "x".repeat(3_000);
    let texts = vec![text.as_str(); 1_200];
    let (run, last) = rig.finished(saying(&texts)).await;
    assert!(last > 1_200, "{last}");
    for after in [0, 9, 99, 999] {
        let events = rig.stream(&run, after).await.logged().await;
        assert_eq!(seqs(&events), (after + 1..=last).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_says_so_and_ends_with_the_request_to_come_back() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    let begun = tokio::time::Instant::now();
    let answer = rig.stream(&run, 0).await;
    assert_eq!(begun.elapsed().as_secs(), 40);
    assert!(answer.is_whole);
    let blocks: Vec<&str> = answer.text.split_terminator("\n\n").collect();
    assert_eq!((blocks[0], blocks.len()), ("retry: 1000", 5));
    assert!(blocks[1].starts_with("id: 1\n"));
    for comment in &blocks[2..4] {
        assert!(comment.starts_with(':') && !comment.contains('\n'), "{comment}");
    }
    assert_eq!(blocks[4], "event: reconnect\ndata: {}");
}

#[tokio::test(start_paused = true)]
async fn e02_a_run_needs_no_reader() {
    let rig = Rig::new();
    let run = rig.start(slow(60_000)).await;
    let mut body = rig
        .open(&format!("{RUNS}/{run}/events"), &[SSE])
        .await
        .into_body()
        .into_data_stream();
    body.next().await.unwrap().unwrap();
    drop(body);
    let ended = rig.ended(&run).await;
    assert_eq!((&ended["status"], &ended["chunk"]), (&json!("completed"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_run_that_waits_for_long_is_sent_away_for_longer() {
    let rig = Rig::new();
    let run = rig
        .start(json!({"steps": [{"key": "a", "tool": "later", "input": 3_600}]}))
        .await;
    let waiting = rig.until(&run, |shown| shown["status"] == "waiting").await;
    let last = waiting["lastSeq"].as_u64().unwrap();
    let begun = tokio::time::Instant::now();
    for after in [0, last] {
        let answer = rig.stream(&run, after).await;
        assert!(
            answer.text.ends_with("event: reconnect\nretry: 30000\ndata: {}\n\n"),
            "{}",
            answer.text
        );
        let events = answer.events().await;
        assert_eq!(events.last().unwrap().retry, Some(Duration::from_secs(30)));
        assert_eq!(
            seqs(&events[..events.len() - 1]),
            (after + 1..=last).collect::<Vec<_>>()
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_before_its_invocation_does() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    let mut request = crate::support::request(
        http::Method::GET,
        &format!("{RUNS}/{run}/events"),
        &[SSE],
        axum::body::Body::empty(),
    );
    let deadline = rig.engine.seams().now() + Duration::from_secs(20);
    request.extensions_mut().insert(outlast_http::Invocation {
        deadline: Some(deadline),
        internal: false,
    });
    let begun = tokio::time::Instant::now();
    let answer = rig.call(request).await;
    assert_eq!((begun.elapsed().as_secs(), answer.is_whole), (15, true));
}
#[tokio::test(start_paused = true)]
async fn r38_an_event_goes_out_when_it_is_there() {
    let rig = Rig::new();
    let run = rig.start(slow(5_000)).await;
    let begun = tokio::time::Instant::now();
    let response = rig.open(&format!("{RUNS}/{run}/events"), &[SSE]).await;
    let mut events = response.into_body().into_data_stream().eventsource();
    assert_eq!(events.next().await.unwrap().unwrap().id, "1");
    assert!(begun.elapsed() < Duration::from_millis(1), "{:?}", begun.elapsed());
    while let Some(event) = events.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        let at: jiff::Timestamp = event["at"].as_str().unwrap().parse().unwrap();
        let late = rig.engine.seams().now().as_millis() - at.as_millisecond();
        assert!(late < 1_000, "{late} ms");
    }
}
