//! Deliveries that come twice, never, behind others, or hours late, to the real functions: each run has one executor at
//! a time, and what comes too late leaves no trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use outlast_core::env_vars as vars;
use outlast_engine::seams::Random as _;
use outlast_tests::counting::CountingServer;
use outlast_tests::lambda::deployment::{Deployment, Options, Work, kinds};
use outlast_tests::lambda::{Failure, Fate, RecursiveLoop};
use outlast_tests::log_rules::{assert_kept, count, epochs, has_ended};
use outlast_tests::rig::TestRandom;
use outlast_tests::table_proxy::{Fault, Rule};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const HOURS: Duration = Duration::from_secs(6 * 60 * 60);

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

/// What a late delivery must not change.
async fn traces(deployed: &Deployment, run: &str) -> (Vec<Value>, Vec<Value>) {
    let shown = deployed.show(run).await;
    let fields = ["status", "chunk", "crashes", "progress", "cost", "endedAt", "lastSeq"];
    (deployed.log(run).await, fields.map(|field| shown[field].clone()).into())
}

async fn outcome(deployed: &Deployment, event: usize, number: usize) -> Result<Value, Failure> {
    wait_until("the delivery is over", PATIENCE, async || {
        deployed.lambda.events()[event].outcomes.len() > number
    })
    .await;
    deployed.lambda.events()[event].outcomes[number].clone()
}

#[tokio::test]
async fn a_delivery_six_hours_late_is_refused_whatever_became_of_its_run() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.lose(1);
    let run = deployed.start_run(&naps(3, 400)).await;
    let too_late = json!({ "claimed": false, "why": "token_expired" });

    // Nobody has begun it. Where the dispatch died is noted, and the schedule sends another.
    assert_eq!(deployed.deliver_late(0, HOURS).await, Ok(too_late.clone()));
    let shown = deployed.show(&run).await;
    assert_eq!(
        (&shown["status"], &shown["dispatch"]["stage"]),
        (&json!("queued"), &json!("token")),
        "{shown}"
    );
    assert_eq!(kinds(&deployed.log(&run).await), ["run.accepted"]);

    // Another has, and is at work.
    deployed
        .logged_with_sweeps(&run, "another is at work", |log| count(log, "step.started") > 0)
        .await;
    assert_eq!(deployed.deliver_late(0, HOURS).await, Ok(too_late.clone()));
    deployed.logged(&run, "the run ends", has_ended).await;

    // It has ended.
    let before = traces(&deployed, &run).await;
    for late in [Duration::from_secs(5 * 60 + 1), HOURS] {
        assert_eq!(deployed.deliver_late(0, late).await, Ok(too_late.clone()));
    }
    assert_eq!(traces(&deployed, &run).await, before);
    assert_kept(&before.0);
    assert_eq!((epochs(&before.0), count(&before.0, "step.started")), (vec![1], 3));
}

#[tokio::test]
async fn a_delivery_in_hand_of_a_process_that_thaws_hours_later_is_refused() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.lose(1);
    let run = deployed.start_run(&naps(2, 10)).await;
    deployed.background.freeze_next_start();
    let late = deployed.deliver_late(0, HOURS);
    let meanwhile = async {
        wait_until("its process is there", PATIENCE, async || {
            deployed.background.environments().len() == 1
        })
        .await;
        let frozen = deployed.background.busy();
        deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
        let before = traces(&deployed, &run).await;
        frozen.thaw();
        before
    };
    let (said, before) = tokio::join!(late, meanwhile);
    assert_eq!(said, Ok(json!({ "claimed": false, "why": "token_expired" })));
    assert_eq!(traces(&deployed, &run).await, before);
    assert_eq!(epochs(&before.0), [1]);
}

