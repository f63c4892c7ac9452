//! Waits, questions, and what is released from N.

use super::rules::check;
use super::*;
use crate::outcome::AgentResult;
use Writer::{Control, Holder};

fn released(name: &str) -> EventBody {
    EventBody::StepReleased { key: key(name) }
}

fn parallel(name: &str) -> EventBody {
    EventBody::ParallelEnded {
        key: key(name),
        result: json("{}"),
    }
}

fn wait_ended(name: &str) -> EventBody {
    EventBody::WaitEnded { key: key(name) }
}

#[test]
fn a_wait_ends_once_and_only_if_it_began() {
    check(begun(), Holder, 1, vec![wait_ended("nap")], "not under way");
    let waited = || begun().holder(1, vec![wait_started("nap"), wait_ended("nap")]);
    check(waited(), Holder, 1, vec![wait_ended("nap")], "not under way");
    check(waited(), Holder, 1, vec![wait_started("nap")], "was a wait before");
}

#[test]
fn a_question_is_settled_once_by_the_first_that_the_log_has() {
    let all = [
        answered("ok"),
        refused("ok"),
        expired("ok", None),
        expired("ok", Some("7")),
    ];
    for (first, second) in all
        .iter()
        .flat_map(|first| all.iter().map(move |second| (first, second)))
    {
        let settled = begun().holder(1, vec![asked("ok")]).control(1, vec![first.clone()]);
        check(settled, Control, 1, vec![second.clone()], "a second answer");
    }
    check(begun(), Control, 1, vec![answered("ok")], "which nobody asked");
    let again = || begun().holder(1, vec![asked("ok")]);
    check(again(), Holder, 1, vec![asked("ok")], "was a question before");
}

#[test]
fn an_answer_is_one_thing() {
    let asked = || begun().holder(1, vec![asked("ok")]);
    let answer = |value: Option<&str>, error: Option<ErrorInfo>, expired| EventBody::AnswerRecorded {
        key: key("ok"),
        value: value.map(json),
        error,
        expired,
    };
    for nonsense in [
        answer(None, None, false),
        answer(Some("1"), Some(error()), false),
        answer(None, Some(error()), true),
    ] {
        check(asked(), Control, 1, vec![nonsense], "not one thing");
    }
    let endless = EventBody::ApprovalRequired {
        key: key("ok"),
        expires_at: None,
        default: None,
        schema: None,
    };
    let endless = begun().holder(1, vec![endless]);
    check(endless, Holder, 1, vec![expired("ok", None)], "has no time to");
}

#[test]
fn a_key_is_used_for_one_thing() {
    let uses = [started("a"), wait_started("a"), asked("a"), parallel("a")];
    for (index, first) in uses.iter().enumerate() {
        for second in uses.iter().skip(index + 1).chain(&uses[..index]) {
            let used = begun().holder(1, vec![first.clone()]);
            check(used, Holder, 1, vec![second.clone()], "and was a");
        }
    }
    let waited = begun().holder(1, vec![wait_started("a")]);
    check(waited, Holder, 1, vec![plan(&["a"])], "and was a");
}

#[test]
fn what_is_released_is_no_part_of_n_and_never_starts_again() {
    let log = begun().holder(
        1,
        vec![plan(&["a", "b", "c", "d"]), started("a"), committed("a"), started("b")],
    );
    let log = log.holder(1, vec![released("b"), released("c")]);
    let totals = Totals {
        planned: 2,
        committed: 1,
        released: 2,
        ..Totals::default()
    };
    assert_eq!(log.fold.totals, totals);
    let value = AgentResult::Returned {
        value: json("1"),
        verification: None,
    };
    assert_eq!(log.fold.outcome(value.clone()).remainder, [key("d")]);
    let log = log.holder(1, vec![released("d")]);
    let outcome = log.fold.outcome(value);
    assert_eq!(
        (outcome.reason, outcome.remaining, outcome.totals.planned),
        (None, 0, 1)
    );

    let released_b = || begun().holder(1, vec![plan(&["b"]), released("b")]);
    check(released_b(), Holder, 1, vec![started("b")], "started after its end");
    check(released_b(), Holder, 1, vec![released("b")], "can't be");
    check(begun(), Holder, 1, vec![released("x")], "can't be");
    for ending in [committed("b"), failed("b"), unknown("b")] {
        let done = begun().holder(1, vec![started("b"), ending]);
        check(done, Holder, 1, vec![released("b")], "can't be");
    }
    let once = begun().holder(1, vec![started_as("b", 1, false)]);
    check(once, Holder, 1, vec![released("b")], "can't be");
}

#[test]
fn behind_a_decided_parallel_nothing_of_it_starts() {
    let decided = || begun().holder(1, vec![parallel("fan")]);
    check(decided(), Holder, 1, vec![started("fan/a/x")], "was decided");
    check(decided(), Holder, 1, vec![parallel("fan")], "was a parallel before");
    decided().holder(1, vec![started("fanfare"), started("a/fan")]);
}

#[test]
fn what_a_parallel_leaves_behind() {
    let names = ["fan/a/done", "fan/b/cut", "fan/b/once", "fan/c/never", "other"];
    let log = begun().holder(
        1,
        vec![
            plan(&names),
            started(names[0]),
            committed(names[0]),
            started(names[1]),
            started_as(names[2], 1, false),
        ],
    );
    let branches = ["fan/b", "fan/c"].map(key).into();
    let left = log.fold.left_behind(&branches);
    assert_eq!(left.to_log, [released(names[1]), unknown(names[2]), released(names[3])]);
    assert_eq!(left.unknown, [key("fan/b")].into());
    let totals = log.fold.totals_after(&left.to_log);
    let log = log.holder(1, left.to_log);
    assert_eq!((log.fold.totals, totals.planned, totals.released), (totals, 3, 2));
    let again = log.fold.left_behind(&branches);
    assert_eq!((again.to_log, again.unknown), (vec![], [key("fan/b")].into()));
}

#[test]
fn a_claim_ends_what_a_parked_run_waited_for() {
    let log = begun().holder(1, vec![asked("ok"), asked("other")]);
    assert!(!log.fold.is_awaited(&key("ok")));
    let parked = EventBody::RunParked {
        until: None,
        awaits: vec![key("ok")],
    };
    let log = log.control(1, vec![parked]);
    assert!(log.fold.is_awaited(&key("ok")) && !log.fold.is_awaited(&key("other")));
    let log = log.holder(2, vec![claimed(2)]);
    assert!(!log.fold.is_awaited(&key("ok")));
}

#[test]
fn g5_of_two_counts_the_later_one_wins_in_any_order() {
    let planned = Totals {
        planned: 10,
        committed: 1,
        ..Totals::default()
    };
    let released = Totals {
        planned: 4,
        committed: 3,
        released: 6,
        ..Totals::default()
    };
    assert_eq!((planned.max(released), released.max(planned)), (released, released));
}
