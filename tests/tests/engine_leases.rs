//! Leases, the sweep, and deliveries that come twice, late, or not at all.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::limits::Timing;
use outlast_core::{Event, EventBody, RunId, Status};
use outlast_engine::accept::NotAccepted;
use outlast_engine::control::stop;
use outlast_engine::process::Processed;
use outlast_engine::sweep::sweep;
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable, gate};
use outlast_store::table::Key;
use outlast_tests::rig::{Deliver, Rig, RigOptions, TestClock, deliver, quick_plan};
use serde_json::json;

const CAP: Duration = Duration::from_secs(3600);

fn nap(ms: u64) -> serde_json::Value {
    json!({ "steps": [{ "key": "nap", "tool": "sleep", "input": { "ms": ms } }] })
}

fn story(log: &[Event]) -> Vec<String> {
    log.iter()
        .map(|event| match &event.body {
            EventBody::RunClaimed { epoch, .. } => format!("claimed {epoch}"),
            EventBody::RunLost { epoch, .. } => format!("lost {epoch}"),
            EventBody::StepStarted { key, .. } => format!("started {key}"),
            EventBody::StepCommitted { key, .. } => format!("committed {key}"),
            EventBody::RunAccepted { .. } => "accepted".into(),
            EventBody::PlanDeclared { .. } => "plan".into(),
            EventBody::StopRequested => "stop".into(),
            EventBody::RunCompleted(_) => "completed".into(),
            EventBody::RunCancelled(_) => "cancelled".into(),
            other => format!("{other:?}"),
        })
        .collect()
}

/// Takes a delivery in a task of its own, which a test may kill.
fn spawn_delivery(rig: &Rig, index: usize) -> tokio::task::JoinHandle<Option<Processed>> {
    let (engine, dispatch) = (rig.engine.clone(), rig.sent()[index].clone());
    tokio::spawn(async move { deliver(&engine, &dispatch, CAP).await })
}