#[tokio::test]
async fn a_delivery_of_an_earlier_epoch_claims_nothing() {
    let deployed = Deployment::start(Options::default()).await;
    let run = deployed.start_run(&naps(8, 200)).await;
    deployed
        .logged(&run, "a step is committed", |log| count(log, "step.committed") > 0)
        .await;
    deployed.background.busy().kill();
    deployed
        .logged_with_sweeps(&run, "another epoch is at work", |log| epochs(log) == [1, 2])
        .await;
    // Its token is still good; what it is for has gone by.
    assert_eq!(deployed.lambda.deliver(0).await.unwrap()["claimed"], false);
    deployed.logged(&run, "the run ends", has_ended).await;
    let before = traces(&deployed, &run).await;
    assert_eq!(deployed.lambda.deliver(0).await.unwrap()["claimed"], false);
    assert_eq!(traces(&deployed, &run).await, before);
    assert_kept(&before.0);
    assert_eq!((epochs(&before.0), count(&before.0, "step.committed")), (vec![1, 2], 8));
}

#[tokio::test]
async fn chunks_whose_deliveries_are_lost_doubled_and_overtaken_do_each_step_once() {
    const STEPS: usize = 9;
    let mut options = Options {
        recursive_loop: RecursiveLoop::Allow,
        ..Options::default()
    };
    options.timing.redispatch_after = Duration::from_millis(500);
    let deployed = Deployment::start(options.with_short_chunks(Duration::from_millis(300))).await;
    let mut drawn = [0; 64];
    TestRandom::seeded(1).fill(&mut drawn);
    let fates: Vec<_> = drawn
        .iter()
        .map(|byte| match byte % 6 {
            0 => Fate::Lost,
            1 | 2 => Fate::Twice,
            3 => Fate::Overtaken(1 + usize::from(byte / 6) % 3),
            _ => Fate::Delivered,
        })
        .collect();
    deployed.lambda.script(fates.clone());
    let run = deployed.start_run(&naps(STEPS, 300)).await;
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;

    let before = traces(&deployed, &run).await;
    let log = &before.0;
    assert_kept(log);
    assert_eq!(
        (count(log, "step.started"), count(log, "step.committed")),
        (STEPS, STEPS)
    );
    assert_eq!(
        (count(log, "run.lost"), log.last().unwrap()["type"].clone()),
        (0, json!("run.completed"))
    );
    let met = &fates[..deployed.lambda.events().len()];
    for fate in [Fate::Lost, Fate::Twice] {
        assert!(met.contains(&fate), "{met:?}");
    }
    assert!(met.iter().any(|fate| matches!(fate, Fate::Overtaken(_))), "{met:?}");

    // All of them once more, in time and hours later.
    for event in 0..met.len() {
        assert_eq!(deployed.lambda.deliver(event).await.unwrap()["claimed"], false);
        assert_eq!(deployed.deliver_late(event, HOURS).await.unwrap()["claimed"], false);
    }
    assert_eq!(traces(&deployed, &run).await, before);
}

#[tokio::test]
async fn r25_a_handler_that_fails_after_it_has_committed_may_be_tried_again() {
    let deployed = Deployment::start(Options {
        proxied: true,
        ..Options::default()
    })
    .await;
    let proxy = deployed.background_proxy();
    proxy.rule(Rule::transaction_with("run.completed", Fault::HeldReply));
    let run = deployed.start_run(&naps(2, 10)).await;
    wait_until("its end is in the log", PATIENCE, async || proxy.held() == 1).await;
    deployed.background.busy().kill();
    assert!(matches!(outcome(&deployed, 0, 0).await, Err(Failure::Exited(_))));

    let before = traces(&deployed, &run).await;
    assert!(has_ended(&before.0));
    // As Lambda's own two retries come: a minute later, and two minutes after that.
    for minutes in [1, 3] {
        let again = deployed.deliver_late(0, Duration::from_secs(minutes * 60)).await;
        assert_eq!(again, Ok(json!({ "claimed": false, "why": "ended" })));
    }
    assert_eq!(traces(&deployed, &run).await, before);
    assert_eq!((epochs(&before.0), count(&before.0, "step.started")), (vec![1], 2));
}

