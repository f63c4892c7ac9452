//! The real functions with a table that throttles, fails, loses requests and replies, and is slow: what was done and not
//! answered is recognised, what was not done is done again, and nothing is done twice.

use std::time::Duration;

use outlast_tests::counting::CountingServer;
use outlast_tests::lambda::deployment::{Deployment, Options};
use outlast_tests::log_rules::{assert_kept, count, epochs, has_ended};
use outlast_tests::table_proxy::{Chances, Fault, Rule};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// How often the store asks before it gives up.
const TRIES: u64 = 8;

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

async fn deploy() -> Deployment {
    Deployment::start(Options {
        proxied: true,
        ..Options::default()
    })
    .await
}

/// All of it, each step once, whoever did it; the log, and how the run is shown.
async fn assert_done(deployed: &Deployment, run: &str, steps: usize) -> (Vec<Value>, Value) {
    let log = deployed.log(run).await;
    assert_kept(&log);
    let shown = deployed.show(run).await;
    assert_eq!(shown["status"], "completed", "{shown}");
    assert_eq!(
        (&shown["progress"]["committed"], &shown["progress"]["planned"]),
        (&json!(steps), &json!(steps)),
        "{shown}"
    );
    assert_eq!(count(&log, "step.committed"), steps);
    (log, shown)
}

/// As if nothing had happened: one holder, each body once.
async fn assert_unharmed(deployed: &Deployment, run: &str, steps: usize) {
    let (log, shown) = assert_done(deployed, run, steps).await;
    assert_eq!((epochs(&log), count(&log, "step.started")), (vec![1], steps));
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(1), &json!(0)), "{shown}");
}

#[tokio::test]
async fn sixty_steps_among_faults_of_every_kind_are_sixty_of_sixty() {
    let faults = [
        Fault::Throttled,
        Fault::Exceeded,
        Fault::Conflict,
        Fault::ServerError,
        Fault::Unavailable,
        Fault::LostRequest,
        Fault::LostReply,
        Fault::Slow(Duration::from_millis(40)),
        Fault::Late,
    ];
    for seed in [1, 2] {
        let deployed = deploy().await;
        deployed.make_table("things", "id").await;
        let proxy = deployed.background_proxy();
        proxy.unleash(Chances::seeded(seed, 3, &faults));
        let steps = (0..60).map(|step| {
            let record = json!({ "table": "things", "key": { "id": step.to_string() }, "record": { "n": step } });
            match step % 3 {
                0 => json!({ "key": format!("s{step}"), "tool": "put_record", "input": record }),
                _ => json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": 5 } }),
            }
        });
        let plan = json!({ "steps": steps.collect::<Vec<_>>(), "concurrency": 3 });
        let run = deployed.start_run(&plan).await;
        deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
        proxy.calm();
        let (log, _) = assert_done(&deployed, &run, 60).await;
        for fault in faults {
            assert!(proxy.did(fault) >= 2, "{fault:?}: {}", proxy.did(fault));
        }
        // What was given up long ago lands now, and finds that it is too late.
        for (asked, status, said) in proxy.land().await {
            let refused = said.contains("ConditionalCheckFailed");
            assert!(status == 400 && refused, "{} landed: {status} {said}", asked.operation);
        }
        assert_eq!(deployed.log(&run).await, log);
        assert_done(&deployed, &run, 60).await;
    }
}

#[tokio::test]
async fn a_lost_reply_and_a_conflict_are_one_holder_and_one_body_wherever_a_chunk_writes() {
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    // Of the claim's row, of its page, of a step's page, of a beat, of the closing transaction; twice each.
    type Write = fn(Fault) -> Rule;
    let writes: [(u64, Write); 5] = [
        (10, Rule::claim),
        (10, |fault| Rule::page_with("run.claimed", fault)),
        (10, |fault| Rule::page_with("step.committed", fault)),
        // Together longer than the time between two beats.
        (250, Rule::beat),
        (10, |fault| Rule::transaction_with("run.completed", fault)),
    ];
    for fault in [Fault::LostReply, Fault::Conflict] {
        for (ms, write) in writes {
            let before = proxy.did(fault);
            proxy.rule(write(fault).times(2));
            let run = deployed.start_run(&naps(3, ms)).await;
            deployed.logged(&run, "the run ends", has_ended).await;
            assert_eq!(proxy.did(fault) - before, 2, "{:?}", write(fault));
            assert_unharmed(&deployed, &run, 3).await;
        }
    }
}

