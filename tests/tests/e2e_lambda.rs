//! Both functions of Outlast as real processes on an emulated Lambda: what a run does when nothing goes wrong, and what
//! its deliveries, deadlines and caps do to it.

use std::time::Duration;

use outlast_core::env_vars as vars;
use outlast_runtime::internal_event::INTERNAL_DOMAIN;
use outlast_tests::lambda::Deadline;
use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::reader;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

fn nap(key: &str, ms: u64) -> Value {
    json!({ "key": key, "tool": "sleep", "input": { "ms": ms } })
}

fn naps(count: usize, ms: u64) -> Value {
    let steps: Vec<_> = (0..count).map(|step| nap(&format!("s{step}"), ms)).collect();
    json!({ "steps": steps })
}

fn has_ended(log: &[Value]) -> bool {
    log.last().is_some_and(|event| event["type"] == "run.completed")
}

#[tokio::test]
async fn three_steps_from_a_post_to_the_end_of_the_stream() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.make_table("things", "id").await;
    let put = |key: &str| json!({ "key": key, "tool": "put_record", "input": { "table": "things", "key": { "id": key }, "record": { "n": 1 } } });
    let plan = json!({ "steps": [put("a"), nap("b", 20), put("c")] });
    let run = deployed.start_run(&plan).await;

    let mut seen = reader::follow(deployed.url.clone(), run.clone());
    let seen = reader::wait_for(&mut seen, "the stream ends", |seen| seen.ended).await;
    seen.assert_gapless();
    assert_eq!(seen.count("step.committed"), 3);
    assert_eq!(seen.events.last().unwrap()["type"], "run.completed");

    let shown = deployed.show(&run).await;
    assert_eq!(shown["status"], "completed", "{shown}");
    assert_eq!(
        (&shown["progress"]["committed"], &shown["progress"]["planned"]),
        (&json!(3), &json!(3))
    );
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(1), &json!(0)), "{shown}");
    assert_eq!(shown["outcome"]["verification"]["checked"], 2, "{shown}");
    assert!(
        shown["holder"].is_null() || shown["holder"].as_str().unwrap().starts_with("background/"),
        "{shown}"
    );
    assert_eq!(deployed.lambda.events().len(), 1);
}

#[tokio::test]
async fn a_stream_comes_live_through_the_url() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(2, 1500)).await;
    let mut seen = reader::follow(deployed.url.clone(), run.clone());
    // The first step's end is seen while the second is at work: an answer that came as a whole would come too late.
    let live = reader::wait_for(&mut seen, "the first commit", |seen| seen.count("step.committed") == 1).await;
    assert!(!live.ended);
    reader::wait_for(&mut seen, "the end", |seen| seen.ended)
        .await
        .assert_gapless();
}

#[tokio::test]
async fn a_run_crosses_chunks_by_invoking_its_own_function() {
    let deployed = Deployment::start(Options {
        variables: vec![(vars::BACKGROUND_SOFT_CAP.name, "2".into())],
        ..Options::default()
    })
    .await;
    let run = deployed.start_run(&naps(10, 500)).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    let handed_on = kinds(&log).iter().filter(|kind| **kind == "auto_continue").count();
    assert!(handed_on >= 2, "{:?}", kinds(&log));
    let shown = deployed.show(&run).await;
    assert_eq!(shown["chunk"], handed_on + 1, "{shown}");
    assert_eq!(
        (&shown["progress"]["committed"], &shown["crashes"]),
        (&json!(10), &json!(0))
    );
    assert_eq!(deployed.lambda.events().len(), handed_on + 1);
}

#[tokio::test]
async fn a_true_deadline_shortens_the_chunk() {
    // Two minutes less than the wall: the background's margin.
    let deployed = Deployment::start(Options {
        background_timeout: Duration::from_secs(122),
        ..Options::default()
    })
    .await;
    let run = deployed.start_run(&naps(6, 500)).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    assert!(kinds(&log).contains(&"auto_continue"), "{:?}", kinds(&log));
}

#[tokio::test]
async fn r15_nonsense_deadlines_leave_the_cap_and_are_warned_of() {
    for nonsense in [0, 600_000, 3_218_000_000_000] {
        let deployed = Deployment::start(Options {
            background_deadline: Deadline::Nonsense(nonsense),
            variables: vec![(vars::BACKGROUND_SOFT_CAP.name, "2".into())],
            ..Options::default()
        })
        .await;
        let run = deployed.start_run(&naps(5, 600)).await;
        let log = deployed.logged(&run, "the run ends", has_ended).await;
        let handed_on = kinds(&log).iter().filter(|kind| **kind == "auto_continue").count();
        // Three seconds of work under a cap of two: neither a chunk a step nor one without an end.
        assert!((1..=3).contains(&handed_on), "{nonsense}: {:?}", kinds(&log));
        let warned = |line: &String| line.contains("WARN") && line.contains("implausible");
        assert!(deployed.background.lines().iter().any(warned), "{nonsense}");
    }
}

