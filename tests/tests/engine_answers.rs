//! Questions and their answers: each is settled once, none is lost, and who waits for one holds no compute.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::outcome::ErrorInfo;
use outlast_core::{EventBody, Owner, Refusal, RunId, Status, StepKey};
use outlast_engine::answer::{Answer, NotAnswered, answer};
use outlast_engine::control::stop;
use outlast_engine::sweep::sweep;
use outlast_engine::{Ask, Ctx, EngineError, StepError};
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable, gate};
use outlast_store::table::Reason;
use outlast_tests::rig::{Deliver, Rig, RigOptions, deliver};
use outlast_tests::scripted::{
    Code, count, nap, payload, scripted, start, story, swept_to_its_end, swept_until, value_of,
};
use outlast_tests::wait::{after, wait_until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// Asks `ok?` and gives what came of it.
fn asks(question: Ask) -> (RigOptions, Arc<MemoryTable>) {
    scripted(move |ctx| {
        let question = question.clone();
        Box::pin(async move { Ok(outcome_of(ctx.ask("ok?", question).await?.answer::<Value>().await)) })
    })
}

fn outcome_of(answered: Result<Value, StepError>) -> Value {
    match answered {
        Ok(value) => json!({ "value": value }),
        Err(StepError::Failed { error, .. }) => json!({ "error": [error.kind, error.message] }),
        Err(StepError::Expired { .. }) => json!("expired"),
        Err(other) => json!(other.to_string()),
    }
}

async fn answered(rig: &Rig, run: &RunId, key: &str, value: Value) -> Result<(), NotAnswered> {
    let value = Answer::Value(payload(&value));
    answer(&rig.engine, &rig.owner, run, key, value).await.map(drop)
}

async fn parked(rig: &Rig, run: &RunId) {
    swept_until(rig, run, Status::Waiting, SECOND, Duration::from_secs(30)).await;
}

/// The first dispatch that was kept back and has not been delivered, by a task.
fn spawn_delivery(rig: &Rig, index: usize) -> JoinHandle<()> {
    let (engine, dispatch) = (rig.engine.clone(), rig.sent()[index].clone());
    tokio::spawn(async move {
        deliver(&engine, &dispatch, HOUR).await;
    })
}

/// The transaction of an answer finds its place in the log taken.
fn loses_the_tail() -> Effect {
    Effect::Cancel(vec![Reason::None, Reason::None, Reason::ConditionFailed(None)])
}

fn settlements(log: &[outlast_core::Event]) -> usize {
    count(log, |body| matches!(body, EventBody::AnswerRecorded { .. }))
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_the_run_that_is_parked_for_it() {
    let (options, _) = asks(Ask::default());
    let rig = Rig::new(options);
    let run = start(&rig).await;
    parked(&rig, &run).await;
    let row = rig.row(&run).await;
    assert_eq!((row.due_at, row.lease_expires_at), (Some(row.ends_at), None));
    assert!(rig.spawner.chunks().is_empty(), "it holds no compute");
    // Days later, and no sweep comes by.
    after(50 * HOUR).await;
    answered(&rig, &run, "ok?", json!({ "yes": true })).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed);
    assert_eq!(value_of(&ended), json!({ "value": { "yes": true } }));
    let expected = [
        "run.accepted",
        "run.claimed",
        "approval.required ok%3F",
        "run.parked",
        "answer.recorded ok%3F",
        "run.claimed",
        "run.completed",
    ];
    assert_eq!(story(&rig.log(&run).await), expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_null_or_an_error() {
    let error = ErrorInfo::new("declined", "not today");
    for (given, came) in [
        (Answer::Value(payload(&())), json!({ "value": null })),
        (Answer::Error(error), json!({ "error": ["declined", "not today"] })),
    ] {
        let (options, _) = asks(Ask {
            default: Some(json!("the default")),
            expires_in: Some(HOUR),
            schema: None,
        });
        let rig = Rig::new(options);
        let run = start(&rig).await;
        parked(&rig, &run).await;
        answer(&rig.engine, &rig.owner, &run, "ok?", given).await.unwrap();
        assert_eq!(value_of(&rig.ended(&run).await), came);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_in_time_it_is_the_default_or_an_error() {
    for (default, came) in [
        (Some(json!([1])), json!({ "value": [1] })),
        (Some(Value::Null), json!({ "value": null })),
        (None, json!("expired")),
    ] {
        let (options, _) = asks(Ask {
            expires_in: Some(HOUR),
            default,
            schema: None,
        });
        let rig = Rig::new(options);
        let run = start(&rig).await;
        parked(&rig, &run).await;
        let row = rig.row(&run).await;
        assert!(row.due_at < Some(row.created_at + HOUR + SECOND));
        let ended = swept_to_its_end(&rig, &run, 2 * HOUR).await;
        assert_eq!((ended.run.status, value_of(&ended)), (Status::Completed, came));
        assert_eq!(settlements(&rig.log(&run).await), 1);
        let late = answered(&rig, &run, "ok?", json!(1)).await;
        assert!(matches!(late, Err(NotAnswered::Settled { .. })), "{late:?}");
    }
}

/// Late answers that were kept.
fn kept(table: &MemoryTable) -> usize {
    let requests = table.requests();
    let kept = requests
        .iter()
        .filter(|request| request.is_write() && request.names("/evidence#"));
    kept.count()
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_is_the_answer_and_later_ones_are_kept() {
    let (options, table) = scripted(|ctx| {
        Box::pin(async move {
            let asked = ctx.ask("a", Ask::default()).await?;
            ctx.ask("b", Ask::default()).await?.answer::<Value>().await?;
            Ok(outcome_of(asked.answer().await))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    parked(&rig, &run).await;
    let (one, other) = tokio::join!(answered(&rig, &run, "a", json!(1)), answered(&rig, &run, "a", json!(2)),);
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let first = if one.is_ok() { 1 } else { 2 };
    let late = answered(&rig, &run, "a", json!(3)).await;
    assert_eq!(late, Err(NotAnswered::Settled { key: StepKey::new("a") }));
    assert_eq!(kept(&table), 2);
    let stored = rig
        .store
        .stored_answer(&run, &StepKey::new("a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.value, Some(payload(&first)));
    // It was not parked for that one.
    assert_eq!(rig.row(&run).await.status, Status::Waiting);
    answered(&rig, &run, "b", json!(null)).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(value_of(&ended), json!({ "value": first }));
    let late = answered(&rig, &run, "b", json!(3)).await;
    assert!(matches!(late, Err(NotAnswered::Settled { .. })), "{late:?}");
    assert_eq!(settlements(&rig.log(&run).await), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_settles_nothing() {
    let (options, _) = asks(Ask {
        schema: Some(
            json!({ "type": "object", "required": ["amount"], "properties": { "amount": { "maximum": 10 } } }),
        ),
        ..Ask::default()
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    parked(&rig, &run).await;
    let before = rig.log(&run).await;
    for against in [json!(1), json!({}), json!({ "amount": 11 })] {
        let refused = answered(&rig, &run, "ok?", against).await;
        assert!(matches!(refused, Err(NotAnswered::AgainstSchema { .. })), "{refused:?}");
    }
    let unknown = answered(&rig, &run, "else", json!(1)).await;
    assert!(matches!(unknown, Err(NotAnswered::NotAsked { .. })), "{unknown:?}");
    let large = answered(&rig, &run, "ok?", json!("x".repeat(300_000))).await;
    assert!(matches!(large, Err(NotAnswered::TooLarge { .. })), "{large:?}");
    let else_who = Owner::new("else");
    let foreign = answer(&rig.engine, &else_who, &run, "ok?", Answer::Value(payload(&1))).await;
    assert_eq!(foreign.unwrap_err(), NotAnswered::Engine(EngineError::NotFound));
    assert_eq!(rig.log(&run).await, before);
    assert_eq!(rig.row(&run).await.status, Status::Waiting);
    answered(&rig, &run, "ok%3F", json!({ "amount": 10 })).await.unwrap();
    assert_eq!(value_of(&rig.ended(&run).await), json!({ "value": { "amount": 10 } }));
}

#[tokio::test(start_paused = true)]
async fn an_ended_run_takes_no_answer() {
    let (options, table) = asks(Ask::default());
    let rig = Rig::new(options);
    let run = start(&rig).await;
    parked(&rig, &run).await;
    stop(&rig.engine, &rig.owner, &run, false).await.unwrap();
    let before = rig.log(&run).await;
    let refused = answered(&rig, &run, "ok?", json!(1)).await;
    assert_eq!(refused, Err(NotAnswered::Engine(Refusal::Ended.into())));
    assert_eq!(rig.log(&run).await, before);
    assert_eq!(kept(&table), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cant_be_asked_is_refused() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let large = Ask {
                default: Some(json!("x".repeat(70_000))),
                ..Ask::default()
            };
            let no_schema = Ask {
                schema: Some(json!({ "type": "nonsense" })),
                ..Ask::default()
            };
            for (key, question) in [("a", large), ("b", no_schema)] {
                let refused = ctx.ask(key, question).await.map(drop);
                assert!(matches!(refused, Err(StepError::BadQuestion { .. })), "{refused:?}");
            }
            Ok(json!("refused"))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    assert_eq!(value_of(&rig.ended(&run).await), json!("refused"));
}

/// The worst of it: the answer lands when the chunk has decided to park and has not written that yet.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_before_the_park_is_written_is_not_slept_through() {
    let (mut options, table) = asks(Ask::default());
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let (park, held) = gate();
    table.fault(Fault::on(Kind::Transact, "run#", Effect::HoldRequest(held)));
    let holder = spawn_delivery(&rig, 0);
    park.arrived().await;
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    park.open();
    holder.await.unwrap();
    let row = rig.row(&run).await;
    assert_eq!((row.status, rig.sent().len()), (Status::Queued, 2));
    spawn_delivery(&rig, 1).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(value_of(&ended), json!({ "value": 1 }));
    let log = story(&rig.log(&run).await);
    assert_eq!(
        log[2..5],
        ["approval.required ok%3F", "answer.recorded ok%3F", "auto_continue"]
    );
    assert!(!log.contains(&"run.parked".to_owned()));
}

/// Works for a while, and takes the answer when it is there.
fn busy(ctx: Ctx) -> Code {
    Box::pin(async move {
        let asked = ctx.ask("ok?", Ask::default()).await?;
        let (answer, worked) = tokio::join!(asked.answer::<Value>(), async {
            for n in 0..20 {
                nap(&ctx, &format!("s{n}"), 100).await?;
            }
            Ok::<(), StepError>(())
        });
        worked?;
        Ok(outcome_of(answer))
    })
}

async fn until_logged(rig: &Rig, run: &RunId, line: &str) {
    wait_until(format!("the log has {line}"), Duration::from_secs(60), async || {
        story(&rig.log(run).await).contains(&line.to_owned())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_at_work_learns_of_the_answer_with_its_next_page() {
    let (options, _) = scripted(busy);
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_logged(&rig, &run, "step.started s3").await;
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(
        (value_of(&ended), ended.run.counters.chunks),
        (json!({ "value": 1 }), 1)
    );
    assert_eq!(settlements(&rig.log(&run).await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_writes_nothing_learns_of_the_answer_with_its_next_beat() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let asked = ctx.ask("ok?", Ask::default()).await?;
            let (answer, _) = tokio::join!(
                async {
                    let answer = asked.answer::<Value>().await;
                    nap(&ctx, "heard", 1).await?;
                    answer
                },
                nap(&ctx, "long", 60_000),
            );
            Ok(outcome_of(answer))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_logged(&rig, &run, "step.started long").await;
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    after(2 * SECOND).await;
    until_logged(&rig, &run, "step.committed heard").await;
    assert!(!story(&rig.log(&run).await).contains(&"step.committed long".into()));
    assert_eq!(value_of(&rig.ended(&run).await), json!({ "value": 1 }));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_keeps_losing_the_tail_reaches_the_log_through_the_holder() {
    let (options, table) = scripted(busy);
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_logged(&rig, &run, "step.started s3").await;
    table.fault(Fault::on(Kind::Transact, "answer#", loses_the_tail()).times(5));
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    assert_eq!(rig.row(&run).await.answer_unlogged, Some(StepKey::new("ok%3F")));
    assert_eq!(settlements(&rig.log(&run).await), 0);
    let late = answered(&rig, &run, "ok?", json!(2)).await;
    assert!(matches!(late, Err(NotAnswered::Settled { .. })), "{late:?}");
    let ended = rig.ended(&run).await;
    assert_eq!(value_of(&ended), json!({ "value": 1 }));
    assert_eq!(ended.run.answer_unlogged, None);
    assert_eq!(settlements(&rig.log(&run).await), 1);
}

/// Whatever ends the chunk, or the run, before the holder has come to log it.
#[tokio::test(start_paused = true)]
async fn an_answer_that_only_the_row_has_survives_its_holder() {
    let (mut options, table) = scripted(busy);
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let holder = spawn_delivery(&rig, 0);
    until_logged(&rig, &run, "step.started s3").await;
    table.fault(Fault::on(Kind::Transact, "answer#", loses_the_tail()).times(5));
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    for chunk in rig.spawner.chunks() {
        chunk.abort();
    }
    holder.abort();
    after(10 * SECOND).await;
    sweep(&rig.engine).await.unwrap();
    assert_eq!(settlements(&rig.log(&run).await), 0);
    spawn_delivery(&rig, 1).await.unwrap();
    assert_eq!(value_of(&rig.ended(&run).await), json!({ "value": 1 }));
    let log = story(&rig.log(&run).await);
    let claimed = log.iter().rposition(|line| line == "run.claimed").unwrap();
    assert_eq!(log[claimed + 1], "answer.recorded ok%3F");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_only_the_row_has_is_in_the_log_when_the_run_is_ended_from_outside() {
    let (mut options, table) = scripted(busy);
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let holder = spawn_delivery(&rig, 0);
    until_logged(&rig, &run, "step.started s3").await;
    table.fault(Fault::on(Kind::Transact, "answer#", loses_the_tail()).times(5));
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    for chunk in rig.spawner.chunks() {
        chunk.abort();
    }
    holder.abort();
    after(10 * SECOND).await;
    let ended = stop(&rig.engine, &rig.owner, &run, true).await.unwrap();
    assert_eq!((ended.status, ended.answer_unlogged), (Status::Cancelled, None));
    let log = story(&rig.log(&run).await);
    assert_eq!(
        log[log.len() - 3..],
        ["answer.recorded ok%3F", "stop.requested", "run.cancelled"]
    );
}

/// An answer that was taken is not undone by the clock.
#[tokio::test(start_paused = true)]
async fn an_answer_that_only_the_row_has_is_not_overtaken_by_the_expiry() {
    let (mut options, table) = scripted(|ctx| {
        Box::pin(async move {
            let asked = ctx
                .ask(
                    "ok?",
                    Ask {
                        expires_in: Some(3 * SECOND),
                        default: Some(json!("the default")),
                        schema: None,
                    },
                )
                .await?;
            let (answer, _) = tokio::join!(asked.answer::<Value>(), nap(&ctx, "long", 10_000));
            Ok(outcome_of(answer))
        })
    });
    // No beat tells the holder in between.
    options.timing.beat = Duration::from_secs(4);
    options.timing.lease = Duration::from_secs(30);
    let rig = Rig::new(options);
    let run = start(&rig).await;
    until_logged(&rig, &run, "step.started long").await;
    table.fault(Fault::on(Kind::Transact, "answer#", loses_the_tail()).times(5));
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(value_of(&ended), json!({ "value": 1 }));
    assert_eq!(settlements(&rig.log(&run).await), 1);
}

/// Both at once, in either order: one of them is stored, and it is what the code gets.
#[tokio::test(start_paused = true)]
async fn of_an_answer_and_the_expiry_at_once_one_settles_it() {
    for held_first in [true, false] {
        let (options, table) = asks(Ask {
            expires_in: Some(5 * SECOND),
            ..Ask::default()
        });
        let rig = Rig::new(options);
        let run = start(&rig).await;
        until_logged(&rig, &run, "approval.required ok%3F").await;
        let (first, held) = gate();
        let effect = if held_first {
            Effect::HoldRequest(held)
        } else {
            Effect::HoldReply(held)
        };
        table.fault(Fault::on(Kind::Transact, "answer#", effect));
        // The expiry's transaction.
        first.arrived().await;
        let came = answered(&rig, &run, "ok?", json!(1)).await;
        first.open();
        assert_eq!(came.is_ok(), held_first, "{came:?}");
        let expected = if held_first {
            json!({ "value": 1 })
        } else {
            json!("expired")
        };
        assert_eq!(value_of(&rig.ended(&run).await), expected);
        assert_eq!(settlements(&rig.log(&run).await), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_reply_was_lost_has_landed() {
    let (options, table) = asks(Ask::default());
    let rig = Rig::new(options);
    let run = start(&rig).await;
    parked(&rig, &run).await;
    table.fault(Fault::on(Kind::Transact, "answer#", Effect::LoseReply).times(2));
    answered(&rig, &run, "ok?", json!(1)).await.unwrap();
    assert_eq!(value_of(&rig.ended(&run).await), json!({ "value": 1 }));
}

#[tokio::test(start_paused = true)]
async fn a_question_keeps_its_expiry_over_chunks_and_its_terms_are_its_input() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let asked = ctx
                .ask(
                    "ok?",
                    Ask {
                        expires_in: Some(2 * HOUR),
                        ..Ask::default()
                    },
                )
                .await?;
            ctx.wait("meanwhile", HOUR).await?;
            let at = asked.expires_at().map(|at| at.as_millis());
            Ok(json!([at, outcome_of(asked.answer().await)]))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let ended = swept_to_its_end(&rig, &run, 3 * HOUR).await;
    let asked_at = rig.log(&run).await[2].at.as_millis();
    let value = value_of(&ended);
    assert_eq!(value[1], "expired");
    assert!(value[0].as_i64().unwrap() - asked_at <= 2 * 3_600_000);
}
