//! Branches side by side: what they come to, when that is decided, and what of N they leave behind.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{EventBody, Reason as EndReason, Status, StepKey};
use outlast_engine::answer::{Answer, NotAnswered, answer};
use outlast_engine::parallel::{Counts, Item, Reason, Share};
use outlast_engine::{Ask, BodyError, Branch, Ctx, Limits, StepCall, StepError};
use outlast_store::memory::{Effect, Fault, Kind, gate};
use outlast_tests::rig::{Deliver, Rig, deliver};
use outlast_tests::scripted::{
    Code, count, nap, payload, scripted, start, story, swept_to_its_end, swept_until, value_of,
};
use outlast_tests::wait::after;
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

async fn fails(ctx: &Ctx, key: &str, after: u64) -> Result<u64, StepError> {
    let body = |_: StepCall| async move {
        ctx.pause(Duration::from_millis(after)).await;
        Err::<u64, _>(BodyError::permanent("no", "it can't be"))
    };
    ctx.step(key, &(), StepPolicy::IDEMPOTENT, body).await
}

/// Runs this agent to the run's end, and gives the run's value and log.
async fn ended<F>(code: F) -> (outlast_engine::show::RunView, Vec<outlast_core::Event>)
where
    F: Fn(Ctx) -> Code + Send + Sync + 'static,
{
    let (options, _) = scripted(code);
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let view = rig.ended(&run).await;
    (view, rig.log(&run).await)
}