#[tokio::test]
async fn r21_a_claim_long_after_its_dispatch_is_in_time() {
    let mut options = Options::default();
    options.timing.redispatch_after = Duration::from_secs(60);
    let deployed = Deployment::start(options).await;
    deployed.background.freeze_next_start();
    let run = deployed.start_run(&naps(2, 10)).await;
    wait_until("its process is there", PATIENCE, async || {
        deployed.background.environments().len() == 1
    })
    .await;
    let cold = deployed.background.busy();
    // Longer than a lease, and the schedule ticks meanwhile.
    let begun = std::time::Instant::now();
    wait_until("a lease's time has passed", PATIENCE, async || {
        let swept = deployed.sweep().await;
        assert_eq!(
            (&swept["lost"], &swept["dispatched"], &swept["ended"]),
            (&json!(0), &json!(0), &json!(0))
        );
        begun.elapsed() > Duration::from_secs(4)
    })
    .await;
    cold.thaw();
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    assert_eq!((epochs(&log), count(&log, "run.completed")), (vec![1], 1));
    assert_eq!(deployed.lambda.events().len(), 1);
}

/// Answers 429 with `Retry-After` to the first request, 200 to others; how often it was asked.
async fn busy_server(seconds: u64) -> (String, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let answer = async move |State(asked): State<Arc<AtomicU64>>| -> Response {
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => (
                http::StatusCode::TOO_MANY_REQUESTS,
                [("retry-after", seconds.to_string())],
            )
                .into_response(),
            _ => http::StatusCode::OK.into_response(),
        }
    };
    let router = Router::new().fallback(any(answer)).with_state(asked.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

#[tokio::test]
async fn r27_r21_a_delay_beyond_the_cap_parks_the_run_and_the_schedule_leaves_it_alone_until_then() {
    let (url, asked) = busy_server(5).await;
    let deployed = Deployment::start(Options {
        variables: vec![(vars::BACKGROUND_SOFT_CAP.name, "2".into())],
        ..Options::default()
    })
    .await;
    let step = json!({ "key": "a", "tool": "http_request", "input": { "method": "GET", "url": url } });
    let run = deployed.start_run(&json!({ "steps": [step] })).await;
    let log = deployed
        .logged(&run, "it is parked", |log| count(log, "run.parked") == 1)
        .await;
    // It doesn't sleep to its cap first.
    let ms = |event: &Value| {
        event["at"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_millisecond()
    };
    let parked = log.last().unwrap();
    assert!(ms(parked) - ms(&log[1]) < 1500, "{log:#?}");
    assert_eq!(deployed.show(&run).await["status"], "waiting");
    let mut ticks = 0;
    wait_until("its time has come", PATIENCE, async || {
        let swept = deployed.sweep().await;
        ticks += 1;
        assert_eq!((&swept["lost"], &swept["ended"]), (&json!(0), &json!(0)));
        swept["dispatched"] == 1
    })
    .await;
    assert!(ticks > 5, "{ticks}");
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    assert_kept(&log);
    let claims: Vec<_> = log.iter().filter(|event| event["type"] == "run.claimed").collect();
    assert_eq!(claims.len(), 2, "no loop of chunks: {log:#?}");
    assert!(ms(claims[1]) - ms(parked) > 2500, "{log:#?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(deployed.show(&run).await["status"], "completed");
}

#[tokio::test]
async fn r27_a_step_that_can_not_end_in_this_chunk_begins_in_the_next_at_once() {
    let server = CountingServer::start(&[]).await;
    let deployed = Deployment::start(Options {
        work: Work::Chained,
        variables: vec![(vars::FOREGROUND_SOFT_CAP.name, "30".into())],
        ..Options::default()
    })
    .await;
    // Sent at most once, it may take 30 s: of this chunk and its grace there are 33.
    let post = json!({ "method": "POST", "url": format!("{}/b", server.url) });
    let steps = json!([
        { "key": "a", "tool": "sleep", "input": { "ms": 4000 } },
        { "key": "b", "tool": "http_request", "input": post },
    ]);
    let begun = std::time::Instant::now();
    let run = deployed.start_run(&json!({ "steps": steps })).await;
    let log = deployed.logged(&run, "the run ends", has_ended).await;
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it waited for its cap: {:?}",
        begun.elapsed()
    );
    assert_kept(&log);
    let told: Vec<_> = kinds(&log)
        .into_iter()
        .filter(|kind| !kind.starts_with("plan."))
        .collect();
    let expected = [
        "run.accepted",
        "run.claimed",
        "step.started",
        "step.committed",
        "auto_continue",
        "run.claimed",
        "step.started",
        "step.committed",
        "run.completed",
    ];
    assert_eq!(told, expected);
    assert_eq!(server.counts.by_step().get("b"), Some(&1));
}
