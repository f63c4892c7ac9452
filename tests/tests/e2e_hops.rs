//! Lambda's recursion detection, and a run of more chunks than it allows.
//!
//! That the real functions take part in it is shown here and not assumed: nothing in Outlast handles a trace. The
//! runtime (lambda_runtime 1.5) puts each invocation's `Lambda-Runtime-Trace-Id` into `_X_AMZN_TRACE_ID`, the SDK sends
//! that as `X-Amzn-Trace-Id` because `AWS_LAMBDA_FUNCTION_NAME` is set too, and the emulated Lambda counts by nothing
//! else. That AWS itself answers 202 to what it drops, and its number, are from AWS's documentation and field reports.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::lambda::{Event, Failure, RecursiveLoop};
use outlast_tests::log_rules::{count, has_ended};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const STEPS: usize = 25;
/// Of one function in one chain, before its next invocation is dropped.
const HOPS: usize = 16;

/// A chunk ends when a step outlives its soft cap: a step as long as the cap is one chunk.
const CHUNK: Duration = Duration::from_millis(500);

async fn deploy(recursive_loop: RecursiveLoop) -> Deployment {
    let options = Options {
        recursive_loop,
        ..Options::default()
    };
    Deployment::start(options.with_short_chunks(CHUNK)).await
}

fn plan() -> Value {
    let ms = CHUNK.as_millis();
    let steps = (0..STEPS).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

/// However it ended.
fn is_dropped(event: &Event) -> bool {
    event.outcomes == [Err(Failure::Dropped)]
}

/// Each step was started once and committed once, in no fewer chunks than there are steps; a slow machine may need more.
async fn assert_ran_once(deployed: &Deployment, run: &str, log: &[Value]) {
    let mut started = BTreeMap::<&str, usize>::new();
    for event in log.iter().filter(|event| event["type"] == "step.started") {
        *started.entry(event["key"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(started.len(), STEPS);
    assert!(started.values().all(|times| *times == 1), "{started:?}");
    assert_eq!((count(log, "step.committed"), count(log, "run.lost")), (STEPS, 0));
    let claims = count(log, "run.claimed");
    assert!(claims >= STEPS, "{claims}");
    assert_eq!(count(log, "auto_continue"), claims - 1);
    let shown = deployed.show(run).await;
    assert_eq!(shown["status"], "completed", "{shown}");
    assert_eq!(
        (&shown["chunk"], &shown["crashes"]),
        (&json!(claims), &json!(0)),
        "{shown}"
    );
    assert_eq!(shown["progress"]["committed"], STEPS, "{shown}");
}

#[tokio::test]
async fn r02_with_loops_allowed_a_chain_of_25_chunks_runs_to_its_end() {
    let deployed = deploy(RecursiveLoop::Allow).await;
    let run = deployed.start_run(&plan()).await;
    let log = deployed.logged(&run, "the run ends without a sweep", has_ended).await;
    assert_ran_once(&deployed, &run, &log).await;

    // Each chunk was invoked by the one before it, and Lambda can see that: one chain from the POST on.
    let events = deployed.lambda.events();
    assert_eq!(events.len(), count(&log, "run.claimed"));
    for (before, event) in events.iter().enumerate() {
        assert_eq!(event.trace.root, events[0].trace.root);
        assert_eq!(event.trace.times("foreground"), 1);
        assert_eq!(event.trace.times("background"), before as u64);
        assert_eq!(event.outcomes.len(), 1);
        assert_eq!(event.outcomes[0].as_ref().unwrap()["claimed"], true);
    }
}

#[tokio::test]
async fn r02_with_the_setting_absent_the_chain_is_cut_and_the_schedule_goes_on_with_a_fresh_one() {
    assert_eq!(Options::default().recursive_loop, RecursiveLoop::Terminate);
    let deployed = deploy(Options::default().recursive_loop).await;
    let run = deployed.start_run(&plan()).await;
    wait_until("the chain is cut", PATIENCE, async || {
        deployed.lambda.events().iter().any(is_dropped)
    })
    .await;
    // Accepted, so no chunk learnt of it: the last one handed on and was done.
    assert_eq!(deployed.lambda.events().len(), HOPS + 1);
    let cut = deployed.log(&run).await;
    assert_eq!(count(&cut, "run.claimed"), HOPS);
    assert_eq!(kinds(&cut).last(), Some(&"auto_continue"));

    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_eq!(log[..cut.len()], cut);
    assert_ran_once(&deployed, &run, &log).await;
    let events = deployed.lambda.events();
    let (first, rest) = events.split_at(HOPS + 1);
    assert!(first.iter().all(|event| event.trace.root == first[0].trace.root));
    assert_eq!(first.iter().position(is_dropped), Some(HOPS));
    // The schedule's own invocation is the first of its chain.
    assert!(rest.iter().all(|event| event.trace.root != first[0].trace.root));
    assert_eq!(
        (rest[0].trace.times("foreground"), rest[0].trace.times("background")),
        (0, 1)
    );
}