#[tokio::test]
async fn a_hand_off_whose_reply_is_lost_hands_off_once() {
    let options = Options {
        proxied: true,
        ..Options::default()
    };
    let deployed = Deployment::start(options.with_short_chunks(Duration::from_millis(600))).await;
    let proxy = deployed.background_proxy();
    proxy.rule(Rule::transaction_with("auto_continue", Fault::LostReply).times(4));
    let run = deployed.start_run(&naps(6, 300)).await;
    deployed.logged(&run, "the run ends without a sweep", has_ended).await;
    let (log, shown) = assert_done(&deployed, &run, 6).await;
    assert!(proxy.did(Fault::LostReply) >= 2);
    let chunks = count(&log, "auto_continue") + 1;
    assert_eq!(
        (&shown["chunk"], &shown["crashes"]),
        (&json!(chunks), &json!(0)),
        "{shown}"
    );
    assert_eq!(deployed.lambda.events().len(), chunks);
}

#[tokio::test]
async fn a_beat_that_is_never_answered_leaves_time_for_another() {
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    proxy.rule(Rule::beat(Fault::NoReply));
    let run = deployed.start_run(&naps(8, 500)).await;
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_eq!(proxy.did(Fault::NoReply), 1);
    assert_unharmed(&deployed, &run, 8).await;
}

fn keyed(key: &str) -> Value {
    json!({ "agent": "plan", "input": naps(2, 10), "turnId": key })
}

async fn runs(deployed: &Deployment) -> Vec<Value> {
    let (status, list) = deployed.get("/api/v1/runs").await;
    assert_eq!(status, 200, "{list}");
    list["runs"].as_array().expect("runs").clone()
}

#[tokio::test]
async fn an_accept_whose_reply_is_lost_is_one_run_for_one_key() {
    for (lost, stored) in [(Fault::LostReply, 1), (Fault::LostRequest, 0)] {
        let deployed = deploy().await;
        let proxy = deployed.foreground_proxy();
        // Now and then: nobody notices.
        proxy.rule(Rule::transaction_with("run.accepted", lost).times(2));
        let (status, first) = deployed.post("/api/v1/runs", &keyed("first")).await;
        assert_eq!((status, proxy.did(lost)), (202, 2), "{first}");
        // For as long as it is tried: the client is told that nobody knows, and asks again under its key.
        proxy.rule(Rule::transaction_with("run.accepted", lost).times(TRIES));
        let (status, problem) = deployed.post("/api/v1/runs", &keyed("second")).await;
        assert_eq!(
            (status, &problem["code"]),
            (503, &json!("store_unavailable")),
            "{problem}"
        );
        assert_eq!(proxy.did(lost), 2 + TRIES);
        assert_eq!(runs(&deployed).await.len(), 1 + stored, "{lost:?}");
        let (status, second) = deployed.post("/api/v1/runs", &keyed("second")).await;
        assert!((200..300).contains(&status), "{status} {second}");
        assert_ne!(first["runId"], second["runId"]);
        assert_eq!(runs(&deployed).await.len(), 2, "{lost:?}");
        for run in [&first, &second] {
            let run = run["runId"].as_str().unwrap();
            // Found again it isn't dispatched again: that is the schedule's.
            deployed.logged_with_sweeps(run, "it ends", has_ended).await;
            let (log, _) = assert_done(&deployed, run, 2).await;
            assert_eq!((count(&log, "run.accepted"), epochs(&log)), (1, vec![1]));
        }
    }
}

