//! What readers get.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::RunId;
use outlast_core::event::{EventBody, wire_json};
use outlast_store::WireEvent;
use outlast_store::table::{Action, Condition, number, text};
use serde_json::Value;

use crate::bench::{Bench, emit, outcome, page_key, payload, run_id};
use crate::log::{every_kind, long_log};

async fn read(bench: &Bench, run: &RunId) -> Vec<WireEvent> {
    let (mut events, mut next) = (vec![], Some(1));
    while let Some(from) = next {
        let slice = bench
            .store
            .read_wire_events(run, from, true)
            .await
            .expect("readers get an answer");
        events.extend(slice.events);
        next = slice.next;
    }
    events
}

fn kinds(events: &[WireEvent]) -> Vec<(u64, &str)> {
    events.iter().map(|event| (event.seq, event.kind.as_str())).collect()
}

async fn change(bench: &Bench, run: &RunId, first_seq: u64, set: Vec<(String, AttributeValue)>, remove: &[&str]) {
    let remove = remove.iter().map(|name| String::from(*name)).collect();
    bench
        .write(
            &page_key(run, first_seq),
            Action::Update { set, remove },
            Condition::Always,
        )
        .await;
}

pub async fn readers_get_the_events_as_they_were_written(bench: Bench) {
    let run = run_id();
    let page = bench.append(&run, 1, every_kind()).await;
    let events = read(&bench, &run).await;
    assert_eq!(events.len(), page.events.len());
    for (wire, event) in events.iter().zip(&page.events) {
        assert_eq!(wire.json, wire_json(event));
        assert_eq!((wire.seq, wire.terminal), (event.seq, event.body.is_terminal()));
        assert!(!wire.json.contains(['\n', '\r']), "one line");
        let parsed: HashMap<String, &serde_json::value::RawValue> = serde_json::from_str(&wire.json).expect("JSON");
        assert_eq!(parsed["type"].get(), format!("\"{}\"", wire.kind));
    }
}

