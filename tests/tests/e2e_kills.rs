//! A run outlives its host: killed again and again, every step is committed once and every reader sees every event once.

use std::collections::HashMap;
use std::time::Duration;

use outlast_tests::counting::CountingServer;
use outlast_tests::dev::Dev;
use outlast_tests::reader::{Seen, follow, wait_for};
use serde_json::json;

const STEPS: usize = 1000;
const KILLS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e01_a_thousand_requests_over_five_kills_are_each_committed_once() {
    let server = CountingServer::start(&[]).await;
    let mut dev = Dev::start(&[]).await;
    let steps: Vec<_> = (0..STEPS)
        .map(|n| {
            let input = json!({ "method": "PUT", "url": format!("{}/{n}", server.url) });
            json!({ "key": format!("k{n}"), "tool": "http_request", "input": input })
        })
        .collect();
    let run = dev.start_plan(&json!({ "steps": steps, "concurrency": 4 })).await;
    let mut reader = follow(dev.url(), run.clone());

    let mut committed = 0;
    for kill in 1..=KILLS {
        // At least one commit since the last start, and far enough apart that all kills find the run alive.
        let wanted = (committed + 1).max(STEPS * kill / (KILLS + 2));
        let seen = wait_for(&mut reader, "the next commits", |seen| {
            seen.count("step.committed") >= wanted
        })
        .await;
        assert!(!seen.ended, "the run ended before kill {kill}");
        dev.kill().await;
        committed = seen.count("step.committed");
        dev.restart().await;
    }
    let seen = wait_for(&mut reader, "the stream's end", |seen| seen.ended).await;
    let shown = dev.ended(&run, Duration::from_secs(10)).await;

    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(shown["progress"]["committed"], STEPS);
    assert_eq!(shown["progress"]["planned"], STEPS);
    assert_eq!(shown["crashes"], KILLS);
    seen.assert_gapless();
    assert!(
        seen.connections > KILLS as u64,
        "the reader reconnected after each kill"
    );
    assert_eq!(seen.last_seq(), shown["lastSeq"].as_u64().unwrap());

    let starts = epochs_of_starts(&seen);
    let counts = server.counts.by_step();
    let commits = commits(&seen);
    for n in 0..STEPS {
        let key = format!("k{n}");
        assert_eq!(commits.get(&key), Some(&1), "{key} is committed once");
        let counted = counts.get(&key).copied().unwrap_or(0);
        let epochs = &starts[&key];
        assert!(counted >= 1, "{key} was committed and never requested");
        assert!(
            counted as usize <= epochs.len(),
            "{key} was requested {counted} times in {epochs:?}"
        );
        // Counted twice: in hand at a kill, and begun again by the next holder, once each.
        assert!(
            epochs.windows(2).all(|pair| pair[0] < pair[1]),
            "{key} began twice in one epoch: {epochs:?}"
        );
    }
}

/// For each step the epochs in which a body of it was let begin.
fn epochs_of_starts(seen: &Seen) -> HashMap<String, Vec<u64>> {
    let mut epoch = 0;
    let mut starts: HashMap<String, Vec<u64>> = HashMap::new();
    for event in &seen.events {
        match event["type"].as_str() {
            Some("run.claimed") => epoch = event["epoch"].as_u64().unwrap(),
            Some("step.started") => starts
                .entry(event["key"].as_str().unwrap().into())
                .or_default()
                .push(epoch),
            _ => {}
        }
    }
    starts
}

fn commits(seen: &Seen) -> HashMap<String, usize> {
    let mut commits = HashMap::new();
    for event in seen.events.iter().filter(|event| event["type"] == "step.committed") {
        *commits.entry(event["key"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    commits
}