/// Items that fail where their number is divisible by three.
async fn thirds(ctx: &Ctx, limits: Limits) -> Result<outlast_engine::Parallel<u64>, StepError> {
    let items = (0..6u64).map(|n| (format!("i{n}"), n));
    ctx.map("fan", items, limits, |ctx, n| async move {
        match n % 3 {
            0 => fails(&ctx, "work", 10 * (6 - n)).await,
            _ => nap(&ctx, "work", 10 * (6 - n)).await,
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn results_come_in_the_order_of_the_items_with_their_counts() {
    let (view, log) = ended(|ctx| {
        Box::pin(async move {
            let done = thirds(&ctx, Limits::default()).await?;
            let counts = Counts {
                succeeded: 4,
                failed: 2,
                ..Counts::default()
            };
            assert_eq!((done.counts, done.reason), (counts, Reason::AllEnded));
            assert_eq!(done.items[1], Item::Succeeded(50));
            assert!(matches!(&done.items[3], Item::Failed(error) if error.kind == "no"));
            let first = done.all().unwrap_err();
            assert_eq!(
                (first.kind.as_str(), first.key),
                ("no", Some(StepKey::new("fan/i0/work")))
            );
            Ok(json!("told"))
        })
    })
    .await;
    assert_eq!((view.run.status, value_of(&view)), (Status::Completed, json!("told")));
    assert_eq!(view.totals.planned, 6);
    assert_eq!(count(&log, |body| matches!(body, EventBody::ParallelEnded { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn bad_limits_are_refused_before_anything_starts() {
    let (view, log) = ended(|ctx| {
        Box::pin(async move {
            let limits = |concurrency, min_successes, tolerated_failures| Limits {
                concurrency,
                tolerated_failures,
                min_successes,
            };
            let bad = [
                limits(Some(0), None, None),
                limits(None, Some(0), None),
                limits(None, Some(3), None),
                limits(None, None, Some(Share::Of(1.1))),
                limits(None, None, Some(Share::Of(-0.1))),
                limits(None, None, Some(Share::Of(f64::NAN))),
            ];
            for (n, limits) in bad.into_iter().enumerate() {
                let items = [("a", 1), ("b", 2)];
                let key = format!("fan{n}");
                let refused = ctx.map(&key, items, limits, |ctx, _| async move { nap(&ctx, "x", 1).await });
                let refused = refused.await;
                assert!(matches!(refused, Err(StepError::BadLimits { .. })), "{limits:?}");
            }
            let twice = [("a", 1), ("a", 2)];
            let refused = ctx.map("twice", twice, Limits::default(), |ctx, _| async move {
                nap(&ctx, "x", 1).await
            });
            assert!(matches!(refused.await, Err(StepError::DuplicateKey { .. })));
            Ok(json!("refused"))
        })
    })
    .await;
    assert_eq!(value_of(&view), json!("refused"));
    assert_eq!(story(&log), ["run.accepted", "run.claimed", "run.completed"]);
}

/// Two of six fail, at 60 and 30 ms, and the others succeed at 20, 10, 50, 40.
#[tokio::test(start_paused = true)]
async fn tolerance_is_judged_first_and_strictly_above() {
    for (tolerated, min, reason) in [
        (Some(Share::Count(0)), None, Reason::TooManyFailed),
        (Some(Share::Count(1)), None, Reason::TooManyFailed),
        (Some(Share::Count(2)), None, Reason::AllEnded),
        (Some(Share::Of(0.33)), None, Reason::TooManyFailed),
        (Some(Share::Of(0.34)), None, Reason::AllEnded),
        (Some(Share::Count(0)), Some(2), Reason::EnoughSucceeded),
        (Some(Share::Count(0)), Some(3), Reason::TooManyFailed),
        (None, Some(4), Reason::EnoughSucceeded),
        (None, Some(5), Reason::AllEnded),
    ] {
        let (view, _) = ended(move |ctx| {
            Box::pin(async move {
                let limits = Limits {
                    concurrency: None,
                    tolerated_failures: tolerated,
                    min_successes: min,
                };
                assert_eq!(thirds(&ctx, limits).await?.reason, reason, "{limits:?}");
                Ok(json!("judged"))
            })
        })
        .await;
        assert_eq!(value_of(&view), json!("judged"), "{:?}", view.outcome);
    }
}

/// What was not started, and what was cut off and may be repeated, is no part of N; what may not be repeated is unknown.
#[tokio::test(start_paused = true)]
async fn losers_are_released_or_unknown_and_leave_a_true_n() {
    let (view, log) = ended(|ctx| {
        Box::pin(async move {
            let keys = ["quick", "slow", "once", "never"];
            ctx.plan_paths(keys.map(|key| ["race", key, "work"])).await?;
            let limits = Limits {
                concurrency: Some(3),
                min_successes: Some(1),
                tolerated_failures: None,
            };
            let race = ctx
                .map("race", keys.map(|key| (key, key)), limits, |ctx, key| async move {
                    let body = |_: StepCall| {
                        let ctx = ctx.clone();
                        async move {
                            ctx.pause(if key == "quick" { SECOND } else { 100 * SECOND }).await;
                            Ok::<_, BodyError>(key.to_owned())
                        }
                    };
                    let policy = match key {
                        "once" => StepPolicy::at_most_once(200 * SECOND),
                        _ => StepPolicy::IDEMPOTENT,
                    };
                    ctx.step::<String, _, _>("work", &key, policy, body).await
                })
                .await?;
            let expected = [
                Item::Succeeded("quick".to_owned()),
                Item::Released,
                Item::Unknown,
                Item::Released,
            ];
            assert_eq!(
                (race.items.as_slice(), race.reason),
                (&expected[..], Reason::EnoughSucceeded)
            );
            assert_eq!(race.all().unwrap_err().kind, "released");
            Ok(json!("raced"))
        })
    })
    .await;
    let expected = [
        "step.committed race/quick/work",
        "parallel.ended race",
        "step.released race/slow/work",
        "step.unknown race/once/work",
        "step.released race/never/work",
        "run.incomplete",
    ];
    let log = story(&log);
    assert_eq!(log[log.len() - 6..], expected);
    let totals = view.totals;
    assert_eq!(
        (totals.planned, totals.committed, totals.unknown, totals.released),
        (2, 1, 1, 2)
    );
    assert_eq!(view.run.totals, totals);
    // Nobody settled what is unknown: that bars `completed`, as it should.
    assert_eq!(view.run.reason, Some(EndReason::StepsUnknown));
    assert_eq!(view.outcome.unwrap().remainder, [StepKey::new("race/once/work")]);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_losers_are_all_released_is_complete() {
    let (view, _) = ended(|ctx| {
        Box::pin(async move {
            ctx.plan_paths((0..5).map(|n| ["race".to_owned(), format!("i{n}"), "work".to_owned()]))
                .await?;
            let limits = Limits {
                concurrency: Some(2),
                min_successes: Some(1),
                tolerated_failures: None,
            };
            let items = (0..5).map(|n| (format!("i{n}"), n));
            ctx.map("race", items, limits, |ctx, n| async move {
                nap(&ctx, "work", 100 + 1000 * n).await
            })
            .await?;
            Ok(json!(null))
        })
    })
    .await;
    assert_eq!(view.run.status, Status::Completed, "{:?}", view.outcome);
    assert_eq!(
        (view.totals.planned, view.totals.committed, view.totals.released),
        (1, 1, 4)
    );
}

/// A branch that ended without doing what was planned for it has lost nothing: its steps remain.
#[tokio::test(start_paused = true)]
async fn what_a_branch_left_undone_stays_in_n() {
    let (view, _) = ended(|ctx| {
        Box::pin(async move {
            ctx.plan_paths([["fan", "a", "x"], ["fan", "a", "y"]]).await?;
            let done = ctx.map("fan", [("a", ())], Limits::default(), |ctx, ()| async move {
                nap(&ctx, "x", 1).await
            });
            done.await?;
            Ok(json!(null))
        })
    })
    .await;
    assert_eq!(
        (view.run.reason, view.totals.planned),
        (Some(EndReason::StepsNotRun), 2)
    );
}

/// It asked to start and was dropped before that was written: then it never is, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn a_loser_that_had_only_asked_to_start_leaves_nothing() {
    let (view, log) = ended(|ctx| {
        Box::pin(async move {
            let limits = Limits {
                min_successes: Some(1),
                ..Limits::default()
            };
            let items = [("slow", 10), ("at once", 0)];
            let race = ctx.map("race", items, limits, |ctx, ms| async move {
                match ms {
                    0 => Ok(0),
                    ms => nap(&ctx, "work", ms).await,
                }
            });
            Ok(json!(race.await?.items == [Item::Released, Item::Succeeded(0)]))
        })
    })
    .await;
    assert_eq!((value_of(&view), view.run.counters.chunks), (json!(true), 1));
    assert_eq!(story(&log)[2..], ["parallel.ended race", "run.completed"]);
}

/// What was decided stays so, though in the next chunk another branch would be the first.
#[tokio::test(start_paused = true)]
async fn the_outcome_that_was_logged_is_found_and_not_made_again() {
    let passes = Arc::new(Mutex::new(0));
    let (options, _) = scripted(move |ctx| {
        let pass = {
            let mut passes = passes.lock().unwrap();
            *passes += 1;
            *passes
        };
        Box::pin(async move {
            let limits = Limits {
                min_successes: Some(1),
                ..Limits::default()
            };
            let quick = if pass == 1 { "a" } else { "b" };
            let race = ctx.map(
                "race",
                ["a", "b"].map(|key| (key, key)),
                limits,
                |ctx, key| async move {
                    assert_eq!(pass, 1, "nothing is run again");
                    nap(&ctx, "work", if key == quick { 10 } else { 10_000 }).await
                },
            );
            let race = race.await?;
            ctx.wait("later", HOUR).await?;
            Ok(json!([
                pass,
                matches!(race.items[0], Item::Succeeded(10)),
                race.items[1] == Item::Released
            ]))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let view = swept_to_its_end(&rig, &run, 2 * HOUR).await;
    assert_eq!(value_of(&view), json!([2, true, true]));
    let log = rig.log(&run).await;
    assert_eq!(count(&log, |body| matches!(body, EventBody::ParallelEnded { .. })), 1);
    assert_eq!(count(&log, |body| matches!(body, EventBody::StepReleased { .. })), 1);
}

/// Cut off between the outcome and what it releases: the next chunk completes it.
#[tokio::test(start_paused = true)]
async fn what_an_outcome_releases_is_released_after_a_crash() {
    let (mut options, table) = scripted(|ctx| {
        Box::pin(async move {
            let limits = Limits {
                min_successes: Some(1),
                ..Limits::default()
            };
            ctx.plan_paths([["race", "a", "work"], ["race", "b", "work"]]).await?;
            let items = [("a", 10), ("b", 10_000)];
            ctx.map(
                "race",
                items,
                limits,
                |ctx, ms| async move { nap(&ctx, "work", ms).await },
            )
            .await?;
            Ok(json!(null))
        })
    });
    options.deliver = Deliver::Hold;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let begin = |index: usize| {
        let (engine, dispatch) = (rig.engine.clone(), rig.sent()[index].clone());
        tokio::spawn(async move { deliver(&engine, &dispatch, HOUR).await })
    };
    // The claim, the starts, the first result, the outcome; the page behind it never lands.
    let (behind, held) = gate();
    table.fault(Fault::on(Kind::Write, "events/", Effect::HoldRequest(held)).after(4));
    let holder = begin(0);
    behind.arrived().await;
    holder.abort();
    for chunk in rig.spawner.chunks() {
        chunk.abort();
    }
    let log = story(&rig.log(&run).await);
    assert_eq!(log.last().unwrap(), "parallel.ended race");
    after(10 * SECOND).await;
    outlast_engine::sweep::sweep(&rig.engine).await.unwrap();
    begin(1).await.unwrap();
    let view = rig.ended(&run).await;
    assert_eq!(view.run.status, Status::Completed, "{:?}", view.outcome);
    assert_eq!((view.totals.planned, view.totals.released), (1, 1));
}

/// All branches that are at work wait: the run parks, due at the earliest, and the places stay taken.
#[tokio::test(start_paused = true)]
async fn when_all_live_branches_wait_the_run_parks() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let limits = Limits {
                concurrency: Some(2),
                ..Limits::default()
            };
            let items = [("a", 3), ("b", 2), ("c", 1)].map(|(key, hours)| (key, hours * HOUR));
            let done = ctx.map("fan", items, limits, |ctx, time| async move {
                ctx.wait("first", time).await?;
                nap(&ctx, "work", 10).await
            });
            Ok(json!(done.await?.all()?))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(&rig, &run, Status::Waiting, SECOND, 10 * SECOND).await;
    let row = rig.row(&run).await;
    let due = row.due_at.unwrap().since(row.created_at);
    assert!(due >= 2 * HOUR && due < 2 * HOUR + SECOND, "{due:?}");
    assert!(!story(&rig.log(&run).await).contains(&"wait.started fan/c/first".into()));
    let view = swept_to_its_end(&rig, &run, 5 * HOUR).await;
    assert_eq!(
        (view.run.status, value_of(&view)),
        (Status::Completed, json!([10, 10, 10]))
    );
}

/// Lets others go first, as a future that has had its turn does.
async fn step_aside() {
    let mut has_had_its_turn = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_had_its_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Branches are polled in turns. One that waits is heard before others have begun, and must not park the run over their heads.
#[tokio::test(start_paused = true)]
async fn a_run_does_not_park_before_every_branch_has_been_heard() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let items = (0..6).map(|n| (format!("i{n}"), n));
            let done = ctx.map("fan", items, Limits::default(), |ctx, n| async move {
                match n {
                    0 => ctx.wait("long", 30 * HOUR).await?,
                    5 => ctx.ask("go?", Ask::default()).await?.answer::<()>().await?,
                    _ => step_aside().await,
                }
                nap(&ctx, "work", 10).await
            });
            Ok(json!(done.await?.counts.succeeded))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(&rig, &run, Status::Waiting, SECOND, 20 * SECOND).await;
    let go = Answer::Value(payload(&()));
    answer(&rig.engine, &rig.owner, &run, "fan/i5/go?", go).await.unwrap();
    after(5 * SECOND).await;
    let row = rig.row(&run).await;
    assert_eq!((row.status, row.totals.committed), (Status::Waiting, 5));
    let view = swept_to_its_end(&rig, &run, 40 * HOUR).await;
    assert_eq!(value_of(&view), json!(6));
}

/// A branch that nobody waits for any more has no questions.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_loser_takes_no_answer() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let limits = Limits {
                min_successes: Some(1),
                ..Limits::default()
            };
            let branches: [(&str, Branch<Value, StepError>); 2] = [
                (
                    "person",
                    Box::new(|ctx: Ctx| Box::pin(async move { ctx.ask("ok", Ask::default()).await?.answer().await })),
                ),
                (
                    "rule",
                    Box::new(|ctx: Ctx| Box::pin(async move { nap(&ctx, "look", 5_000).await.map(Value::from) })),
                ),
            ];
            let first = ctx.parallel("who", branches, limits).await?;
            ctx.ask("and", Ask::default()).await?.answer::<Value>().await?;
            Ok(json!(first.items[1] == Item::Succeeded(json!(5_000))))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    let give = async |key: &str| {
        let value = Answer::Value(payload(&1));
        answer(&rig.engine, &rig.owner, &run, key, value).await.map(drop)
    };
    swept_until(&rig, &run, Status::Waiting, SECOND, 20 * SECOND).await;
    let refused = give("who/person/ok").await;
    assert!(matches!(refused, Err(NotAnswered::Settled { .. })), "{refused:?}");
    give("and").await.unwrap();
    assert_eq!(value_of(&rig.ended(&run).await), json!(true));
}

#[tokio::test(start_paused = true)]
async fn results_that_dont_fit_are_one_failure_and_the_same_in_each_chunk() {
    let (options, _) = scripted(|ctx| {
        Box::pin(async move {
            let items = (0..3).map(|n| (n.to_string(), n));
            let large = ctx.map("fan", items, Limits::default(), |_, _| async move {
                Ok::<_, ErrorInfo>("x".repeat(400_000))
            });
            let failed = large.await.unwrap_err();
            ctx.wait("later", HOUR).await?;
            Ok(json!(
                matches!(failed, StepError::Failed { error, .. } if error.kind == "result_too_large")
            ))
        })
    });
    let rig = Rig::new(options);
    let run = start(&rig).await;
    assert_eq!(value_of(&swept_to_its_end(&rig, &run, 2 * HOUR).await), json!(true));
}
