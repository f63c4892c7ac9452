//! Processes of the background function that are killed, frozen and blocked.

use std::time::Duration;

use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::lambda::{Deadline, Failure};
use outlast_tests::reader;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

fn has_ended(log: &[Value]) -> bool {
    log.last().is_some_and(|event| event["type"] == "run.completed")
}

fn committed(log: &[Value]) -> usize {
    kinds(log).iter().filter(|kind| **kind == "step.committed").count()
}

/// The claims and losses of a log, with their epochs.
fn ownership(log: &[Value]) -> Vec<(&str, u64)> {
    let told = log
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), event["epoch"].as_u64().unwrap_or(0)));
    told.filter(|(kind, _)| ["run.claimed", "run.lost"].contains(kind))
        .collect()
}

#[tokio::test]
async fn a_killed_holder_is_one_crash_and_the_next_goes_on() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(8, 300)).await;
    deployed
        .logged(&run, "two steps are committed", |log| committed(log) >= 2)
        .await;
    deployed.background.busy().kill();

    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_eq!(
        ownership(&log),
        [("run.claimed", 1), ("run.lost", 1), ("run.claimed", 2)]
    );
    let shown = deployed.show(&run).await;
    assert_eq!((&shown["crashes"], &shown["chunk"]), (&json!(1), &json!(2)), "{shown}");
    assert_eq!(shown["progress"]["committed"], 8);
    assert_eq!(committed(&log), 8);
    assert!(matches!(
        deployed.lambda.events()[0].outcomes[0],
        Err(Failure::Exited(_))
    ));
}

#[tokio::test]
async fn the_wall_kills_and_the_run_goes_on() {
    // The true wall is never told: the chunk believes in its cap alone.
    let deployed = Deployment::start(Options {
        background_timeout: Duration::from_secs(4),
        background_deadline: Deadline::Nonsense(0),
        ..Options::default()
    })
    .await;
    let run = deployed.start_run(&naps(6, 1000)).await;
    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_eq!(deployed.lambda.events()[0].outcomes[0], Err(Failure::TimedOut));
    assert_eq!(
        ownership(&log)[..3],
        [("run.claimed", 1), ("run.lost", 1), ("run.claimed", 2)]
    );
    assert_eq!(committed(&log), 6);
}

#[tokio::test]
async fn e18_a_holder_that_thaws_after_its_lease_changes_nothing() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(8, 300)).await;
    deployed
        .logged(&run, "two steps are committed", |log| committed(log) >= 2)
        .await;
    let frozen = deployed.background.busy();
    frozen.freeze();

    let log = deployed
        .logged_with_sweeps(&run, "the run ends without it", has_ended)
        .await;
    assert_eq!(
        ownership(&log),
        [("run.claimed", 1), ("run.lost", 1), ("run.claimed", 2)]
    );
    let shown = deployed.show(&run).await;

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
    assert_eq!(deployed.log(&run).await, log);
    let after = deployed.show(&run).await;
    for field in ["status", "chunk", "crashes", "progress", "cost", "endedAt"] {
        assert_eq!(after[field], shown[field], "{field}");
    }
}

#[tokio::test]
async fn r28_beats_go_on_while_a_step_blocks_the_only_thread() {
    let deployed = Deployment::start(Options {
        foreground: "function-that-blocks",
        background: "function-that-blocks",
        ..Options::default()
    })
    .await;
    // Twice the lease.
    let plan = json!({ "steps": [{ "key": "b", "tool": "block", "input": { "ms": 6000 } }] });
    let run = deployed.start_run(&plan).await;
    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_eq!(ownership(&log), [("run.claimed", 1)]);
    assert_eq!(deployed.show(&run).await["crashes"], 0);
}

#[tokio::test]
async fn a_reader_whose_function_is_killed_resumes_and_the_run_never_knew() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(6, 600)).await;
    let mut seen = reader::follow(deployed.url.clone(), run.clone());
    for commits in [2, 4] {
        reader::wait_for(&mut seen, "some commits", |seen| {
            seen.count("step.committed") >= commits
        })
        .await;
        deployed.foreground.busy().kill();
    }
    let seen = reader::wait_for(&mut seen, "the stream ends", |seen| seen.ended).await;
    seen.assert_gapless();
    assert_eq!((seen.count("step.committed"), seen.connections), (6, 3));
    assert_eq!(deployed.show(&run).await["crashes"], 0);
}
