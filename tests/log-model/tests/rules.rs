//! With all rules nothing breaks. Without one of them something does, and here is what.
//!
//! `cargo test -p outlast-log-model -- --nocapture` prints the numbers and the shortest counterexamples.

use outlast_log_model::explore::{Exploration, counterexample, explore};
use outlast_log_model::model::{Bounds, LogModel};
use outlast_log_model::properties::*;
use outlast_log_model::rules::Rules;
use std::collections::BTreeSet;
use std::time::Instant;

const LARGE: Bounds = Bounds {
    holders: 3,
    steps: 2,
    seqs: 7,
    keep_refused_copies: false,
};
const MEDIUM: Bounds = Bounds { seqs: 6, ..LARGE };
const SMALL: Bounds = Bounds { holders: 2, ..MEDIUM };
const ONE_STEP: Bounds = Bounds { steps: 1, ..MEDIUM };

fn explored(what: &str, model: LogModel) -> Exploration {
    let started = Instant::now();
    let exploration = explore(model);
    println!(
        "{what}: {} states, {} transitions, paths up to {} long, {:.1} s",
        exploration.unique_states,
        exploration.transitions,
        exploration.longest_path,
        started.elapsed().as_secs_f64()
    );
    exploration
}

/// Exactly these properties break without the rule. The shortest way to break the first of them is printed.
fn breaks(without: &str, rules: Rules, bounds: Bounds, expected: &[&'static str]) {
    let model = LogModel { rules, bounds };
    let exploration = explored(&format!("without {without}"), model);
    assert_eq!(
        exploration.broken,
        expected.iter().copied().collect::<BTreeSet<_>>(),
        "without {without}"
    );
    assert!(exploration.unique_states > 50_000, "without {without}");
    shows(without, model, expected[0]);
}

fn shows(without: &str, model: LogModel, property: &'static str) {
    let timeline = counterexample(model, property).unwrap_or_else(|| panic!("without {without}: {property} holds"));
    println!("\nwithout {without}:\n{timeline}\n");
}

#[test]
fn with_all_rules_nothing_breaks_and_everything_is_reached() {
    let exploration = explored(
        "all rules",
        LogModel {
            rules: Rules::ALL,
            bounds: LARGE,
        },
    );
    assert_eq!(exploration.broken, BTreeSet::new());
    assert_eq!(exploration.never_reached, BTreeSet::from([LATE_COPY_REFUSED]));
    assert!(exploration.unique_states > 3_000_000);
}

#[test]
fn late_copies_that_come_to_a_taken_place_change_nothing() {
    let bounds = Bounds {
        keep_refused_copies: true,
        ..SMALL
    };
    let exploration = explored(
        "all rules, refused copies kept",
        LogModel {
            rules: Rules::ALL,
            bounds,
        },
    );
    assert_eq!(exploration.broken, BTreeSet::new());
    assert_eq!(
        exploration.never_reached,
        BTreeSet::from([THREE_HOLDERS, COMPLETES_AFTER_TAKEOVER])
    );
    assert!(exploration.unique_states > 300_000);
}

#[test]
fn rule_1_the_tail_is_the_fence() {
    let rules = Rules {
        tail_is_fence: false,
        ..Rules::ALL
    };
    breaks(
        "the fence",
        rules,
        SMALL,
        &[G1_ONE_HOLDER, G3_ONE_ENDING, G4_COMMIT_ONCE, LOST_IS_FINAL],
    );
}

/// The log itself stays whole: each page still needs its place. But what it says and what the row says part for good.
#[test]
fn rule_2_row_and_page_in_one_transaction() {
    let rules = Rules {
        control_by_transaction: false,
        ..Rules::ALL
    };
    let bounds = Bounds {
        steps: 1,
        seqs: 5,
        ..SMALL
    };
    breaks("the transaction", rules, bounds, &[G3_ROW_AGREES, G7_STOP_KEPT]);
}

/// Too much breaks, and in too many states, to look at all of them.
#[test]
fn rule_2_a_put_is_conditional() {
    let rules = Rules {
        conditional_puts: false,
        ..Rules::ALL
    };
    shows("the condition", LogModel { rules, bounds: SMALL }, G2_ONE_LOG);
}

#[test]
fn rule_3_a_claim_folds_what_it_collides_with() {
    let rules = Rules {
        claim_folds_then_claims: false,
        ..Rules::ALL
    };
    breaks("folding again", rules, SMALL, &[G7_STOP, G4_COMMIT_ONCE]);
}

/// The place is what fences, not the name: any page of the new epoch there would do. What is lost is that the log says
/// who holds the run before that holder does anything.
#[test]
fn rule_3_claimed_comes_first() {
    let rules = Rules {
        claimed_comes_first: false,
        ..Rules::ALL
    };
    breaks("waiting for run.claimed", rules, ONE_STEP, &[G1_CLAIMED_FIRST]);
}

#[test]
fn rule_4_one_page_in_flight() {
    let rules = Rules {
        one_in_flight: false,
        ..Rules::ALL
    };
    let expected = [
        G2_ONE_LOG,
        G1_ONE_HOLDER,
        G3_ONE_ENDING,
        G4_COMMIT_ONCE,
        G7_STOP,
        LOST_IS_FINAL,
    ];
    breaks("one in flight", rules, SMALL, &expected);
}

#[test]
fn rule_4_a_repeat_has_the_same_write_id() {
    let rules = Rules {
        same_write_id: false,
        ..Rules::ALL
    };
    breaks("the same write id", rules, SMALL, &[G4_COMMIT_ONCE, G1_ONE_HOLDER]);
}

#[test]
fn rule_5_a_collision_reads_on() {
    let rules = Rules {
        collision_reads_on: false,
        ..Rules::ALL
    };
    breaks("reading on", rules, SMALL, &[G7_STOP, LOST_IS_FINAL]);
}

/// No guarantee needs it: the next claim would fence that holder. It spares work whose finish would be refused, and a
/// reader who was told that an epoch is lost never sees it go on.
#[test]
fn rule_5_a_loss_fences_its_holder() {
    let rules = Rules {
        lost_fences: false,
        ..Rules::ALL
    };
    breaks("heeding run.lost", rules, ONE_STEP, &[LOST_IS_FINAL]);
}
