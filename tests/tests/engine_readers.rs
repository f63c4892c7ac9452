//! Readers: every event exactly once, in order, whatever becomes visible when.

use std::time::Duration;

use outlast_core::{Owner, RunId, Status};
use outlast_engine::follow::Follower;
use outlast_engine::show::show;
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable, gate};
use outlast_store::table::Key;
use outlast_tests::rig::{Rig, RigOptions, quick_plan};
use outlast_tests::wait::wait_until;

fn page(run: &RunId, first_seq: u64) -> Key {
    Key::Page {
        run_id: run.to_string(),
        first_seq,
    }
}

fn pages_of(table: &MemoryTable, run: &RunId) -> Vec<u64> {
    let mut pages: Vec<u64> = table
        .keys()
        .into_iter()
        .filter_map(|key| match key {
            Key::Page { run_id, first_seq } if run_id == run.as_str() => Some(first_seq),
            Key::Page { .. } | Key::Row { .. } => None,
        })
        .collect();
    pages.sort_unstable();
    pages
}

/// Reads from behind `after` to the end; the seqs in the order of their delivery.
async fn read_all(rig: &Rig, run: &RunId, after: u64) -> Vec<u64> {
    let mut follower = Follower::new(&rig.engine, &rig.owner, run, after)
        .await
        .expect("the run is there");
    let mut seqs = Vec::new();
    while !follower.has_ended() {
        seqs.extend(follower.next().await.expect("readable").iter().map(|event| event.seq));
    }
    seqs
}

#[tokio::test(start_paused = true)]
async fn r16_reader_waits_for_a_late_page() {
    let (options, table) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(10)).await;
    let last = rig.ended(&run).await.last_seq;
    let late = page(&run, pages_of(&table, &run)[4]);
    table.hide(late.clone());

    let mut follower = Follower::new(&rig.engine, &rig.owner, &run, 0).await.unwrap();
    let mut seqs: Vec<u64> = Vec::new();
    let before = follower.next().await.unwrap();
    seqs.extend(before.iter().map(|event| event.seq));
    // The pages behind it are visible; the reader gives none of them away. Time passes and nothing comes.
    let waited = tokio::time::timeout(Duration::from_millis(800), follower.next()).await;
    assert!(waited.is_err(), "it stepped over the gap: {waited:?}");
    table.reveal(&late);
    while !follower.has_ended() {
        seqs.extend(follower.next().await.unwrap().iter().map(|event| event.seq));
    }
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn e01_whatever_a_reader_has_seen_it_gets_the_rest_once() {
    let (options, _) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(40)).await;
    let last = rig.ended(&run).await.last_seq;
    for after in 0..last {
        assert_eq!(
            read_all(&rig, &run, after).await,
            (after + 1..=last).collect::<Vec<_>>(),
            "after {after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r35_resuming_inside_pages_and_over_query_pages() {
    let (options, table) = RigOptions::in_memory();
    // So small that one query's answer holds a few pages only.
    table.page_queries_at(3000);
    let rig = Rig::new(options);
    let mut plan = quick_plan(500);
    plan["concurrency"] = 20.into();
    let run = rig.start(&plan).await;
    let last = rig.ended(&run).await.last_seq;
    assert!(last > 1000, "{last}");
    for after in [8, 9, 10, 98, 99, 100, 998, 999, 1000] {
        assert_eq!(
            read_all(&rig, &run, after).await,
            (after + 1..=last).collect::<Vec<_>>(),
            "after {after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r17_the_terminal_event_lands_between_two_queries_of_a_reader() {
    let (options, table) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(3)).await;
    // The reader's first answer is made before the run goes on, and reaches it when the run is over.
    let (reply, held) = gate();
    table.fault(Fault::new(Effect::HoldReply(held), |request| {
        request.kind == Kind::Query && request.consistent == Some(false)
    }));
    let reading = tokio::spawn({
        let (engine, owner, run) = (rig.engine.clone(), rig.owner.clone(), run.clone());
        async move {
            let mut follower = Follower::new(&engine, &owner, &run, 0).await.unwrap();
            let mut seqs = Vec::new();
            while !follower.has_ended() {
                seqs.extend(follower.next().await.unwrap().iter().map(|event| event.seq));
            }
            seqs
        }
    });
    reply.arrived().await;
    let last = rig.ended(&run).await.last_seq;
    reply.open();
    assert_eq!(reading.await.unwrap(), (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn r17_a_terminal_event_without_its_row_is_loudly_corrupt_and_readable() {
    let (options, table) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let nap = serde_json::json!({ "steps": [{ "key": "nap", "tool": "sleep", "input": { "ms": 2000 } }] });
    let run = rig.start(&nap).await;
    let row = Key::Row {
        pk: format!("run#{run}"),
        sk: "meta".into(),
    };
    wait_until("the run is claimed", Duration::from_secs(60), async || {
        rig.row(&run).await.status == Status::Running
    })
    .await;
    let running = table.peek(&row);
    let last = rig.ended(&run).await.last_seq;
    // The row as it was before the end: no transaction of ours can leave it so.
    table.plant(row.clone(), running.clone());
    tokio::time::advance(Duration::from_secs(60)).await;
    let error = show(&rig.engine, &rig.owner, &run).await.unwrap_err();
    assert!(error.to_string().contains("corrupt_run"), "{error}");
    assert_eq!(table.peek(&row), running, "neither claimed nor ended");
    assert_eq!(read_all(&rig, &run, 0).await, (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn another_owners_run_is_not_there() {
    let (options, _) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(1)).await;
    let stranger = Owner::new("stranger");
    assert!(Follower::new(&rig.engine, &stranger, &run, 0).await.is_err());
    assert!(show(&rig.engine, &stranger, &run).await.is_err());
    rig.ended(&run).await;
}
