//! Faults that a review of the engine found, each shown as it was.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::App;
use outlast_core::outcome::{ErrorInfo, Verification};
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, EventBody, Payload, Reason, RunId, Status, StepKey};
use outlast_engine::control::stop;
use outlast_engine::{Agent, BadInput, BodyError, Ctx, Returned, StepCall, StepError};
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable, gate};
use outlast_store::meter::Meter;
use outlast_store::table::{Answer, Failure, Item, Key, Query, Table, Transacted, Write, Written};
use outlast_tests::rig::{Rig, RigOptions, quick_plan};
use outlast_tests::wait::{after, wait_until};
use serde_json::json;

type Code = Pin<Box<dyn Future<Output = Result<Returned, ErrorInfo>> + Send>>;

/// An agent whose code is the test's.
struct Scripted(fn(Ctx) -> Code);

#[async_trait]
impl Agent for Scripted {
    fn name(&self) -> AgentName {
        AgentName::new("scripted")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    async fn run(&self, ctx: Ctx, _input: Payload) -> Result<Returned, ErrorInfo> {
        (self.0)(ctx).await
    }
}

fn scripted(code: fn(Ctx) -> Code) -> (RigOptions, Arc<MemoryTable>) {
    let (mut options, table) = RigOptions::in_memory();
    options.app = App::new("review").agent(Scripted(code));
    (options, table)
}

async fn start(rig: &Rig) -> RunId {
    let mut request = rig.request(&json!({}));
    request.agent = AgentName::new("scripted");
    rig.try_start(request).await.unwrap().run.id
}

fn done() -> Result<Returned, ErrorInfo> {
    Ok(Returned {
        value: Payload::null(),
        verification: None,
    })
}

/// A step whose body takes this long.
async fn nap(ctx: &Ctx, key: &str, ms: u64) -> Result<(), ErrorInfo> {
    let body = |_: StepCall| async move {
        ctx.pause(Duration::from_millis(ms)).await;
        Ok::<(), BodyError>(())
    };
    ctx.step(key, &(), StepPolicy::IDEMPOTENT, body)
        .await
        .map_err(StepError::into_info)
}

async fn until_started(rig: &Rig, run: &RunId, step: &str) {
    let key = StepKey::new(step);
    wait_until(format!("{step} has started"), Duration::from_secs(60), async || {
        rig.log(run)
            .await
            .iter()
            .any(|event| matches!(&event.body, EventBody::StepStarted { key: started, .. } if *started == key))
    })
    .await;
}

/// Keys of the steps that started behind the stop; the log must hold one.
async fn started_after_the_stop(rig: &Rig, run: &RunId) -> Vec<StepKey> {
    let log = rig.log(run).await;
    let stopped = log
        .iter()
        .position(|event| matches!(event.body, EventBody::StopRequested))
        .expect("a stop in the log");
    let started = log[stopped..].iter().filter_map(|event| match &event.body {
        EventBody::StepStarted { key, .. } => Some(key.clone()),
        _ => None,
    });
    started.collect()
}

/// A result's page collides with the stop and goes behind it; the next step is asked for before the next beat.
#[tokio::test(start_paused = true)]
async fn nothing_starts_between_a_stop_that_a_result_met_and_the_next_beat() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            nap(&ctx, "a", 100).await?;
            ctx.pause(Duration::from_millis(200)).await;
            nap(&ctx, "b", 10).await?;
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_started(&rig, &run, "a").await;
    stop(&rig.engine, &rig.owner, &run, false).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(started_after_the_stop(&rig, &run).await, []);
    assert_eq!((ended.run.status, ended.totals.committed), (Status::Cancelled, 1));
    assert_eq!(ended.run.counters.crashes, 0);
}

