//! Whole runs under faults drawn from a seed: lost requests and replies, throttling, conflicts, stale reads, clocks that
//! disagree, deliveries lost and doubled, holders killed at any await, stops at any time. The log is checked to its last
//! rule, and the run must come to a true end.

mod waiting;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_core::{Event, EventBody, Fold, Reason, RunId, Status};
use outlast_engine::follow::Follower;

use world::World;

const SEEDS: u64 = 150;
pub const STEPS: usize = 12;

/// What the seeds led to, taken together.
#[derive(Debug, Default)]
struct Met {
    crashes: u64,
    hand_offs: u64,
    bodies_run_again: u64,
}

#[tokio::test(start_paused = true)]
async fn under_any_faults_the_log_keeps_its_rules_and_the_run_comes_to_a_true_end() {
    many_worlds(|seed| World::new(seed, 1_000)).await;
}

#[tokio::test(start_paused = true)]
async fn inline_runs_under_any_faults_come_to_a_true_end_whoever_carries_them() {
    many_worlds(World::inline).await;
}

/// A failing seed names itself and reruns alone: OUTLAST_TEST_SEED=<seed>. More of them: OUTLAST_TEST_SEEDS=<n>.
fn seeds() -> Vec<u64> {
    let given = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().expect("a number"))
    };
    match given("OUTLAST_TEST_SEED") {
        Some(seed) => vec![seed],
        None => (0..given("OUTLAST_TEST_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

async fn many_worlds(world: impl Fn(u64) -> World) {
    let seeds = seeds();
    let is_one = seeds.len() == 1;
    let mut endings: BTreeMap<String, u64> = BTreeMap::new();
    let mut met = Met::default();
    for seed in seeds {
        let ending = one_world(seed, world(seed), &mut met).await;
        *endings.entry(ending).or_default() += 1;
    }
    println!("{endings:?} {met:?}");
    if !is_one {
        // Faults that never happen show nothing.
        assert!(
            met.crashes > 20 && met.hand_offs > 30 && met.bodies_run_again > 10,
            "{met:?}"
        );
    }
}

/// To come to an end in time is promised for clocks that are off by less than a lease; the log's rules for any.
async fn one_world(seed: u64, mut world: World, met: &mut Met) -> String {
    let run = world.begin().await;
    to_its_end(seed, &mut world, &run).await;
    check(seed, &world, &run, met).await
}

async fn to_its_end(seed: u64, world: &mut World, run: &RunId) {
    let began = tokio::time::Instant::now();
    for tick in 0.. {
        if world.status(run).await.is_terminal() {
            break;
        }
        if began.elapsed() > Duration::from_secs(600) {
            world.faulty.store(false, Ordering::SeqCst);
        }
        if began.elapsed() > Duration::from_secs(1200) {
            let rig = &world.hosts[0];
            let (row, log) = (rig.row(run).await, rig.log(run).await);
            panic!("seed {seed}: it never ends\n{row:#?}\n{log:#?}");
        }
        world.tick(tick, run).await;
    }
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn e04_clocks_that_are_hours_apart_break_no_rule_of_the_log() {
    for seed in 0..60 {
        let mut world = World::new(seed, 7_200_000);
        let run = world.begin().await;
        for tick in 0..150 {
            world.tick(tick, &run).await;
        }
        world.settle().await;
        read_by_the_rules(seed, &world, &run).await;
    }
}

/// The whole log, past the fold, which refuses whatever breaks a rule; and no step has two bodies in one epoch.
async fn read_by_the_rules(seed: u64, world: &World, run: &RunId) -> (Fold, Vec<Event>) {
    let rig = &world.hosts[0];
    let mut fold = Fold::default();
    let mut next = Some(1);
    let mut log: Vec<Event> = Vec::new();
    while let Some(first_seq) = next {
        let slice = rig.store.read_pages(run, first_seq, true).await.unwrap();
        for page in slice.pages {
            fold.page(&page)
                .unwrap_or_else(|corrupt| panic!("seed {seed}: {corrupt}\n{log:#?}"));
            log.extend(page.events);
        }
        next = slice.next;
    }
    for ((key, epoch), count) in world.bodies.0.lock().unwrap().iter() {
        assert_eq!(*count, 1, "seed {seed}: {key} had {count} bodies in epoch {epoch}");
    }
    (fold, log)
}

async fn check(seed: u64, world: &World, run: &RunId, met: &mut Met) -> String {
    let rig = &world.hosts[0];
    let (fold, log) = read_by_the_rules(seed, world, run).await;
    let row = rig.row(run).await;
    let outcome = log
        .last()
        .and_then(|event| event.body.outcome())
        .unwrap_or_else(|| panic!("seed {seed}: no end"));
    assert_eq!(
        (row.status, row.reason),
        (outcome.status(), outcome.reason),
        "seed {seed}"
    );
    assert!(row.due_at.is_none() && row.expires_at.is_some(), "seed {seed}");
    let claims = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::RunClaimed { .. }))
        .count() as u64;
    assert!(claims <= row.epoch, "seed {seed}");
    met.crashes += row.counters.crashes;
    met.hand_offs += log
        .iter()
        .filter(|event| matches!(event.body, EventBody::AutoContinue { .. }))
        .count() as u64;
    met.bodies_run_again += (world.bodies.0.lock().unwrap().len() as u64).saturating_sub(STEPS as u64);
    if row.status == Status::Completed {
        assert_eq!(fold.totals.committed, STEPS as u64, "seed {seed}");
    }
    let allowed = [
        None,
        Some(Reason::StepsUnknown),
        Some(Reason::Stopped),
        Some(Reason::CrashLimit),
        Some(Reason::NoProgress),
    ];
    assert!(allowed.contains(&row.reason), "seed {seed}: {:?}", row.reason);

    let mut follower = Follower::new(&rig.engine, &rig.owner, run, 0).await.unwrap();
    let mut seqs = Vec::new();
    while !follower.has_ended() {
        seqs.extend(follower.next().await.unwrap().iter().map(|event| event.seq));
    }
    assert_eq!(seqs, (1..=fold.tail.seq).collect::<Vec<_>>(), "seed {seed}");
    row.reason
        .map_or("completed".to_owned(), |reason| reason.as_str().to_owned())
}
