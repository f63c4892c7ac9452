//! Readers of the real functions' streams: who leaves, who can't take what is compressed, large events and damaged ones.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use outlast_core::limits::MAX_RUN_VALUE_BYTES;
use outlast_store::schema::TableNames;
use outlast_tests::lambda::deployment::{Deployment, Options};
use outlast_tests::log_rules::{count, has_ended};
use outlast_tests::reader;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

/// A run's stream from its beginning, as a browser would ask for it.
async fn stream(deployed: &Deployment, run: &str) -> reqwest::Response {
    let request = reqwest::Client::new()
        .get(format!("{}/api/v1/runs/{run}/events", deployed.url))
        .header("accept", "text/event-stream")
        .header("accept-encoding", "gzip, br");
    request.send().await.expect("a stream")
}

#[tokio::test]
async fn e02_a_client_that_leaves_at_its_third_event_stops_nothing() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(5, 300)).await;
    let mut events = stream(&deployed, &run).await.bytes_stream().eventsource();
    for _ in 0..3 {
        events.next().await.expect("more").expect("an event");
    }
    drop(events);
    // Nobody reads, and nobody asks.
    wait_until("its chunk is over", PATIENCE, async || {
        !deployed.lambda.events()[0].outcomes.is_empty()
    })
    .await;
    let shown = deployed.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["chunk"], &shown["progress"]["committed"]),
        (&json!("completed"), &json!(1), &json!(5)),
        "{shown}"
    );
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since_1970.as_millis()).expect("a near time")
}

#[tokio::test]
async fn r38_an_event_is_there_within_a_second_whatever_encodings_its_reader_takes() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(3, 1000)).await;
    let response = stream(&deployed, &run).await;
    assert_eq!(response.headers().get("content-encoding"), None);
    let cached = response.headers()["cache-control"].to_str().expect("text");
    assert!(cached.contains("no-transform"), "{cached}");
    let mut events = response.bytes_stream().eventsource();
    let mut commits = 0;
    while let Some(event) = events.next().await {
        let event: Value = serde_json::from_str(&event.expect("an event").data).expect("JSON");
        if event["type"] == "step.committed" {
            commits += 1;
            let at: jiff::Timestamp = event["at"].as_str().expect("a time").parse().expect("RFC 3339");
            let late = now_ms() - at.as_millisecond();
            assert!(late < 1000, "{late} ms");
        }
    }
    assert_eq!(commits, 3);
}

#[tokio::test]
async fn r30_large_inputs_results_and_values_come_back_as_they_were_live_and_later() {
    let deployed = Deployment::start(Options {
        foreground: "function-that-says-much",
        background: "function-that-says-much",
        ..Options::default()
    })
    .await;
    let whole = MAX_RUN_VALUE_BYTES - 2;
    for (text, input, step, value) in [
        ("x", 450 * 1024, 450 * 1024, 450 * 1024),
        ("🙂", 399_900, 399_900, 399_900),
        ("🙂", 3_000_000, 1_000_000, whole),
    ] {
        let times = |bytes: usize| bytes.div_ceil(text.len()).min(whole / text.len());
        let said =
            json!({ "text": text, "step": times(step), "value": times(value), "filling": text.repeat(times(input)) });
        let body = json!({ "agent": "much", "input": said });
        let (status, started) = deployed.post("/api/v1/runs", &body).await;
        assert_eq!(status, 202, "{started}");
        let run = started["runId"].as_str().unwrap();
        let mut live = reader::follow(deployed.url.clone(), run.to_owned());
        let live = reader::wait_for(&mut live, "the stream ends", |seen| seen.ended).await;
        live.assert_gapless();

        let log = deployed.log(run).await;
        assert!(log == live.events, "read later it is another");
        assert!(log[0]["input"] == said, "the input");
        let of = |kind: &str| log.iter().find(|event| event["type"] == kind).expect("it is there");
        assert!(
            of("step.committed")["result"] == text.repeat(times(step)),
            "the step's result"
        );
        let value = text.repeat(times(value));
        assert!(of("run.completed")["value"] == value, "the run's value");
        assert!(deployed.show(run).await["outcome"]["value"] == value, "as it is shown");
    }
}

