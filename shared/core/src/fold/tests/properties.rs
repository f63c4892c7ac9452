//! Folding is the same however the log is cut into pages, and no log makes it panic or lie.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn body() -> impl Strategy<Value = EventBody> {
    let name = || proptest::sample::select(&NAMES[..]);
    prop_oneof![
        6 => (name(), 1u64..4, any::<bool>()).prop_map(|(name, attempt, idempotent)| started_as(name, attempt, idempotent)),
        3 => name().prop_map(committed),
        1 => name().prop_map(failed),
        1 => name().prop_map(unknown),
        1 => name().prop_map(retrying),
        1 => proptest::sample::subsequence(&NAMES[..], 0..4).prop_map(|names| plan(&names)),
        1 => name().prop_map(|key| EventBody::StepReleased { key: StepKey::new(key) }),
        1 => name().prop_map(|name| wait_started(&format!("wait {name}"))),
        1 => name().prop_map(|name| EventBody::WaitEnded { key: StepKey::new(format!("wait {name}")) }),
        1 => name().prop_map(|name| asked(&format!("ask {name}"))),
        1 => name().prop_map(|name| answered(&format!("ask {name}"))),
        1 => name().prop_map(|name| expired(&format!("ask {name}"), None)),
        1 => Just(EventBody::RunPaused),
        1 => Just(EventBody::RunResumed),
        1 => Just(EventBody::Emit { key: key("note"), data: json("1") }),
        1 => Just(EventBody::AutoContinue { reason: ContinueReason::RunTimeout, interrupted: vec![] }),
    ]
}

/// A log without a fault of one holder: what would be one is left out.
fn good_log() -> impl Strategy<Value = Written> {
    proptest::collection::vec(proptest::collection::vec(body(), 1..5), 0..12).prop_map(|pages| {
        let mut log = begun();
        for bodies in pages {
            let mut taken = Vec::new();
            for body in bodies {
                let mut with_it = taken.clone();
                with_it.push(body);
                let page = log.next(Writer::Holder, 1, with_it.clone());
                if log.fold.clone().page(&page).is_ok() {
                    taken = with_it;
                }
            }
            if !taken.is_empty() {
                log = log.holder(1, taken);
            }
        }
        log
    })
}

fn any_body() -> impl Strategy<Value = EventBody> {
    prop_oneof![
        8 => body(),
        1 => Just(accepted()),
        2 => (0u64..4).prop_map(claimed),
        1 => (0u64..4).prop_map(lost),
        1 => Just(EventBody::StopRequested),
        1 => Just(ended()),
    ]
}

