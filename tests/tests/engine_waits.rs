//! Waits: how long they hold compute, that they end once, and what they survive.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_core::{EventBody, Reason, Status, StepKey};
use outlast_engine::StepError;
use outlast_engine::sweep::sweep;
use outlast_tests::rig::{Deliver, Rig};
use outlast_tests::scripted::{count, nap, scripted, start, story, swept_to_its_end, swept_until, value_of};
use outlast_tests::wait::after;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_long_wait_parks_the_run_and_ends_once() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            nap(&ctx, "before", 10).await?;
            ctx.wait("an hour", HOUR).await?;
            nap(&ctx, "after", 10).await?;
            Ok(json!("waited"))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(&rig, &run, Status::Waiting, SECOND, Duration::from_secs(10)).await;
    let log = rig.log(&run).await;
    let until = log.iter().find_map(|event| match &event.body {
        EventBody::WaitStarted { until, .. } => Some(*until),
        _ => None,
    });
    let row = rig.row(&run).await;
    assert_eq!((row.due_at, row.lease_expires_at), (until, None));
    assert!(rig.spawner.chunks().is_empty(), "it holds no compute");
    let ended = swept_to_its_end(&rig, &run, 2 * HOUR).await;
    assert_eq!(
        (ended.run.status, value_of(&ended)),
        (Status::Completed, json!("waited"))
    );
    let expected = [
        "run.accepted",
        "run.claimed",
        "step.started before",
        "step.committed before",
        "wait.started an%20hour",
        "run.parked",
        "run.claimed",
        "wait.ended an%20hour",
        "step.started after",
        "step.committed after",
        "run.completed",
    ];
    assert_eq!(story(&rig.log(&run).await), expected);
    assert!(ended.run.ended_at >= until);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_keeps_its_chunk() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            ctx.wait("a minute", Duration::from_secs(59)).await?;
            Ok(json!(null))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.run.counters.chunks), (Status::Completed, 1));
    let expected = [
        "run.accepted",
        "run.claimed",
        "wait.started a%20minute",
        "wait.ended a%20minute",
        "run.completed",
    ];
    assert_eq!(story(&rig.log(&run).await), expected);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_soft_cap_parks_however_short_it_is() {
    let (mut options, _) = scripted(|ctx| {
        Box::pin(async move {
            ctx.wait("nap", Duration::from_secs(20)).await?;
            Ok(json!(null))
        })
    });
    options.cap = Duration::from_secs(10);
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(&rig, &run, Status::Waiting, SECOND, Duration::from_secs(5)).await;
    let ended = swept_to_its_end(&rig, &run, HOUR).await;
    assert_eq!(ended.run.status, Status::Completed);
}

/// R21: whoever waits is neither lost nor without progress, however often it wakes.
#[tokio::test(start_paused = true)]
async fn r21_a_run_that_only_waits_is_left_alone_and_makes_progress() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            for day in 0..6 {
                ctx.wait(&format!("day {day}"), 24 * HOUR).await?;
            }
            Ok(json!(null))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = swept_to_its_end(&rig, &run, 7 * 24 * HOUR).await;
    assert_eq!((ended.run.status, ended.run.counters.crashes), (Status::Completed, 0));
    let log = rig.log(&run).await;
    assert_eq!(count(&log, |body| matches!(body, EventBody::RunLost { .. })), 0);
    assert_eq!(count(&log, |body| matches!(body, EventBody::RunClaimed { .. })), 7);
    // A chunk that a wake begins doesn't count towards the limit of chunks.
    assert_eq!(ended.run.counters.chunks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_runs_end_is_refused_at_once() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            for (key, time) in [("a", 8 * 24 * HOUR), ("b", Duration::MAX)] {
                let refused = ctx.wait(key, time).await;
                assert!(matches!(refused, Err(StepError::WaitTooLong { .. })), "{refused:?}");
            }
            Ok(json!("refused"))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!(value_of(&ended), json!("refused"));
    assert_eq!(
        story(&rig.log(&run).await),
        ["run.accepted", "run.claimed", "run.completed"]
    );
}