async fn until_started(rig: &Rig, run: &RunId, step: &str) {
    let what = format!("{step} has started");
    outlast_tests::wait::wait_until(what, Duration::from_secs(60), async || {
        story(&rig.log(run).await).contains(&format!("started {step}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r25_the_same_delivery_twice_and_again_after_the_end() {
    let (mut options, _) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(5)).await;
    let first = spawn_delivery(&rig, 0);
    tokio::time::advance(Duration::from_millis(50)).await;
    let second = spawn_delivery(&rig, 0);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let worked = [&first, &second]
        .iter()
        .filter(|done| matches!(done, Some(Processed::Worked(_))))
        .count();
    assert_eq!(worked, 1, "{first:?} {second:?}");
    let before = (rig.log(&run).await, rig.row(&run).await);
    for _ in 0..2 {
        let late = spawn_delivery(&rig, 0).await.unwrap();
        assert!(matches!(late, Some(Processed::NotClaimed(_))), "{late:?}");
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert_eq!(
        (rig.log(&run).await, rig.row(&run).await),
        before,
        "no event, no cost, no attempt"
    );
    assert_eq!(before.1.counters.chunks, 1);
}

#[tokio::test(start_paused = true)]
async fn r20_a_dispatch_that_was_accepted_and_lost_is_sent_again() {
    let (mut options, _) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(2)).await;
    assert_eq!(rig.sent().len(), 1);
    rig.set_deliver(Deliver::AtOnce);
    tokio::time::advance(Duration::from_secs(3)).await;
    let swept = sweep(&rig.engine).await.unwrap();
    assert_eq!((swept.looked_at, swept.dispatched), (1, 1));
    assert_eq!(rig.ended(&run).await.run.status, Status::Completed);
    // The lost one turns up: nothing is left for it.
    let late = spawn_delivery(&rig, 0).await.unwrap();
    assert!(matches!(late, Some(Processed::NotClaimed(_))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn r20_a_refused_dispatch_is_on_the_row_and_comes_again() {
    let (mut options, _) = RigOptions::in_memory();
    options.deliver = Deliver::Refuse;
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(2)).await;
    let row = rig.row(&run).await;
    assert_eq!(row.dispatch.stage, outlast_core::run::DispatchStage::Refused);
    assert_eq!(row.dispatch.error.as_deref(), Some("throttled"));
    rig.set_deliver(Deliver::AtOnce);
    tokio::time::advance(Duration::from_secs(3)).await;
    sweep(&rig.engine).await.unwrap();
    assert_eq!(rig.ended(&run).await.run.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_killed_holder_is_lost_and_the_next_goes_on() {
    let (mut options, _) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&nap(60_000)).await;
    let holder = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "nap").await;
    holder.abort();
    let _ = holder.await;
    let died_at = rig.row(&run).await.last_sign_of_life;
    rig.set_deliver(Deliver::AtOnce);
    tokio::time::advance(Duration::from_secs(30)).await;
    sweep(&rig.engine).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.counters.crashes, 1);
    let log = rig.log(&run).await;
    let expected = [
        "accepted",
        "claimed 1",
        "plan",
        "started nap",
        "lost 1",
        "claimed 2",
        "started nap",
        "committed nap",
        "completed",
    ];
    assert_eq!(story(&log), expected);
    let lost = log.iter().find_map(|event| match event.body {
        EventBody::RunLost { last_sign_of_life, .. } => Some(last_sign_of_life),
        _ => None,
    });
    assert_eq!(lost, died_at, "a lapse is dated by the last sign of life");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_a_run_whose_holder_is_dead_frees_the_thread_at_once_or_within_the_lease() {
    for force in [true, false] {
        let (mut options, _) = RigOptions::in_memory();
        options.deliver = Deliver::Hold;
        let rig = Rig::new(options);
        let mut request = rig.request(&nap(60_000));
        request.thread = Some("t".into());
        let run = rig.try_start(request.clone()).await.unwrap().run.id;
        let holder = spawn_delivery(&rig, 0);
        until_started(&rig, &run, "nap").await;
        holder.abort();
        let _ = holder.await;
        let stopped = stop(&rig.engine, &rig.owner, &run, force).await.unwrap();
        assert_eq!(stopped.status.is_terminal(), force);
        if !force {
            let busy = rig.try_start(request.clone()).await;
            assert!(matches!(busy, Err(NotAccepted::ThreadBusy(_))), "{busy:?}");
            tokio::time::advance(Timing::LOCAL.lease).await;
        }
        // The thread is asked for: whoever asks looks at the run that has it, and needs no sweep.
        rig.try_start(request).await.expect("the thread is free");
        assert_eq!(rig.row(&run).await.status, Status::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn r24_a_lapsed_holder_that_nobody_replaced_goes_on_and_a_replaced_one_changes_nothing() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);

    // The first holder's beats are all lost; it lapses, and ends its chunk by its own clock.
    let run = rig.start(&nap(600_000)).await;
    let holder = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "nap").await;
    table.fault(Fault::on(Kind::Write, "run#", Effect::LoseRequest).always());
    let ended = holder.await.unwrap();
    let row = rig.row(&run).await;
    // No sweep came and no one claimed: its hand-off is still good.
    assert!(matches!(ended, Some(Processed::Worked(_))), "{ended:?}");
    assert_eq!((row.status, row.epoch, row.counters.crashes), (Status::Queued, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn r24_two_claims_of_a_lapsed_run_and_its_old_holder_at_once() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&nap(10_000)).await;
    let old = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "nap").await;
    // The old holder freezes in the middle of its next write of the row.
    let (thaw, frozen) = gate();
    table.fault(Fault::on(Kind::Write, "run#", Effect::HoldRequest(frozen)));
    thaw.arrived().await;
    tokio::time::advance(Duration::from_secs(30)).await;
    sweep(&rig.engine).await.unwrap();
    let (first, second) = (spawn_delivery(&rig, 1), spawn_delivery(&rig, 1));
    until_started(&rig, &run, "nap").await;
    thaw.open();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let worked = [&first, &second]
        .iter()
        .filter(|done| matches!(done, Some(Processed::Worked(_))))
        .count();
    assert_eq!(worked, 1, "{first:?} {second:?}");
    let before = rig.log(&run).await;
    old.await.unwrap();
    assert_eq!(rig.log(&run).await, before, "the old holder changes nothing");
    let claims = story(&before)
        .into_iter()
        .filter(|line| line.starts_with("claimed"))
        .collect::<Vec<_>>();
    assert_eq!(claims, ["claimed 1", "claimed 2"]);
    assert_eq!(story(&before).last().unwrap(), "completed");
}

#[tokio::test(start_paused = true)]
async fn r22_a_beat_between_the_sweeps_read_and_its_write_wins() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&nap(20_000)).await;
    let holder = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "nap").await;
    let sweeper = another_host(&rig, table.clone(), 20_000);
    // The sweeper's clock is ahead: to it the lease has lapsed. Before its write lands, a beat does.
    let (let_write, held) = gate();
    table.fault(Fault::on(Kind::Transact, "run#", Effect::HoldRequest(held)));
    let sweeping = tokio::spawn(async move { sweep(&sweeper.engine).await });
    let_write.arrived().await;
    let beat_at = rig.row(&run).await.version;
    outlast_tests::wait::wait_until("a beat has landed", Duration::from_secs(60), async || {
        rig.row(&run).await.version > beat_at
    })
    .await;
    let_write.open();
    sweeping.await.unwrap().unwrap();
    let row = rig.row(&run).await;
    // It read again, still thought it lapsed by its clock, or skipped: either way there is one rule. The log decides.
    holder.await.unwrap();
    let log = story(&rig.log(&run).await);
    let lost = log.iter().filter(|line| line.starts_with("lost")).count();
    assert_eq!(lost, usize::try_from(row.counters.crashes).unwrap());
    assert!(
        log.iter().filter(|line| *line == "committed nap").count() <= 1,
        "{log:?}"
    );
}

/// Another process on the same table, its wall clock ahead by so much.
fn another_host(rig: &Rig, table: Arc<MemoryTable>, ahead_ms: i64) -> Rig {
    let _ = rig;
    let mut options = RigOptions::new(table);
    options.clock = TestClock::skewed(ahead_ms);
    options.deliver = Deliver::Hold;
    options.seed = 2;
    Rig::new(options)
}

#[tokio::test(start_paused = true)]
async fn r22_one_poisoned_row_among_fifty_and_two_sweeps_at_once() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let mut runs = Vec::new();
    for _ in 0..50 {
        runs.push(rig.start(&quick_plan(1)).await);
    }
    let poisoned = Key::Row {
        pk: format!("run#{}", runs[17]),
        sk: "meta".into(),
    };
    let mut item = table.peek(&poisoned).unwrap();
    item.remove("status");
    table.plant(poisoned, Some(item));
    rig.set_deliver(Deliver::AtOnce);
    tokio::time::advance(Duration::from_secs(3)).await;
    let (one, other) = tokio::join!(sweep(&rig.engine), sweep(&rig.engine));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.dispatched + other.dispatched, 49, "{one:?} {other:?}");
    for (index, run) in runs.iter().enumerate().filter(|(index, _)| *index != 17) {
        assert_eq!(rig.ended(run).await.run.status, Status::Completed, "run {index}");
    }
    // It has been moved out of the way: the next pass does not look at it.
    let again = sweep(&rig.engine).await.unwrap();
    assert_eq!(again.failed, 0, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn r21_what_only_waits_is_left_alone() {
    let (mut options, _) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = rig.start(&nap(40_000)).await;
    // Claimed late, after a cold start.
    tokio::time::advance(Duration::from_millis(1_500)).await;
    let holder = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "nap").await;
    for _ in 0..10 {
        tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(2)).await;
        let swept = sweep(&rig.engine).await.unwrap();
        assert_eq!((swept.lost, swept.dispatched, swept.ended), (0, 0, 0));
    }
    holder.await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.run.counters.crashes), (Status::Completed, 0));
}

