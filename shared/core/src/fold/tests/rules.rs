//! What no writer of ours can have written is found, at its seq, and said.

use super::*;

use Writer::{Control, Holder};

/// After `before`, a page that must be refused; `says` is part of what is said.
#[track_caller]
pub(super) fn check(before: Written, writer: Writer, epoch: u64, bodies: Vec<EventBody>, says: &str) {
    let mut log = before;
    let page = log.next(writer, epoch, bodies);
    let corrupt = log.put(page).expect_err(says);
    let said = corrupt.to_string();
    assert!(said.contains(says), "{said:?} doesn't say {says:?}");
    assert!(said.starts_with("corrupt_run: at seq "), "{said}");
}

#[test]
fn a_gap_and_a_repetition() {
    let check = |first_seq: u64| {
        let mut log = begun();
        let mut page = log.next(Holder, 1, vec![started("a")]);
        page.events[0].seq = first_seq;
        let corrupt = log.put(page).unwrap_err();
        assert_eq!((corrupt.seq, corrupt.what.as_str()), (first_seq, "expected seq 3"));
    };
    check(4);
    check(2);
    check(0);
    check(u64::MAX);
    let mut log = begun();
    let mut page = log.next(Holder, 1, vec![started("a"), committed("a")]);
    page.events[1].seq = 5;
    assert_eq!(log.put(page).unwrap_err().seq, 5, "inside a page too");
}

#[test]
fn nothing_follows_the_ending() {
    let over = || begun().control(1, vec![ended()]);
    check(
        over(),
        Control,
        1,
        vec![EventBody::StopRequested],
        "after the terminal event",
    );
    check(over(), Control, 1, vec![ended()], "after the terminal event");
    check(over(), Holder, 2, vec![claimed(2)], "after the terminal event");
    check(
        begun(),
        Control,
        1,
        vec![ended(), EventBody::RunPaused],
        "after the terminal event",
    );
}

#[test]
fn g7_no_step_starts_after_a_stop() {
    let stopped = || begun().control(1, vec![EventBody::StopRequested]);
    check(stopped(), Holder, 1, vec![started("a")], "after a stop");
    let next_chunk = stopped().holder(2, vec![claimed(2)]);
    check(next_chunk, Holder, 2, vec![started("a")], "after a stop");
}

#[test]
fn what_was_in_hand_at_a_stop_is_reported() {
    let log = begun()
        .holder(1, vec![started("a"), started("b"), started("c")])
        .control(1, vec![EventBody::StopRequested])
        .holder(1, vec![committed("a"), failed("b"), unknown("c")]);
    let totals = Totals {
        planned: 3,
        committed: 1,
        failed: 1,
        unknown: 1,
        released: 0,
    };
    assert_eq!(log.fold.totals, totals);
}

#[test]
fn g4_a_result_is_the_end_of_its_step() {
    for result in [committed, failed, unknown] {
        let done = || begun().holder(1, vec![started("a"), result("a")]);
        check(done(), Holder, 1, vec![started("a")], "started after its end");
        check(
            done(),
            Holder,
            1,
            vec![started_as("a", 2, true)],
            "started after its end",
        );
        for again in [committed, failed, unknown, retrying] {
            check(done(), Holder, 1, vec![again("a")], "which is not running");
        }
    }
}

#[test]
fn a_result_needs_a_body_that_runs() {
    let planned = || begun().holder(1, vec![plan(&["a"])]);
    let retried = || begun().holder(1, vec![started("a"), retrying("a")]);
    for result in [committed, failed, unknown, retrying] {
        check(begun(), Holder, 1, vec![result("a")], "which is not running");
        check(planned(), Holder, 1, vec![result("a")], "which is not running");
        check(retried(), Holder, 1, vec![result("a")], "which is not running");
    }
}