#[tokio::test]
async fn a_stop_whose_reply_is_lost_stops_once() {
    for (times, answered) in [(2, true), (TRIES, false)] {
        let deployed = deploy().await;
        let proxy = deployed.foreground_proxy();
        let run = deployed.start_run(&naps(200, 100)).await;
        deployed
            .logged(&run, "it is under way", |log| count(log, "step.committed") > 0)
            .await;
        proxy.rule(Rule::transaction_with("stop.requested", Fault::LostReply).times(times));
        let (status, said) = deployed.post(&format!("/api/v1/runs/{run}/stop"), &json!({})).await;
        assert_eq!(proxy.did(Fault::LostReply), times);
        assert_eq!(status, if answered { 202 } else { 503 }, "{said}");
        // It was done, whatever was answered: its holder ends it.
        let log = deployed.logged(&run, "it ends", has_ended).await;
        assert_kept(&log);
        assert_eq!((count(&log, "stop.requested"), count(&log, "run.cancelled")), (1, 1));
        let shown = deployed.show(&run).await;
        assert_eq!((&shown["status"], &shown["crashes"]), (&json!("cancelled"), &json!(0)));
    }
}

#[tokio::test]
async fn seconds_of_throttling_are_survived_or_handed_over() {
    // Shorter than a lease: its holder asks until it is answered. All that it asks counts, beats too.
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    let run = deployed.start_run(&naps(10, 100)).await;
    deployed
        .logged(&run, "it is under way", |log| count(log, "step.committed") > 1)
        .await;
    proxy.rule(Rule::any(Fault::Throttled).times(12));
    deployed.logged(&run, "the run ends", has_ended).await;
    assert_eq!(proxy.did(Fault::Throttled), 12);
    assert_unharmed(&deployed, &run, 10).await;

    // Longer than a lease: whoever asks for the run finds it lost, and another goes on with it.
    let run = deployed.start_run(&naps(10, 100)).await;
    deployed
        .logged(&run, "it is under way", |log| count(log, "step.committed") > 1)
        .await;
    proxy.rule(Rule::any(Fault::Throttled).always());
    wait_until("it is lost", PATIENCE, async || {
        deployed.show(&run).await["crashes"] != 0
    })
    .await;
    proxy.calm();
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    let (log, shown) = assert_done(&deployed, &run, 10).await;
    assert_eq!((count(&log, "run.lost"), &shown["crashes"]), (1, &json!(1)), "{shown}");
    assert!(epochs(&log).len() == 2, "{:?}", epochs(&log));
}

#[tokio::test]
async fn a_holder_frozen_between_a_started_and_its_body_does_not_begin_it_when_it_thaws() {
    let server = CountingServer::start(&[]).await;
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    let put = |key: &str| {
        let input = json!({ "method": "PUT", "url": format!("{}/{key}", server.url) });
        json!({ "key": key, "tool": "http_request", "input": input })
    };
    // The start of the second rides in the page of the first one's result.
    proxy.rule(Rule::page_with("step.committed", Fault::HeldReply));
    let run = deployed
        .start_run(&json!({ "steps": [put("a"), put("b"), put("c")] }))
        .await;
    wait_until("its page is in the log", PATIENCE, async || proxy.held() == 1).await;
    let log = deployed.log(&run).await;
    assert_eq!((count(&log, "step.committed"), count(&log, "step.started")), (1, 2));
    let frozen = deployed.background.busy();
    frozen.freeze();
    proxy.release();

    let log = deployed
        .logged_with_sweeps(&run, "another epoch ends the run", has_ended)
        .await;
    assert_eq!(epochs(&log), [1, 2]);
    let before = (log, deployed.show(&run).await, server.counts.by_step());
    frozen.thaw();
    wait_until("the thawed chunk is over", PATIENCE, async || {
        !deployed.lambda.events()[0].outcomes.is_empty()
    })
    .await;
    let said = deployed.lambda.events()[0].outcomes[0].clone().unwrap();
    assert_eq!(
        (&said["claimed"], &said["fenced"]),
        (&json!(true), &json!(true)),
        "{said}"
    );
    let after = (
        deployed.log(&run).await,
        deployed.show(&run).await,
        server.counts.by_step(),
    );
    assert_eq!(after.0, before.0);
    for field in ["status", "chunk", "crashes", "progress", "cost", "endedAt"] {
        assert_eq!(after.1[field], before.1[field], "{field}");
    }
    // `b` began once, in the second epoch: the first let it begin, and asked its clock before it did.
    for key in ["a", "b", "c"] {
        assert_eq!((key, after.2.get(key)), (key, Some(&1)));
    }
    assert_done(&deployed, &run, 3).await;
}