/// Everything that a fold knows, to be compared.
fn told(fold: &Fold) -> String {
    let mut steps: Vec<_> = fold.steps.iter().collect();
    steps.sort_by_key(|(key, _)| *key);
    let mut emitted: Vec<_> = fold.emitted.iter().collect();
    emitted.sort_by_key(|(key, _)| *key);
    let mut waits: Vec<_> = fold.waits.iter().collect();
    waits.sort_by_key(|(key, _)| *key);
    let mut questions: Vec<_> = fold.questions.iter().collect();
    questions.sort_by_key(|(key, _)| *key);
    let rest = Fold {
        steps: HashMap::new(),
        emitted: HashMap::new(),
        waits: HashMap::new(),
        questions: HashMap::new(),
        ..fold.clone()
    };
    format!("{rest:?} {steps:?} {emitted:?} {waits:?} {questions:?}")
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn page_by_page_is_event_by_event(log in good_log()) {
        let mut by_event = Fold::default();
        for page in &log.pages {
            for event in &page.events {
                by_event.event(event).unwrap();
            }
            by_event.tail.epoch = page.epoch;
        }
        prop_assert_eq!(told(&by_event), told(&log.fold));
    }

    #[test]
    fn the_counts_are_those_of_the_steps(log in good_log()) {
        let fold = &log.fold;
        let count = |of: fn(&StepState) -> bool| fold.steps.values().filter(|step| of(&step.state)).count() as u64;
        prop_assert_eq!(fold.totals.planned + fold.totals.released, fold.order.len() as u64);
        prop_assert_eq!(fold.order.len(), fold.steps.len());
        prop_assert_eq!(fold.totals.released, count(|state| matches!(state, StepState::Released)));
        prop_assert_eq!(fold.totals.committed, count(|state| matches!(state, StepState::Committed { .. })));
        prop_assert_eq!(fold.totals.failed, count(|state| matches!(state, StepState::Failed { .. })));
        prop_assert_eq!(fold.totals.unknown, count(|state| matches!(state, StepState::Unknown)));
        prop_assert_eq!(fold.finals, count(StepState::is_final));
    }

    #[test]
    fn g6_completed_leaves_nothing_and_anything_else_says_why(log in good_log()) {
        let returned = AgentResult::Returned { value: json("\"done\""), verification: None };
        let outcome = log.fold.outcome(returned);
        prop_assert_eq!(outcome.reason.is_none(), outcome.remaining == 0);
        let totals = outcome.totals;
        let let_be = |step: &&Step| !step.planned && matches!(step.state, StepState::Failed { .. });
        let let_be = log.fold.steps.values().filter(let_be).count() as u64;
        prop_assert_eq!(totals.planned, totals.committed + outcome.remaining + let_be);
        if outcome.reason.is_none() {
            prop_assert_eq!(totals.planned, totals.committed + outcome.failures_handled);
        }
    }

    /// Whatever stands in a log, a fold that takes it in has seen no rule broken.
    #[test]
    fn no_log_is_taken_in_that_breaks_a_rule(
        pages in proptest::collection::vec((any::<bool>(), 0u64..4, proptest::collection::vec(any_body(), 0..4)), 0..14),
    ) {
        let mut log = begun();
        for (is_holder, epoch, bodies) in pages {
            let writer = if is_holder { Writer::Holder } else { Writer::Control };
            let page = log.next(writer, epoch, bodies);
            let before = log.fold.clone();
            if log.put(page).is_err() {
                log.fold = before;
            }
        }
        let mut top_epoch = 0;
        let mut claims = Vec::new();
        let mut final_steps = Vec::new();
        let (mut waits, mut settled) = (HashMap::new(), HashSet::new());
        let (mut seq, mut stopped, mut ended) = (0, false, false);
        for page in &log.pages {
            prop_assert!(page.epoch >= top_epoch);
            top_epoch = page.epoch;
            for event in &page.events {
                seq += 1;
                prop_assert_eq!(event.seq, seq);
                prop_assert!(!ended);
                ended = event.body.is_terminal();
                match &event.body {
                    EventBody::RunClaimed { epoch, .. } => {
                        prop_assert!(claims.last() < Some(epoch));
                        prop_assert_eq!(*epoch, page.epoch);
                        claims.push(*epoch);
                    }
                    EventBody::StepStarted { key, .. } => {
                        prop_assert!(!stopped && !final_steps.contains(key));
                    }
                    EventBody::StepCommitted { key, .. } | EventBody::StepFailed { key, .. } | EventBody::StepUnknown { key, .. } | EventBody::StepReleased { key } => {
                        prop_assert!(!final_steps.contains(key));
                        final_steps.push(key.clone());
                    }
                    EventBody::WaitStarted { key, .. } => prop_assert_eq!(waits.insert(key.clone(), false), None),
                    EventBody::WaitEnded { key } => prop_assert_eq!(waits.insert(key.clone(), true), Some(false)),
                    EventBody::AnswerRecorded { key, .. } => prop_assert!(settled.insert(key.clone())),
                    EventBody::StopRequested => stopped = true,
                    _ => {}
                }
            }
            if page.writer == Writer::Holder {
                prop_assert_eq!(claims.last(), Some(&page.epoch));
            }
        }
        prop_assert_eq!(log.fold.tail, Tail { seq, epoch: top_epoch, ended });
    }
}
