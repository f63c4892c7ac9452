//! A run's stream over a store that lags, fails or is damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use eventsource_stream::{Event, Eventsource as _};
use futures::StreamExt as _;
use outlast_store::memory::{Effect, Fault, Kind, Request};
use outlast_store::table::Key;

use crate::support::agents::notes;
use crate::support::answer::seqs;
use crate::support::{Answer, Deliver, RUNS, Rig, SSE};

#[tokio::test(start_paused = true)]
async fn r17_what_came_last_is_read_before_the_reader_leaves() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(3)).await;
    // Eventually consistent reads see nothing of what follows.
    let open = rig.open(&format!("{RUNS}/{run}/events?after=1"), &[SSE]).await;
    rig.table.let_reads_lag(usize::MAX);
    let dispatch = rig.sent().remove(0);
    rig.call_background(crate::support::process_request(&dispatch)).await;
    let events = Answer::of(open).await.events().await;
    assert_eq!(events.last().unwrap().event, "run.completed");
    assert_eq!(seqs(&events), (2..=events.len() as u64 + 1).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn r16_a_page_that_shows_late_is_waited_for() {
    let rig = Rig::new();
    let (run, last) = rig.finished(notes(10)).await;
    let pages: Vec<Key> = rig
        .table
        .keys()
        .into_iter()
        .filter(|key| matches!(key, Key::Page { .. }))
        .collect();
    let hidden = pages[pages.len() / 2].clone();
    rig.table.hide(hidden.clone());
    let mut events = Box::pin(
        rig.open(&format!("{RUNS}/{run}/events"), &[SSE])
            .await
            .into_body()
            .into_data_stream()
            .eventsource(),
    );
    let mut seen: Vec<Event> = Vec::new();
    let late = tokio::time::sleep(Duration::from_millis(800));
    tokio::pin!(late);
    loop {
        tokio::select! {
            () = &mut late, if !late.is_elapsed() => {
                assert!((seen.len() as u64) < last);
                rig.table.reveal(&hidden);
            }
            event = events.next() => match event {
                Some(event) => seen.push(event.unwrap()),
                None => break,
            },
        }
    }
    assert_eq!(seqs(&seen), (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn e16_a_store_that_fails_breaks_the_stream_off() {
    let rig = Rig::new();
    rig.table.page_queries_at(1);
    let (run, last) = rig.finished(notes(20)).await;
    let fails = Arc::new(AtomicBool::new(true));
    let down = fails.clone();
    let reads_while_down = move |request: &Request| {
        request.kind == Kind::Query && request.consistent == Some(false) && down.load(Ordering::SeqCst)
    };
    rig.table
        .fault(Fault::new(Effect::Throttle, reads_while_down).after(5).always());
    let broken = rig.stream(&run, 0).await;
    assert!(!broken.is_whole, "a clean end would say that there is no more");
    let before = broken.events().await;
    let seen = before.last().unwrap().id.parse().unwrap();
    assert_eq!(seqs(&before), (1..=seen).collect::<Vec<_>>());
    assert!(seen < last, "{seen}");

    fails.store(false, Ordering::SeqCst);
    let rest = rig.stream(&run, seen).await;
    assert!(rest.is_whole);
    assert_eq!(seqs(&rest.events().await), (seen + 1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn e17_what_cant_be_read_stands_for_itself_and_the_rest_follows() {
    let rig = Rig::new();
    let (run, last) = rig.finished(notes(10)).await;
    let pages: Vec<Key> = rig
        .table
        .keys()
        .into_iter()
        .filter(|key| matches!(key, Key::Page { .. }))
        .collect();
    for damaged in [pages[pages.len() / 2].clone(), pages[pages.len() - 1].clone()] {
        let mut item = rig.table.peek(&damaged).unwrap();
        item.remove("events");
        rig.table.plant(damaged, Some(item));
        let events = rig.stream(&run, 0).await.logged().await;
        assert!(events.iter().any(|event| event.event == "corrupt"));
        assert_eq!(events.last().unwrap().id, last.to_string());
        let answer = rig.stream(&run, last).await;
        assert_eq!(answer.status, 204);
    }
}