#[test]
fn g4_only_an_idempotent_attempt_starts_twice() {
    let interrupted = |idempotent| {
        begun()
            .holder(1, vec![started_as("a", 1, idempotent)])
            .control(1, vec![lost(1)])
            .holder(2, vec![claimed(2)])
    };
    interrupted(true).holder(2, vec![started("a"), committed("a")]);
    check(
        interrupted(false),
        Holder,
        2,
        vec![started_as("a", 1, false)],
        "started twice",
    );
    // One whose policy takes an interruption as an error to retry has used up an attempt.
    interrupted(false).holder(2, vec![started_as("a", 2, false)]);
    let retried = begun().holder(1, vec![started_as("a", 1, false), retrying("a")]);
    check(retried, Holder, 1, vec![started_as("a", 1, false)], "started twice");
}

#[test]
fn g1_epochs_only_rise() {
    let second = || begun().holder(2, vec![claimed(2)]);
    check(second(), Holder, 1, vec![started("a")], "epoch 1 after epoch 2");
    check(
        second(),
        Control,
        1,
        vec![EventBody::RunPaused],
        "epoch 1 after epoch 2",
    );
    check(begun(), Control, 0, vec![EventBody::RunPaused], "epoch 0 after epoch 1");
    check(second(), Holder, 2, vec![claimed(2)], "was claimed after");
    check(second(), Holder, 2, vec![claimed(1)], "in a page of epoch 2");
    check(begun(), Holder, 1, vec![claimed(1)], "was claimed after");
    check(
        Written::default().control(0, vec![accepted()]),
        Holder,
        0,
        vec![claimed(0)],
        "was claimed after",
    );
}

#[test]
fn a_page_and_its_claim_agree_on_the_epoch() {
    check(begun(), Holder, 1, vec![claimed(2)], "in a page of epoch 1");
    check(begun(), Holder, 3, vec![claimed(2)], "in a page of epoch 3");
    check(begun(), Control, 3, vec![claimed(2)], "in a page of epoch 3");
    check(begun(), Control, 1, vec![lost(2)], "in a page of epoch 1");
}

#[test]
fn g1_a_holder_writes_nothing_before_its_claim() {
    check(begun(), Holder, 2, vec![started("a")], "which nobody claimed");
    check(Written::default(), Holder, 0, vec![accepted()], "which nobody claimed");
    let control_first = begun().control(2, vec![EventBody::RunPaused]);
    check(control_first, Holder, 2, vec![started("a")], "which nobody claimed");
}

#[test]
fn a_control_page_may_know_of_a_claim_before_its_holder_has_said_so() {
    let log = begun()
        .holder(1, vec![started("a")])
        .control(2, vec![EventBody::RunPaused]);
    assert_eq!((log.fold.tail.epoch, log.fold.claimed_epoch), (2, 1));
    assert!(log.fold.fences(1) && !log.fold.fences(2));
    let log = log.holder(2, vec![claimed(2), started("a"), committed("a")]);
    assert_eq!((log.fold.tail.epoch, log.fold.claimed_epoch), (2, 2));
}

#[test]
fn a_lost_epoch_is_over() {
    let gone = || begun().control(1, vec![lost(1)]);
    check(gone(), Holder, 1, vec![started("a")], "which was lost");
    let before_its_claim = begun().control(2, vec![lost(2)]);
    check(before_its_claim, Holder, 2, vec![claimed(2)], "after it was lost");
    // Others still write while nobody has claimed it.
    gone()
        .control(1, vec![EventBody::RunPaused, EventBody::RunResumed])
        .holder(2, vec![claimed(2)]);
}

#[test]
fn a_run_is_accepted_once() {
    check(begun(), Control, 1, vec![accepted()], "accepted again");
}

#[test]
fn a_plan_is_a_list_of_keys() {
    for keys in ["{}", "[1]", "\"a\"", "null"] {
        let body = EventBody::PlanDeclared { keys: json(keys) };
        check(begun(), Holder, 1, vec![body], "a list of keys");
    }
}