#[tokio::test]
async fn internal_routes_are_not_there_for_a_caller_of_the_url() {
    let deployed = Deployment::start(Options::default()).await;
    for path in ["/_sweep", "/_process-run"] {
        let request = reqwest::Client::new()
            .post(format!("{}{path}?domainName={INTERNAL_DOMAIN}", deployed.url))
            .header("host", INTERNAL_DOMAIN)
            .header("x-forwarded-host", INTERNAL_DOMAIN)
            .body(format!(r#"{{"requestContext":{{"domainName":"{INTERNAL_DOMAIN}"}}}}"#));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        let problem: Value = answer.json().await.unwrap();
        let (_, unknown) = deployed.get("/no-such-route").await;
        assert_eq!(problem["code"], unknown["code"], "{path}");
    }
    // The schedule's own event is let in.
    assert_eq!(deployed.sweep().await["failed"], 0);
}

#[tokio::test]
async fn r25_a_delivery_that_comes_again_leaves_no_trace() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.repeat_after(&[Duration::from_millis(50)]);
    let run = deployed.start_run(&naps(3, 300)).await;
    deployed.logged(&run, "the run ends", has_ended).await;
    wait_until("both deliveries are over", PATIENCE, async || {
        deployed.lambda.events()[0].outcomes.len() == 2
    })
    .await;
    let before = (deployed.log(&run).await, deployed.show(&run).await);

    // And again, after the end.
    deployed.lambda.deliver(0).await.unwrap();
    let after = (deployed.log(&run).await, deployed.show(&run).await);
    assert_eq!(before.0, after.0);
    for field in ["chunk", "crashes", "cost", "dispatch", "status"] {
        assert_eq!(before.1[field], after.1[field], "{field}");
    }
    assert_eq!((&after.1["chunk"], &after.1["crashes"]), (&json!(1), &json!(0)));
    assert_eq!(kinds(&after.0).iter().filter(|kind| **kind == "run.claimed").count(), 1);
    let claimed = deployed.lambda.events()[0].outcomes.clone();
    let claimed: Vec<_> = claimed
        .into_iter()
        .map(|said| said.unwrap()["claimed"] == true)
        .collect();
    assert_eq!(
        (claimed.len(), claimed.iter().filter(|claimed| **claimed).count()),
        (3, 1)
    );
}

#[tokio::test]
async fn a_lost_delivery_is_dispatched_again_by_the_schedule() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.lose(1);
    let run = deployed.start_run(&naps(1, 10)).await;
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    let shown = deployed.show(&run).await;
    assert_eq!((&shown["chunk"], &shown["crashes"]), (&json!(1), &json!(0)), "{shown}");
    // The lost one turns up after all: it is late, and changes nothing.
    let log = deployed.log(&run).await;
    assert_eq!(deployed.lambda.deliver(0).await.unwrap()["claimed"], false);
    assert_eq!(deployed.log(&run).await, log);
}

#[tokio::test]
async fn r29_a_dispatch_has_one_size_whatever_the_run() {
    let deployed = Deployment::start(Options::default()).await;
    for text in ["x".into(), "好🙂é".repeat(34_000), "好🙂é".repeat(123_000)] {
        let input = json!({ "table": "none", "key": { "id": "1" }, "record": { "text": text } });
        let plan = json!({ "steps": [{ "key": "a", "tool": "put_record", "input": input }] });
        deployed.start_run(&plan).await;
    }
    let sizes: Vec<_> = deployed
        .lambda
        .events()
        .iter()
        .take(3)
        .map(|event| event.payload.len())
        .collect();
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    assert!(sizes[0] < 2000, "{sizes:?}");
}

#[tokio::test]
async fn a_function_that_is_configured_wrongly_does_not_start_and_says_why() {
    let deployed = Deployment::start(Options {
        variables: vec![(vars::IDENTITY.name, "nobody".into())],
        ..Options::default()
    })
    .await;
    let (status, _) = deployed.get("/api/v1/runs").await;
    assert_eq!(status, 502);
    let named = |line: &String| line.contains(vars::IDENTITY.name) && line.contains("nobody");
    wait_until("the reason is written", PATIENCE, async || {
        deployed.foreground.lines().iter().any(named)
    })
    .await;
}