#[tokio::test]
async fn r30_what_is_larger_than_its_limit_is_refused_and_ends_its_run_loudly() {
    let deployed = Deployment::start(Options {
        foreground: "function-that-says-much",
        background: "function-that-says-much",
        ..Options::default()
    })
    .await;
    let start = async |input: Value| {
        let body = json!({ "agent": "much", "input": input });
        deployed.post("/api/v1/runs", &body).await
    };
    let (status, problem) = start(json!({ "text": "x".repeat(MAX_RUN_VALUE_BYTES), "step": 0 })).await;
    assert_eq!(status, 413, "{problem}");
    let step = 1024 * 1024 + 1;
    let value = MAX_RUN_VALUE_BYTES + 1;
    for much in [
        json!({ "step": step }),
        json!({ "step": 0, "value": value }),
        json!({ "step": 0, "error": 500_000 }),
    ] {
        let mut input = much.clone();
        input["text"] = "x".into();
        let (status, started) = start(input).await;
        assert_eq!(status, 202, "{started}");
        let run = started["runId"].as_str().unwrap();
        deployed.logged(run, "the run ends", has_ended).await;
        let shown = deployed.show(run).await;
        assert_eq!(
            (&shown["status"], &shown["crashes"]),
            (&json!("failed"), &json!(0)),
            "{much}: {shown}"
        );
        let kind = shown["outcome"]["error"]["kind"].as_str().expect("a kind");
        assert!(kind.ends_with("too_large"), "{much}: {shown}");
    }
}

#[tokio::test]
async fn e17_a_damaged_page_stands_for_itself_and_the_end_is_still_delivered() {
    let deployed = Deployment::start(Options::default()).await;
    let client = deployed.database.client();
    for damaged in ["the fourth", "the last"] {
        let run = deployed.start_run(&naps(5, 10)).await;
        let log = deployed.logged(&run, "the run ends", has_ended).await;
        let pages = client
            .query()
            .table_name(TableNames::default().events)
            .key_condition_expression("run_id = :run")
            .expression_attribute_values(":run", AttributeValue::S(run.clone()));
        let pages = pages.send().await.expect("pages").items.expect("items");
        let page = if damaged == "the last" {
            pages.last()
        } else {
            pages.get(3)
        };
        let page = page.expect("a page").clone();
        let (first, last) = (number(&page, "first_seq"), number(&page, "last_seq"));
        let damage = client
            .update_item()
            .table_name(TableNames::default().events)
            .key("run_id", AttributeValue::S(run.clone()))
            .key("first_seq", page["first_seq"].clone())
            .update_expression("REMOVE events");
        damage.send().await.expect("damaged");

        let mut events = Vec::new();
        let mut read = stream(&deployed, &run).await.bytes_stream().eventsource();
        while let Some(event) = read.next().await {
            events.push(event.expect("an event"));
        }
        let seqs = |event: &eventsource_stream::Event| event.id.parse::<u64>().expect("a seq");
        let corrupt: Vec<_> = events.iter().filter(|event| event.event == "corrupt").collect();
        assert_eq!(corrupt.len(), 1, "{damaged}: {events:?}");
        assert_eq!(seqs(corrupt[0]), last);
        let others: Vec<u64> = events
            .iter()
            .filter(|event| event.event != "corrupt")
            .map(seqs)
            .collect();
        let expected: Vec<u64> = (1..=log.len() as u64)
            .filter(|seq| !(first..=last).contains(seq))
            .collect();
        assert_eq!(others, expected, "{damaged}");
        assert_eq!(seqs(events.last().expect("events")), log.len() as u64);
        // And for whoever reads JSON: the same.
        let json = deployed.log(&run).await;
        assert_eq!((json.len(), count(&json, "corrupt")), (events.len(), 1));
        // Whoever has seen it all is told that there is no more.
        let url = format!("{}/api/v1/runs/{run}/events?after={}", deployed.url, log.len());
        let request = reqwest::Client::new().get(url).header("accept", "text/event-stream");
        assert_eq!(request.send().await.expect("an answer").status(), 204, "{damaged}");
    }
}

fn number(item: &HashMap<String, AttributeValue>, name: &str) -> u64 {
    item[name].as_n().expect("a number").parse().expect("a whole number")
}
