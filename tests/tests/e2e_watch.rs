//! Both functions as real processes under the real `cargo lambda watch`. E07: its asynchronous invocations are synchronous,
//! it has one process a function, and the deadline that it tells is of 1970. Nothing deadlocks.

use std::time::Duration;

use outlast_core::env_vars as vars;
use outlast_tests::lambda::deployment::kinds;
use outlast_tests::reader::{self, Seen};
use outlast_tests::wait::wait_until;
use outlast_tests::watch::{Dispatch, Watch};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const SHORT_CHUNKS: [(&str, &str); 2] = [
    (vars::FOREGROUND_SOFT_CAP.name, "2"),
    (vars::BACKGROUND_SOFT_CAP.name, "2"),
];

fn naps(count: usize, ms: u64) -> Value {
    let nap = |n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": ms } });
    json!({ "steps": (0..count).map(nap).collect::<Vec<_>>() })
}

async fn read_to_the_end(watch: &Watch, run: &str) -> Seen {
    let mut seen = reader::follow(watch.url("foreground"), run.to_owned());
    reader::wait_for(&mut seen, "the stream ends", |seen| seen.ended).await
}

/// All steps are done, by chunks of this kind of host, and the reader has seen it all.
async fn assert_done(watch: &Watch, run: &str, seen: &Seen, steps: usize, host: &str) -> Value {
    seen.assert_gapless();
    assert_eq!(*kinds(&seen.events).last().unwrap(), "run.completed");
    assert_eq!(seen.count("step.committed"), steps);
    let claims = seen.events.iter().filter(|event| event["type"] == "run.claimed");
    for claim in claims {
        assert_eq!(claim["host"], host, "{claim}");
    }
    let shown = watch.show(run).await;
    assert_eq!(
        (&shown["status"], &shown["progress"]["committed"]),
        (&json!("completed"), &json!(steps))
    );
    shown
}

#[tokio::test]
async fn a_plan_crosses_chunks_while_another_run_is_at_work() {
    let watch = Watch::start(Dispatch::Background, &SHORT_CHUNKS).await;
    let long = watch.start_run(&naps(14, 500)).await;
    let mut seen = reader::follow(watch.url("foreground"), long.clone());
    // Live: the first chunk is still at work.
    let live = reader::wait_for(&mut seen, "a step is done", |seen| seen.count("step.committed") == 1).await;
    assert!(!live.ended);
    let short = watch.start_run(&naps(4, 200)).await;
    let short_seen = read_to_the_end(&watch, &short).await;
    let long_seen = reader::wait_for(&mut seen, "the stream ends", |seen| seen.ended).await;

    assert_done(&watch, &short, &short_seen, 4, "background").await;
    let shown = assert_done(&watch, &long, &long_seen, 14, "background").await;
    assert!(shown["chunk"].as_u64() >= Some(3), "{shown}");
    assert_eq!(shown["crashes"], 0, "{shown}");
    assert_eq!(long_seen.count("auto_continue") + 1, long_seen.count("run.claimed"));
}

#[tokio::test]
async fn e07_chunks_are_chained_through_the_foreground_alone() {
    let watch = Watch::start(Dispatch::Chained, &SHORT_CHUNKS).await;
    let run = watch.start_run(&naps(14, 500)).await;
    let seen = read_to_the_end(&watch, &run).await;
    let shown = assert_done(&watch, &run, &seen, 14, "foreground").await;
    assert!(shown["chunk"].as_u64() >= Some(3), "{shown}");
    assert_eq!(shown["crashes"], 0, "{shown}");
}

#[tokio::test]
async fn e07_an_asynchronous_invocation_that_is_synchronous_holds_nothing_up() {
    let watch = Watch::start(Dispatch::Invoke, &SHORT_CHUNKS).await;
    let run = watch.start_run(&naps(14, 500)).await;
    let seen = read_to_the_end(&watch, &run).await;
    let shown = assert_done(&watch, &run, &seen, 14, "background").await;
    assert!(shown["chunk"].as_u64() >= Some(3), "{shown}");
}

#[tokio::test]
async fn a_run_goes_on_after_a_reload_in_the_middle_of_a_chunk() {
    let mut watch = Watch::start(Dispatch::Background, &[]).await;
    let run = watch.start_run(&naps(10, 300)).await;
    let mut seen = reader::follow(watch.url("foreground"), run.clone());
    reader::wait_for(&mut seen, "a step is done", |seen| seen.count("step.committed") >= 2).await;
    watch.kill_function("background").await;
    watch.start_function("background");

    // The schedule finds out, once the lease has lapsed.
    wait_until("the schedule has brought the run to its end", PATIENCE, async || {
        let said = watch.sweep().await;
        assert!(said.starts_with("sweep: "), "{said}");
        seen.borrow().ended
    })
    .await;
    let seen = seen.borrow().clone();
    let shown = assert_done(&watch, &run, &seen, 10, "background").await;
    assert_eq!((&shown["crashes"], &shown["chunk"]), (&json!(1), &json!(2)), "{shown}");
}

#[tokio::test]
async fn cargo_lambda_invoke_starts_a_run() {
    let watch = Watch::start(Dispatch::Background, &[]).await;
    let answer = watch.invoke("start-run.json").await;
    let said = String::from_utf8_lossy(&answer.stdout);
    assert!(
        answer.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    // Its stream, to its end.
    for kind in ["run.accepted", "step.committed", "run.completed"] {
        assert!(said.contains(&format!("event: {kind}")), "{said}");
    }
    let runs = watch.get("/api/v1/runs").await;
    let run = runs["runs"][0]["runId"].as_str().expect("a run");
    let shown = watch.ended(run).await;
    assert_eq!(
        (&shown["status"], &shown["progress"]["committed"]),
        (&json!("completed"), &json!(2))
    );
}
