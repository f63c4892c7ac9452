//! `dev` as a library, within a test.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::client::{Client, Start};
use crate::exit::exit_of;
use crate::sse::{Follow, Heard};
use crate::wire::Event;

async fn dev(data: &Path, faults: DispatchFaults) -> (Dev, Client) {
    let options = DevOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data: Some(data.to_owned()),
        faults,
        ..DevOptions::default()
    };
    let dev = start(assistant::app(), options).await.unwrap();
    let client = Client::new(&dev.url).unwrap();
    (dev, client)
}

async fn sleeps(client: &Client, steps: usize, ms: u64) -> String {
    let step = |n| json!({"key": format!("s{n}"), "tool": "sleep", "input": {"ms": ms}});
    let steps: Vec<Value> = (0..steps).map(step).collect();
    let start = Start {
        agent: "plan",
        input: json!({ "steps": steps }).to_string(),
        thread: None,
        idempotency_key: "once",
    };
    client.start(&start).await.unwrap().run
}

/// The run's events, until `enough` says so of one or the run has ended.
async fn events(client: &Client, run: &str, enough: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut follow = Follow::new(client.clone(), run, 0);
    let mut events = Vec::new();
    while let Some(heard) = follow.next().await.unwrap() {
        if let Heard::Event(event) = heard {
            let is_enough = enough(&event);
            events.push(event);
            if is_enough {
                break;
            }
        }
    }
    events
}

fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

#[tokio::test]
async fn only_loopback_is_served() {
    let error = listen(SocketAddr::from(([0, 0, 0, 0], 0))).await.unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage);
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let taken = listen(listener.local_addr().unwrap()).await.unwrap_err();
    assert!(taken.to_string().contains("--listen"), "{taken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordered_end_is_no_crash_and_the_next_start_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let (first, client) = dev(data.path(), DispatchFaults::default()).await;
    let run = sleeps(&client, 20, 50).await;
    events(&client, &run, |event| event.kind == "step.committed").await;
    first.hand_off().await;

    let (second, client) = dev(data.path(), DispatchFaults::default()).await;
    let events = events(&client, &run, |_| false).await;
    assert_eq!(count(&events, "step.committed"), 20);
    assert_eq!((count(&events, "run.claimed"), count(&events, "run.lost")), (2, 0));
    let handed_off = events.iter().find(|event| event.kind == "auto_continue").unwrap();
    assert_eq!(handed_off.text("reason"), "shut_down");
    let shown: Value = serde_json::from_str(&client.show(&run).await.unwrap()).unwrap();
    assert_eq!((&shown["status"], &shown["crashes"]), (&json!("completed"), &json!(0)));
    second.hand_off().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubled_dispatch_leaves_no_trace() {
    let data = tempfile::tempdir().unwrap();
    let faults = DispatchFaults {
        duplicate: true,
        ..DispatchFaults::default()
    };
    let (dev, client) = dev(data.path(), faults).await;
    let run = sleeps(&client, 3, 1).await;
    let events = events(&client, &run, |_| false).await;
    assert_eq!((count(&events, "run.claimed"), count(&events, "run.completed")), (1, 1));
    dev.hand_off().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_and_a_late_dispatch_are_made_good() {
    let data = tempfile::tempdir().unwrap();
    let faults = DispatchFaults {
        lose: 1,
        delay: Duration::from_millis(20),
        ..DispatchFaults::default()
    };
    let (dev, client) = dev(data.path(), faults).await;
    let run = sleeps(&client, 3, 1).await;
    let events = events(&client, &run, |_| false).await;
    assert_eq!((count(&events, "run.claimed"), count(&events, "run.completed")), (1, 1));
    dev.hand_off().await;
}