#[tokio::test(start_paused = true)]
async fn e04_clocks_that_disagree_never_make_two_writers() {
    for ahead_ms in [-20_000, 20_000] {
        let (mut options, table) = RigOptions::in_memory();
        options.deliver = Deliver::Hold;
        let rig = Rig::new(options);
        let run = rig.start(&nap(10_000)).await;
        let holder = spawn_delivery(&rig, 0);
        until_started(&rig, &run, "nap").await;
        let other = another_host(&rig, table, ahead_ms);
        sweep(&other.engine).await.unwrap();
        for dispatch in other.sent() {
            deliver(&other.engine, &dispatch, CAP).await;
        }
        holder.await.unwrap();
        let ended = rig.ended(&run).await;
        let log = story(&rig.log(&run).await);
        assert_eq!(ended.run.status, Status::Completed, "{log:?}");
        assert_eq!(log.iter().filter(|line| *line == "committed nap").count(), 1, "{log:?}");
        assert_eq!(log.iter().filter(|line| *line == "completed").count(), 1, "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_keeps_losing_the_tail_reaches_the_log_through_the_holder() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let steps: Vec<_> = (0..100)
        .map(|n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 100 } }))
        .collect();
    let run = rig.start(&json!({ "steps": steps })).await;
    let holder = spawn_delivery(&rig, 0);
    until_started(&rig, &run, "s3").await;
    table.fault(Fault::on(Kind::Transact, "run#", Effect::Cancel(page_collides())).times(5));
    let stopped = stop(&rig.engine, &rig.owner, &run, false).await.unwrap();
    assert!(stopped.stopping && stopped.stop_unlogged);
    holder.await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Cancelled);
    assert!(!ended.run.stop_unlogged);
    let log = story(&rig.log(&run).await);
    let stop_at = log.iter().position(|line| line == "stop").expect("it is in the log");
    assert!(
        log[stop_at..].iter().all(|line| !line.starts_with("started")),
        "{log:?}"
    );
    assert_eq!(log.last().unwrap(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn what_asked_to_start_before_the_stop_was_known_does_not_start() {
    let (mut options, table) = RigOptions::in_memory();
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let nap = |key: &str, ms: u64| json!({ "key": key, "tool": "sleep", "input": { "ms": ms } });
    let steps = json!([nap("s0", 100), nap("s1", 200), nap("s2", 100), nap("s3", 100)]);
    let run = rig.start(&json!({ "steps": steps, "concurrency": 2 })).await;
    // The page with the first result, and the start of s2, is on its way while s1 ends and s3 asks to start.
    let (let_put, held) = gate();
    table.fault(Fault::on(Kind::Write, "events/", Effect::HoldRequest(held)).after(2));
    let holder = spawn_delivery(&rig, 0);
    let_put.arrived().await;
    tokio::time::advance(Duration::from_millis(300)).await;
    stop(&rig.engine, &rig.owner, &run, false).await.unwrap();
    let_put.open();
    holder.await.unwrap();
    let log = story(&rig.log(&run).await);
    let expected = [
        "accepted",
        "claimed 1",
        "plan",
        "started s0",
        "started s1",
        "stop",
        "committed s0",
        "committed s1",
        "cancelled",
    ];
    assert_eq!(log, expected);
}

/// What a transaction of row and page is cancelled for when another page stands there.
fn page_collides() -> Vec<outlast_store::table::Reason> {
    use outlast_store::table::Reason;
    vec![Reason::None, Reason::ConditionFailed(None)]
}