fn stored(fields: Vec<(&str, AttributeValue)>) -> AttributeValue {
    AttributeValue::M(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

pub async fn events_of_unknown_kinds_reach_readers(bench: Bench) {
    let run = run_id();
    bench
        .append(&run, 1, vec![EventBody::RunPaused, EventBody::RunResumed])
        .await;
    let events = vec![
        stored(vec![
            ("seq", number(1)),
            ("type", text("later.kind")),
            ("data", text(r#"{"b": 1.50}"#)),
            ("text", text("a \"quote\"\r\n")),
            (
                "nested",
                stored(vec![("at", number(-5)), ("none", AttributeValue::Null(true))]),
            ),
        ]),
        stored(vec![("seq", number(2)), ("type", text("run.suspended_for_good"))]),
    ];
    let set = vec![
        ("events".into(), AttributeValue::L(events)),
        ("ended".into(), AttributeValue::Bool(true)),
    ];
    change(&bench, &run, 1, set, &[]).await;
    let events = read(&bench, &run).await;
    assert_eq!(kinds(&events), [(1, "later.kind"), (2, "run.suspended_for_good")]);
    assert!(events[0].json.contains(r#""data":{"b": 1.50}"#), "{}", events[0].json);
    let parsed: Value = serde_json::from_str(&events[0].json).unwrap();
    assert_eq!(
        (parsed["text"].as_str(), parsed["nested"]["at"].as_i64()),
        (Some("a \"quote\"\r\n"), Some(-5))
    );
    assert!(
        !events[0].terminal && events[1].terminal,
        "the page says that it ends the run"
    );
}

/// Seq 1 to 6, 7 to 9, 10 (the end).
async fn three_pages(bench: &Bench) -> RunId {
    let run = run_id();
    let emits = |count: usize| (0..count).map(|_| emit(payload("1"))).collect::<Vec<_>>();
    bench.append(&run, 1, emits(6)).await;
    bench.append(&run, 7, emits(3)).await;
    bench.append(&run, 10, vec![EventBody::terminal(outcome(None))]).await;
    run
}

pub async fn e17_an_unreadable_page_is_one_placeholder(bench: Bench) {
    // With its last seq readable, and with it lost too: then the next page tells.
    for lost in [
        &["events"][..],
        &["events", "last_seq", "schema", "ended", "epoch", "write_id"],
    ] {
        let run = three_pages(&bench).await;
        change(&bench, &run, 7, vec![], lost).await;
        let events = read(&bench, &run).await;
        let expected = [
            (1..=6).map(|seq| (seq, "emit")).collect(),
            vec![(9, "corrupt"), (10, "run.completed")],
        ]
        .concat();
        assert_eq!(kinds(&events), expected);
        let placeholder: Value = serde_json::from_str(&events[6].json).unwrap();
        assert_eq!(
            (&placeholder["first_seq"], &placeholder["last_seq"]),
            (&7.into(), &9.into())
        );
        assert!(events[7].terminal && !events[6].terminal);
        // Who writes is told, loudly.
        assert!(bench.store.read_pages(&run, 1, true).await.is_err());
        assert_eq!(bench.store.page_start(&run, 8, true).await, Ok(Some(7)));
    }
}

pub async fn e17_an_unreadable_event_is_one_placeholder(bench: Bench) {
    let good = |seq: u64| stored(vec![("seq", number(seq)), ("type", text("emit")), ("data", text("1"))]);
    let bad = [
        text("no map"),
        stored(vec![]),
        stored(vec![("seq", number(99)), ("type", text("emit"))]),
        stored(vec![("seq", number(8))]),
        stored(vec![("seq", number(8)), ("type", number(1))]),
        stored(vec![
            ("seq", number(8)),
            ("type", text("emit")),
            ("data", text("{no JSON")),
        ]),
        stored(vec![
            ("seq", number(8)),
            ("type", text("emit")),
            ("data", stored(vec![])),
        ]),
        stored(vec![
            ("seq", number(8)),
            ("type", text("emit")),
            ("x", AttributeValue::B(vec![1].into())),
        ]),
    ];
    for bad in bad {
        let run = three_pages(&bench).await;
        let events = AttributeValue::L(vec![good(7), bad, good(9)]);
        change(&bench, &run, 7, vec![("events".into(), events)], &[]).await;
        let events = read(&bench, &run).await;
        assert_eq!(
            kinds(&events)[6..],
            [(7, "emit"), (8, "corrupt"), (9, "emit"), (10, "run.completed")]
        );
    }
    // Events that lack: the page says how far it goes.
    let run = three_pages(&bench).await;
    change(
        &bench,
        &run,
        7,
        vec![("events".into(), AttributeValue::L(vec![good(7)]))],
        &[],
    )
    .await;
    assert_eq!(
        kinds(&read(&bench, &run).await)[6..],
        [(7, "emit"), (9, "corrupt"), (10, "run.completed")]
    );
}

pub async fn e17_an_unreadable_end_still_ends(bench: Bench) {
    let run = three_pages(&bench).await;
    change(&bench, &run, 10, vec![("events".into(), text("gone"))], &[]).await;
    let events = read(&bench, &run).await;
    let last = events.last().unwrap();
    assert_eq!((last.seq, last.kind.as_str(), last.terminal), (10, "corrupt", true));
    assert_eq!(bench.store.last_seq(&run).await, Ok(10));
}

pub async fn r35_readers_resume_at_every_digit(bench: Bench) {
    let run = run_id();
    long_log(&bench, &run).await;
    let all: Vec<u64> = read(&bench, &run).await.iter().map(|event| event.seq).collect();
    assert_eq!(all, (1..=1200).collect::<Vec<u64>>());
    for seen in [9, 99, 999, 1199] {
        let start = bench.store.page_start(&run, seen + 1, false).await.unwrap().unwrap();
        let slice = bench.store.read_wire_events(&run, start, false).await.unwrap();
        let first = slice.events.iter().find(|event| event.seq > seen).unwrap();
        assert_eq!(first.seq, seen + 1);
    }
    let end = bench.store.page_start(&run, 1201, false).await.unwrap().unwrap();
    let slice = bench.store.read_wire_events(&run, end, false).await.unwrap();
    assert!(slice.events.iter().all(|event| event.seq <= 1200) && slice.next.is_none());
}
