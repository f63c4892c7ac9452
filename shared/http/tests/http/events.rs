//! A run's log as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agents::{notes, saying, slow};
use crate::support::{Deliver, RUNS, Rig};

#[tokio::test(start_paused = true)]
async fn what_is_there_and_where_to_go_on() {
    let rig = Rig::new();
    let run = rig.start(notes(3)).await;
    let last = rig.ended(&run).await["lastSeq"].as_u64().unwrap();
    let path = format!("{RUNS}/{run}/events");
    let answer = rig.get(&path).await;
    assert_eq!(answer.header("content-type"), "application/json");
    let all = answer.json();
    assert_eq!(all["events"].as_array().unwrap().len() as u64, last);
    assert_eq!(
        (&all["next"], &all["ended"], &all["more"]),
        (&json!(last), &json!(true), &json!(false))
    );
    let rest = rig.get(&format!("{path}?after=2")).await.json();
    assert_eq!(
        rest["events"].as_array().unwrap()[..],
        all["events"].as_array().unwrap()[2..]
    );
    let none = rig.get(&format!("{path}?after={last}&wait=20s")).await.json();
    assert_eq!(none, json!({"events": [], "next": last, "ended": true, "more": false}));
}

#[tokio::test(start_paused = true)]
async fn a_long_log_comes_in_parts() {
    let rig = Rig::new();
    rig.table.page_queries_at(4 * 1024);
    let run = rig.start(saying(&["x"; 200])).await;
    let last = rig.ended(&run).await["lastSeq"].as_u64().unwrap();
    let (mut seqs, mut next, mut parts): (Vec<u64>, u64, usize) = (vec![], 0, 0);
    loop {
        let part = rig.get(&format!("{RUNS}/{run}/events?after={next}")).await.json();
        seqs.extend(
            part["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["seq"].as_u64().unwrap()),
        );
        next = part["next"].as_u64().unwrap();
        parts += 1;
        assert_eq!(part["more"] == json!(true), part["ended"] == json!(false), "{part}");
        if part["ended"] == json!(true) {
            break;
        }
    }
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    assert!(parts > 1, "{parts}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_of_the_next_event() {
    let rig = Rig::new();
    let run = rig.start(slow(5_000)).await;
    let shown = rig.until(&run, |shown| shown["lastSeq"] == 4).await;
    assert_eq!(shown["status"], "running");
    let path = format!("{RUNS}/{run}/events?after=4");
    let begun = tokio::time::Instant::now();
    let nothing = rig.get(&format!("{path}&wait=500ms")).await.json();
    assert_eq!(nothing, json!({"events": [], "next": 4, "ended": false, "more": false}));
    assert!(
        (500..600).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );
    let at_once = rig.get(&path).await.json();
    assert_eq!(at_once["events"], json!([]));
    let heard: Value = rig.get(&format!("{path}&wait=20s")).await.json();
    assert_eq!(heard["events"][0]["seq"], 5);
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    for wait in ["21s", "x", ""] {
        let answer = rig.get(&format!("{path}&wait={wait}")).await;
        assert_eq!(answer.problem(400), "bad_request", "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_a_consistent_look() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    rig.table.let_reads_lag(usize::MAX);
    let path = format!("{RUNS}/{run}/events?after=1&wait=20s");
    let dispatch = rig.sent().remove(0);
    let (heard, _) = futures::join!(
        rig.get(&path),
        rig.call_background(crate::support::process_request(&dispatch))
    );
    assert_eq!(
        (&heard.json()["events"][0]["seq"], &heard.json()["ended"]),
        (&json!(2), &json!(true))
    );
}
