//! One plan in every kind of deployment, as real processes: without a background function, carried by its client or, where
//! that goes away, by the schedule; chained through the foreground; and in the background. The same end each time.

use std::time::Duration;

use futures::StreamExt as _;
use outlast_core::env_vars as vars;
use outlast_tests::dev::program;
use outlast_tests::lambda::RecursiveLoop;
use outlast_tests::lambda::deployment::{Deployment, Options, Work, kinds};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const STEPS: usize = 100;

fn plan() -> Value {
    let nap = |n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 60 } });
    json!({ "steps": (1..=STEPS).map(nap).collect::<Vec<_>>() })
}

/// Six seconds of work under a cap of two.
async fn deployed(work: Work) -> Deployment {
    Deployment::start(Options {
        work,
        recursive_loop: RecursiveLoop::Allow,
        variables: vec![
            (vars::FOREGROUND_SOFT_CAP.name, "2".into()),
            // Only the splitter reads it: at run time it means nothing.
            ("DURABLE_BACKGROUND", "1".into()),
        ],
        ..Options::default()
    })
    .await
}

/// The end that this plan has everywhere.
async fn assert_all_done(deployed: &Deployment, run: &str, executor: &str) -> Value {
    let shown = deployed.show(run).await;
    assert_eq!(
        (&shown["status"], &shown["executor"]),
        (&json!("completed"), &json!(executor)),
        "{shown}"
    );
    let progress = &shown["progress"];
    assert_eq!(
        (&progress["committed"], &progress["planned"]),
        (&json!(STEPS), &json!(STEPS))
    );
    let log = deployed.log(run).await;
    let started = kinds(&log).iter().filter(|kind| **kind == "step.started").count();
    let committed = kinds(&log).iter().filter(|kind| **kind == "step.committed").count();
    assert_eq!(committed, STEPS);
    // A body that a cap cut off is the only thing that begins twice.
    let handed_on = kinds(&log).iter().filter(|kind| **kind == "auto_continue").count();
    assert!(started <= STEPS + handed_on + usize::try_from(shown["crashes"].as_u64().unwrap()).unwrap());
    shown
}

fn has_ended(log: &[Value]) -> bool {
    log.last().is_some_and(|event| event["type"] == "run.completed")
}

#[tokio::test]
async fn inline_the_command_line_carries_a_run_from_chunk_to_chunk() {
    let deployed = deployed(Work::Inline).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.json");
    std::fs::write(&file, plan().to_string()).expect("a file");
    let said = outlast(&deployed, &["run", file.to_str().expect("UTF-8")]).await;
    assert!(said.contains("100 of 100"), "{said}");

    let (_, list) = deployed.get("/api/v1/runs").await;
    let run = list["runs"][0]["runId"].as_str().expect("a run");
    let shown = assert_all_done(&deployed, run, "inline").await;
    let chunks = shown["chunk"].as_u64().unwrap();
    assert!((3..=8).contains(&chunks), "{shown}");
    assert_eq!(shown["crashes"], 0);
    // No schedule, no dispatch: each chunk was a request of this client, and there was no other request.
    assert_eq!(
        (deployed.lambda.events().len(), deployed.background.invocations()),
        (0, 0)
    );
}