#[test]
fn a_page_holds_events_and_the_totals_after_them() {
    check(begun(), Holder, 1, vec![], "without events");
    let mut log = begun();
    let mut page = log.next(Holder, 1, vec![started("a")]);
    page.totals.committed = 1;
    let corrupt = log.put(page).unwrap_err();
    assert!(corrupt.what.contains("the page counts"), "{corrupt}");
}

#[test]
fn what_a_fold_knows() {
    let log = begun()
        .holder(
            1,
            vec![plan(&["b", "a", "b"]), started("c"), started("b"), committed("b")],
        )
        .holder(
            1,
            vec![EventBody::Emit {
                key: key("note"),
                data: json("[1]"),
            }],
        )
        .control(1, vec![EventBody::RunPaused]);
    let fold = &log.fold;
    assert_eq!(fold.order, [key("b"), key("a"), key("c")]);
    assert_eq!(fold.input, Some(json("{}")));
    assert_eq!(fold.plan, Some(json(r#"["b","a","b"]"#)));
    assert_eq!(fold.emitted[&key("note")], json("[1]"));
    assert_eq!((fold.totals.planned, fold.totals.committed, fold.finals), (3, 1, 1));
    assert!(fold.paused && !fold.stop_requested);
    let planned: Vec<bool> = fold.order.iter().map(|key| fold.steps[key].planned).collect();
    assert_eq!(planned, [true, true, false]);
    assert_eq!(fold.steps[&key("b")].state, StepState::Committed { result: json("1") });
    let resumed = log.control(1, vec![EventBody::RunResumed]);
    assert!(!resumed.fold.paused);
}

#[test]
fn a_step_that_joined_by_starting_is_planned_once_a_plan_names_it() {
    let log = begun().holder(1, vec![started("a"), plan(&["a", "b"])]);
    assert_eq!(log.fold.totals.planned, 2);
    assert!(log.fold.steps[&key("a")].planned);
}

#[test]
fn a_step_keeps_the_digest_of_its_first_input() {
    let again = EventBody::StepStarted {
        key: key("a"),
        attempt: 2,
        idempotent: true,
        input_digest: "d2".into(),
        deadline: None,
    };
    let log = begun().holder(1, vec![started("a"), retrying("a"), again]);
    let step = &log.fold.steps[&key("a")];
    assert_eq!((step.attempt, step.input_digest.as_deref()), (2, Some("d1")));
    let running = StepState::Started {
        epoch: 1,
        deadline: None,
    };
    assert_eq!(step.state, running);
}

#[test]
fn who_is_fenced() {
    let check = |log: &Written, fenced: [bool; 4]| {
        assert_eq!([0, 1, 2, 3].map(|epoch| log.fold.fences(epoch)), fenced);
    };
    let log = begun();
    check(&log, [true, false, false, false]);
    let log = log.control(1, vec![lost(1)]);
    check(&log, [true, true, false, false]);
    let log = log.holder(2, vec![claimed(2)]);
    check(&log, [true, true, false, false]);
    let log = log.control(3, vec![EventBody::RunPaused]);
    check(&log, [true, true, true, false]);
    let log = log.control(3, vec![ended()]);
    check(&log, [true; 4]);
}

#[test]
fn interrupted_are_the_steps_that_an_earlier_holder_left_open() {
    let log = begun()
        .holder(
            1,
            vec![
                plan(&["z", "y", "x"]),
                started("a"),
                started("x"),
                started("y"),
                started("z"),
            ],
        )
        .holder(1, vec![committed("y"), retrying("x")])
        .control(1, vec![lost(1)]);
    assert_eq!(log.fold.interrupted(1), []);
    assert_eq!(log.fold.interrupted(2), [key("z"), key("a")]);
    let log = log.holder(2, vec![claimed(2), started("z"), started("x")]);
    assert_eq!(log.fold.interrupted(2), [key("a")]);
    assert_eq!(log.fold.interrupted(3), [key("z"), key("x"), key("a")]);
}
