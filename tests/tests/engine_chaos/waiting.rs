//! A run that does all that a run can wait for, under the same faults: no answer that was accepted is lost, nothing is settled or ends
//! twice, and N stays true.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_core::event::ContinueReason;
use outlast_core::fold::Settlement;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, EventBody, Fold, Payload, Reason, Status, StepKey};
use outlast_engine::{Agent, Ask, BadInput, BodyError, Ctx, Limits, Question, Returned, StepCall, StepError};
use serde_json::{Value, json};

use crate::world::{Count, World};
use crate::{read_by_the_rules, seeds, to_its_end};

/// As they are written; the last is asked in a branch.
pub const QUESTIONS: [&str; 3] = ["soon?", "late?", "fan/i4/ok?"];

pub fn agent(bodies: Count) -> impl Agent + 'static {
    Waiting(bodies)
}

struct Waiting(Count);

#[async_trait::async_trait]
impl Agent for Waiting {
    fn name(&self) -> AgentName {
        AgentName::new("waiting")
    }

    fn check_input(&self, _input: &Payload) -> Result<(), BadInput> {
        Ok(())
    }

    /// What it does depends on the input, a number.
    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let seed: u64 = input.decode().unwrap_or_default();
        let planned = (0..6).map(|n| vec!["fan".to_owned(), format!("i{n}"), "work".to_owned()]);
        ctx.plan_paths(planned.chain([vec!["first".to_owned()], vec!["last".to_owned()]]))
            .await?;
        let soon = Ask {
            expires_in: Some(Duration::from_millis(500 + seed % 20_000)),
            default: Some(json!("the default")),
            schema: None,
        };
        let soon = ctx.ask("soon?", soon).await?;
        let first = self.work(&ctx, "first", seed % 700).await?;
        ctx.wait("short", Duration::from_millis(seed % 900)).await?;
        let limits = Limits {
            concurrency: Some(1 + (seed % 4) as usize),
            min_successes: (!seed.is_multiple_of(3)).then_some(3),
            tolerated_failures: None,
        };
        let items = (0..6).map(|n| (format!("i{n}"), n));
        let fan = ctx.map("fan", items, limits, |ctx, n: u64| async move {
            match n {
                1 | 3 => ctx.wait("nap", Duration::from_millis(seed % 7_000)).await?,
                4 => {
                    let quickly = Ask {
                        expires_in: Some(Duration::from_secs(1 + seed % 9)),
                        ..Ask::default()
                    };
                    said(&ctx.ask("ok?", quickly).await?).await;
                }
                _ => {}
            }
            self.work(&ctx, "work", (seed >> n) % 900).await
        });
        let fan = fan.await?;
        ctx.wait("long", Duration::from_millis(seed % 9_000)).await?;
        let late = ctx.ask("late?", Ask::default()).await?;
        let (soon, late) = tokio::join!(said(&soon), said(&late));
        let last = self.work(&ctx, "last", seed % 300).await?;
        let value = json!([soon, late, first, last, fan.counts.succeeded]);
        Ok(Returned {
            value: Payload::of(&value).expect("JSON"),
            verification: None,
        })
    }
}

impl Waiting {
    async fn work(&self, ctx: &Ctx, key: &str, ms: u64) -> Result<u64, StepError> {
        let body = |call: StepCall| async move {
            *self
                .0
                .0
                .lock()
                .unwrap()
                .entry((call.idempotency_key, call.epoch))
                .or_default() += 1;
            ctx.pause(Duration::from_millis(ms)).await;
            Ok::<u64, BodyError>(ms)
        };
        ctx.step(key, &ms, StepPolicy::IDEMPOTENT, body).await
    }
}

async fn said(question: &Question) -> Value {
    question.answer().await.unwrap_or_else(|error| json!(error.to_string()))
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_lost_and_nothing_is_settled_twice_under_any_faults() {
    let seeds = seeds();
    let is_one = seeds.len() == 1;
    let mut met: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds {
        let mut world = World::waiting(seed);
        let run = world.begin().await;
        to_its_end(seed, &mut world, &run).await;
        // The fold refuses a second end of a wait, a second answer, a start behind a release.
        let (fold, log) = read_by_the_rules(seed, &world, &run).await;
        let row = world.hosts[0].row(&run).await;
        for (key, value) in &world.answered {
            let settled = settlement(&fold, key);
            let expected = Settlement::Value(Payload::of(value).unwrap());
            assert_eq!(
                settled,
                Some(expected),
                "seed {seed}: the answer to {key} is lost\n{log:#?}"
            );
        }
        assert_eq!(row.answer_unlogged, None, "seed {seed}");
        assert_eq!(row.totals, fold.totals, "seed {seed}");
        let ends = if row.status == Status::Completed {
            "completed"
        } else {
            row.reason.unwrap().as_str()
        };
        assert!(
            [
                None,
                Some(Reason::Stopped),
                Some(Reason::CrashLimit),
                Some(Reason::NoProgress)
            ]
            .contains(&row.reason),
            "seed {seed}: {:?}\n{log:#?}",
            row.reason
        );
        if row.status == Status::Completed {
            let totals = fold.totals;
            assert_eq!(totals.committed, totals.planned, "seed {seed}");
            assert_eq!(totals.planned + totals.released, 8, "seed {seed}");
            let outcome = log.last().unwrap().body.outcome().unwrap();
            let value: Value = outcome.value.as_ref().unwrap().decode().unwrap();
            assert_eq!(value[0], told(&fold, "soon?"), "seed {seed}");
            assert_eq!(value[1], told(&fold, "late?"), "seed {seed}");
        }
        *met.entry(ends.into()).or_default() += 1;
        *met.entry("left to the holder".into()).or_default() += world.left_to_holders;
        for event in &log {
            let kind = match &event.body {
                EventBody::RunParked { .. } => "parked",
                EventBody::AnswerRecorded { expired: true, .. } => "expired",
                EventBody::AnswerRecorded { .. } => "answered",
                EventBody::StepReleased { .. } => "released",
                EventBody::AutoContinue {
                    reason: ContinueReason::Answered,
                    ..
                } => "answered as it was about to park",
                _ => continue,
            };
            *met.entry(kind.into()).or_default() += 1;
        }
    }
    println!("{met:?}");
    if !is_one {
        let kinds = ["completed", "parked", "expired", "answered", "released"];
        let rare: Vec<_> = kinds
            .iter()
            .filter(|kind| met.get(**kind).is_none_or(|count| *count < 20))
            .collect();
        assert!(
            rare.is_empty(),
            "faults and answers that never happen show nothing: {met:?}"
        );
    }
}

fn settlement(fold: &Fold, key: &str) -> Option<Settlement> {
    let parts: Vec<String> = key
        .split('/')
        .map(|part| outlast_core::key::key_part(part).unwrap())
        .collect();
    fold.questions.get(&StepKey::new(parts.join("/")))?.settled.clone()
}

/// What the agent must have got.
fn told(fold: &Fold, key: &str) -> Value {
    match settlement(fold, key) {
        Some(Settlement::Value(value) | Settlement::Expired(Some(value))) => value.decode().unwrap(),
        other => panic!("{key}: {other:?}"),
    }
}