/// What the command line says; it must go well.
async fn outlast(deployed: &Deployment, args: &[&str]) -> String {
    let mut command = tokio::process::Command::new(program("outlast"));
    command.args(args).args(["--url", &deployed.url]).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .expect("in time")
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Reads the run's own stream until it has done some of its steps, and goes away. The run's id.
async fn abandoned(deployed: &Deployment) -> String {
    let request = reqwest::Client::new()
        .post(format!("{}/api/v1/runs", deployed.url))
        .header("accept", "text/event-stream")
        .json(&json!({ "agent": "plan", "input": plan() }));
    let response = request.send().await.expect("a stream");
    assert_eq!(response.headers()["outlast-executor"], "inline");
    let run = response.headers()["outlast-run-id"].to_str().expect("an id").to_owned();
    let (mut body, mut read) = (response.bytes_stream(), String::new());
    while read.matches("event: step.committed").count() < 10 {
        let bytes = body.next().await.expect("more").expect("bytes");
        read.push_str(&String::from_utf8_lossy(&bytes));
    }
    run
}

#[tokio::test]
async fn inline_abandoned_by_its_client_a_run_is_carried_to_its_end_by_the_schedule() {
    let deployed = deployed(Work::Inline).await;
    let run = abandoned(&deployed).await;
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    let shown = assert_all_done(&deployed, &run, "inline").await;
    // The client's chunk went on to its cap without it.
    assert_eq!(shown["crashes"], 0, "{shown}");
    assert!(shown["chunk"].as_u64() >= Some(3), "{shown}");
    assert_eq!(deployed.lambda.events().len(), 0);
}

#[tokio::test]
async fn inline_abandoned_by_one_client_a_run_is_carried_on_by_another() {
    let deployed = deployed(Work::Inline).await;
    let run = abandoned(&deployed).await;
    let said = outlast(&deployed, &["tail", &run, "--continue"]).await;
    assert!(said.contains("100 of 100"), "{said}");
    assert_all_done(&deployed, &run, "inline").await;
    assert_eq!(deployed.lambda.events().len(), 0);
}

#[tokio::test]
async fn inline_a_function_that_dies_in_its_clients_request_is_one_crash() {
    let deployed = deployed(Work::Inline).await;
    let run = abandoned(&deployed).await;
    deployed.foreground.busy().kill();
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    let shown = assert_all_done(&deployed, &run, "inline").await;
    assert_eq!(shown["crashes"], 1, "{shown}");
}

#[tokio::test]
async fn chained_through_the_foreground_where_there_is_no_background() {
    let deployed = deployed(Work::Chained).await;
    let run = deployed.start_run(&plan()).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    let shown = assert_all_done(&deployed, &run, "background").await;
    assert!(shown["chunk"].as_u64() >= Some(3), "{shown}");
    assert_eq!(shown["crashes"], 0);
    let hosts: Vec<&Value> = log.iter().filter(|event| event["type"] == "run.claimed").collect();
    assert!(hosts.iter().all(|claimed| claimed["host"] == "foreground"), "{hosts:?}");
    let events = deployed.lambda.events();
    assert_eq!(events.len(), hosts.len());
    assert!(events.iter().all(|event| event.function == "foreground"));
    assert_eq!(deployed.background.invocations(), 0);
}

#[tokio::test]
async fn in_the_background_the_same_plan_is_one_chunk() {
    let deployed = deployed(Work::Background).await;
    let run = deployed.start_run(&plan()).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    let shown = assert_all_done(&deployed, &run, "background").await;
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(1), &json!(0)), "{shown}");
    let claimed = log
        .iter()
        .find(|event| event["type"] == "run.claimed")
        .expect("a claim");
    assert_eq!(claimed["host"], "background");
    assert_eq!(deployed.lambda.events().len(), 1);
}

#[tokio::test]
async fn a_deployment_that_loses_its_background_function_carries_what_it_had() {
    // One database; first with a background function that never gets its dispatch, then without one.
    let before = deployed(Work::Background).await;
    before.lambda.lose(usize::MAX);
    let run = before.start_run(&plan()).await;
    let after = before.redeployed(Work::Inline).await;
    wait_until("the run ends", PATIENCE, async || {
        after.sweep().await;
        has_ended(&after.log(&run).await)
    })
    .await;
    assert_all_done(&after, &run, "background").await;
}

#[tokio::test]
async fn a_background_function_that_nothing_is_dispatched_to_does_not_start() {
    let deployed = deployed(Work::Inline).await;
    let failure = deployed
        .background
        .invoke("{}".into())
        .await
        .err()
        .expect("it can't start");
    assert!(format!("{failure:?}").contains("Exited"), "{failure:?}");
    let said = deployed.background.lines().join("\n");
    assert!(said.contains(vars::DISPATCH.name), "{said}");
}