/// The one that was begun counts, in whatever chunk and however long it is asked for there.
#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_where_it_was_after_a_crash() {
    let passes = Arc::new(Mutex::new(0));
    let (mut options, _) = scripted(move |ctx| {
        let pass = {
            let mut passes = passes.lock().unwrap();
            *passes += 1;
            *passes
        };
        Box::pin(async move {
            ctx.wait("nap", Duration::from_secs(if pass == 1 { 50 } else { 5 }))
                .await?;
            Ok(json!(pass))
        })
    });
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let begin = |index: usize| {
        let (engine, dispatch) = (rig.engine.clone(), rig.sent()[index].clone());
        tokio::spawn(async move { outlast_tests::rig::deliver(&engine, &dispatch, HOUR).await })
    };
    let holder = begin(0);
    after(Duration::from_secs(20)).await;
    for chunk in rig.spawner.chunks() {
        chunk.abort();
    }
    holder.abort();
    let began = rig.log(&run).await;
    let until = began.iter().find_map(|event| match &event.body {
        EventBody::WaitStarted { until, .. } => Some(*until),
        _ => None,
    });
    after(Duration::from_secs(10)).await;
    sweep(&rig.engine).await.unwrap();
    begin(1).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, value_of(&ended)), (Status::Completed, json!(2)));
    assert_eq!(ended.run.counters.crashes, 1);
    let log = rig.log(&run).await;
    let end = log
        .iter()
        .find(|event| matches!(event.body, EventBody::WaitEnded { .. }))
        .unwrap();
    let late = end.at.since(until.unwrap());
    assert!(Some(end.at) >= until && late < SECOND, "{late:?}");
    assert_eq!(count(&log, |body| matches!(body, EventBody::WaitStarted { .. })), 1);
    assert_eq!(count(&log, |body| matches!(body, EventBody::WaitEnded { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waited_is_no_step_in_the_next_chunk() {
    let passes = Arc::new(Mutex::new(0));
    let (options, _) = scripted(move |ctx| {
        let pass = {
            let mut passes = passes.lock().unwrap();
            *passes += 1;
            *passes
        };
        Box::pin(async move {
            if pass == 1 {
                ctx.wait("k", HOUR).await?;
            }
            nap(&ctx, "k", 1).await?;
            Ok(json!(null))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = swept_to_its_end(&rig, &run, 2 * HOUR).await;
    assert_eq!(ended.run.reason, Some(Reason::Nondeterminism));
    let error = ended.outcome.unwrap().error.unwrap();
    assert_eq!(error.key, Some(StepKey::new("k")));
    assert_eq!(error.message, "k is a step now and was a wait before");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_asked_for_twice_in_one_pass_is_refused() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            ctx.wait("k", SECOND).await?;
            let again = [
                ctx.wait("k", SECOND).await,
                nap(&ctx, "k", 1).await.map(drop),
                ctx.ask("k", Default::default()).await.map(drop),
            ];
            for refused in again {
                assert!(matches!(refused, Err(StepError::DuplicateKey { .. })), "{refused:?}");
            }
            Ok(json!("refused"))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    assert_eq!(value_of(&rig.ended(&run).await), json!("refused"));
}

/// Of a step in hand and a wait the step goes on; then the run parks until the earliest of its waits.
#[tokio::test(start_paused = true)]
async fn while_a_step_is_at_work_a_wait_beside_it_does_not_park() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let (long, short, nap) = tokio::join!(
                ctx.wait("long", 5 * HOUR),
                ctx.wait("short", 2 * HOUR),
                nap(&ctx, "work", 600_000),
            );
            long?;
            short?;
            Ok(json!(nap?))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(&rig, &run, Status::Waiting, SECOND, Duration::from_secs(700)).await;
    let row = rig.row(&run).await;
    assert_eq!(row.totals.committed, 1);
    let due = row.due_at.unwrap().since(row.created_at);
    assert!(due >= 2 * HOUR && due < 2 * HOUR + SECOND, "{due:?}");
    let ended = swept_to_its_end(&rig, &run, 6 * HOUR).await;
    assert_eq!(
        (ended.run.status, value_of(&ended)),
        (Status::Completed, json!(600_000))
    );
    let log = rig.log(&run).await;
    assert_eq!(count(&log, |body| matches!(body, EventBody::RunParked { .. })), 2);
    assert_eq!(count(&log, |body| matches!(body, EventBody::WaitEnded { .. })), 2);
}

/// A page that was written and whose answer was lost must not become a second end.
#[tokio::test(start_paused = true)]
async fn an_end_whose_put_got_no_answer_is_logged_once() {
    use outlast_store::memory::{Effect, Fault, Kind};
    let (options, table) = scripted(|ctx| {
        Box::pin(async move {
            ctx.wait("nap", SECOND).await?;
            nap(&ctx, "after", 1).await?;
            Ok(json!(null))
        })
    });
    let rig = Rig::new(options);
    table.fault(Fault::on(Kind::Write, "events/", Effect::LoseReply).times(6));
    let run = start(&rig).await;
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed);
    let log = rig.log(&run).await;
    assert_eq!(count(&log, |body| matches!(body, EventBody::WaitEnded { .. })), 1);
}