/// The same with a start that waited behind the page which met the stop.
#[tokio::test(start_paused = true)]
async fn what_waits_behind_the_page_that_meets_a_stop_does_not_start() {
    let (options, table) = scripted(|ctx| {
        Box::pin(async move {
            let one = async {
                nap(&ctx, "a", 100).await?;
                nap(&ctx, "a2", 10).await
            };
            let other = async {
                nap(&ctx, "b", 150).await?;
                nap(&ctx, "b2", 10).await
            };
            let (one, other) = futures::join!(one, other);
            one.and(other).and_then(|()| done())
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_started(&rig, &run, "b").await;
    let (held, turnstile) = gate();
    table.fault(Fault::on(Kind::Write, "events/", Effect::HoldRequest(turnstile)));
    held.arrived().await;
    tokio::time::advance(Duration::from_millis(100)).await;
    stop(&rig.engine, &rig.owner, &run, false).await.unwrap();
    held.open();
    let ended = rig.ended(&run).await;
    assert_eq!(started_after_the_stop(&rig, &run).await, []);
    assert_eq!((ended.run.status, ended.totals.committed), (Status::Cancelled, 2));
}

/// What the last page of a chunk takes beyond the log's limit was a chunk that ended without its closing write.
#[tokio::test(start_paused = true)]
async fn a_log_that_is_full_by_the_last_page_of_a_chunk_is_no_crash() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            for n in 0..68 {
                let body = |_: StepCall| async { Ok::<_, BodyError>("x".repeat(1_000_000)) };
                ctx.step(&format!("s{n}"), &(), StepPolicy::IDEMPOTENT, body)
                    .await
                    .map_err(StepError::into_info)?;
            }
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.totals.committed), (Status::Completed, 68));
    assert_eq!((ended.run.counters.crashes, ended.run.counters.chunks), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_misses_thousands_ends_the_run_and_counts_them() {
    let (options, _) = scripted(|_| {
        Box::pin(async move {
            let missing: Vec<_> = (0..20_000)
                .map(|n| StepKey::new(format!("a-rather-long-key-of-a-record-{n}")))
                .collect();
            let verification = Verification {
                checked: 20_000,
                missing,
                ..Verification::default()
            };
            Ok(Returned {
                value: Payload::null(),
                verification: Some(verification),
            })
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let outcome = rig.ended(&run).await.outcome.expect("a terminal event");
    assert_eq!((outcome.reason, outcome.remaining), (Some(Reason::NotVerified), 20_000));
    let verification = outcome.verification.unwrap();
    assert_eq!((verification.missing.len(), verification.missing_in_all), (100, 20_000));
}

#[tokio::test(start_paused = true)]
async fn what_no_page_can_hold_ends_the_run_with_its_cause() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let body = |_: StepCall| async {
                let mut error = BodyError::permanent("odd", "");
                error.error.message = "x".repeat(400_000);
                Err::<(), _>(error)
            };
            let _ = ctx.step("a", &(), StepPolicy::IDEMPOTENT, body).await;
            nap(&ctx, "b", 10).await?;
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    let error = ended.outcome.and_then(|outcome| outcome.error).expect("an error");
    assert_eq!(
        (ended.run.reason, error.kind.as_str()),
        (Some(Reason::AgentError), "too_large")
    );
    assert_eq!(ended.run.counters.crashes, 0);
}

/// Hundreds of failures that wait for one page.
#[tokio::test(start_paused = true)]
async fn many_long_errors_at_once_take_more_pages_than_one() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            ctx.at_once(0..500, 500, |ctx, n| async move {
                let body = |_: StepCall| async { Err::<(), _>(BodyError::permanent("odd", "x".repeat(2000))) };
                ctx.step(&format!("s{n}"), &(), StepPolicy::IDEMPOTENT, body)
                    .await
                    .is_err()
            })
            .await;
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.totals.failed), (Status::Completed, 500));
    assert_eq!(ended.run.counters.crashes, 0);
}

#[tokio::test(start_paused = true)]
async fn an_emit_is_refused_by_its_size_and_by_its_second_call_whatever_the_log_has() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let large = ctx.emit("large", &"x".repeat(2_000_000)).await;
            assert!(matches!(large, Err(StepError::BadInput { .. })), "{large:?}");
            assert_eq!(ctx.emit("twice", &1).await, Ok(()));
            // Durable by then.
            ctx.pause(Duration::from_secs(1)).await;
            let again = ctx.emit("twice", &1).await;
            assert!(matches!(again, Err(StepError::DuplicateKey { .. })), "{again:?}");
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed, "{:?}", ended.outcome);
}

#[tokio::test(start_paused = true)]
async fn a_rate_near_zero_is_neither_no_rate_nor_a_panic() {
    for rate in [1e-300, 1e-19] {
        let (options, _) = RigOptions::in_memory();
        let rig = Rig::new(options);
        let mut plan = quick_plan(4);
        plan["rate"] = json!(rate);
        plan["concurrency"] = json!(4);
        let run = rig.start(&plan).await;
        until_started(&rig, &run, "s0").await;
        after(Duration::from_secs(60)).await;
        let view = rig.show(&run).await;
        assert_eq!((view.run.status, view.totals.committed), (Status::Running, 1), "{rate}");
    }
}

/// The run's end is its lease's end: bodies that went on in a grace behind it were counted as a crash.
#[tokio::test(start_paused = true)]
async fn a_run_whose_time_is_over_with_a_body_in_hand_ends_by_its_holder() {
    let (options, _) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let mut request = rig.request(&json!({ "steps": [{ "key": "nap", "tool": "sleep", "input": { "ms": 60_000 } }] }));
    request.ends_at = Some(rig.engine.seams().now() + Duration::from_secs(10));
    let run = rig.try_start(request).await.unwrap().run.id;
    until_started(&rig, &run, "nap").await;
    after(Duration::from_millis(10_100)).await;
    let row = rig.row(&run).await;
    assert_eq!((row.reason, row.counters.crashes), (Some(Reason::TimeLimit), 0));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_run_will_not_live_to_see_is_a_failure_now() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let body = |_: StepCall| async {
                let mut error = BodyError::retryable("http_status", "429");
                error.retry_after = Some(Duration::from_secs(u64::MAX / 1000));
                Err::<(), _>(error)
            };
            let failed = ctx.step("a", &(), StepPolicy::IDEMPOTENT, body).await;
            assert!(matches!(failed, Err(StepError::Failed { .. })), "{failed:?}");
            nap(&ctx, "b", 10).await?;
            done()
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    assert_eq!(rig.ended(&run).await.run.status, Status::Completed);
}

/// A table that takes its time, so that writers can meet.
struct Slow(MemoryTable);

#[async_trait]
impl Table for Slow {
    async fn get(&self, key: &Key, consistent: bool, meter: &Meter) -> Result<Option<Item>, Failure> {
        after(Duration::from_millis(5)).await;
        self.0.get(key, consistent, meter).await
    }

    async fn write(&self, write: &Write, meter: &Meter) -> Result<Written, Failure> {
        after(Duration::from_millis(5)).await;
        self.0.write(write, meter).await
    }

    async fn transact(&self, writes: &[Write], meter: &Meter) -> Result<Transacted, Failure> {
        after(Duration::from_millis(5)).await;
        self.0.transact(writes, meter).await
    }

    async fn query(&self, query: &Query, meter: &Meter) -> Result<Answer, Failure> {
        after(Duration::from_millis(5)).await;
        self.0.query(query, meter).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_force_wins_against_a_busy_holder() {
    let rig = Rig::new(RigOptions::new(Arc::new(Slow(MemoryTable::new()))));
    let run = rig.start(&quick_plan(2000)).await;
    until_started(&rig, &run, "s10").await;
    let began = tokio::time::Instant::now();
    let stopped = stop(&rig.engine, &rig.owner, &run, true).await.unwrap();
    assert_eq!(stopped.status, Status::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(started_after_the_stop(&rig, &run).await, []);
    assert!(rig.show(&run).await.totals.committed < 300);
}

#[tokio::test(start_paused = true)]
async fn a_thread_whose_run_is_gone_is_an_error_and_no_endless_loop() {
    let (options, _) = RigOptions::in_memory();
    let table = Arc::new(MemoryTable::new());
    let rig = Rig::new(RigOptions {
        table: table.clone(),
        ..options
    });
    let mut request = rig.request(&quick_plan(1));
    request.thread = Some("t".into());
    // The thread's write, copied: it names a run that was never stored.
    let thread = Write {
        key: Key::Row {
            pk: "thread#local#t".into(),
            sk: "meta".into(),
        },
        action: outlast_store::table::Action::Update {
            set: vec![
                ("owner".into(), outlast_store::table::text("local")),
                (
                    "live_run".into(),
                    outlast_store::table::text("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                ),
                ("schema".into(), outlast_store::table::number(1)),
            ],
            remove: vec![],
        },
        condition: outlast_store::table::Condition::Always,
    };
    table.write(&thread, &Meter::default()).await.unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(60), rig.try_start(request)).await;
    assert!(refused.expect("an answer").is_err());
}
