//! What is tried again, and what is an answer.

use super::*;

#[test]
fn r31_throttles_conflicts_and_outages_are_tried_again() {
    for effect in [
        Effect::Throttle,
        Effect::Conflict,
        Effect::LoseRequest,
        Effect::LoseReply,
    ] {
        let (bench, run) = Bench::accepted();
        bench.fault(Kind::Write, "run#", effect.clone(), 3);
        let write = block_on(bench.store.write_run(&run, &claimed(&run, "w2")));
        assert!(matches!(write, Ok(RowWrite::Landed(_))), "{write:?}");
        assert_eq!(bench.waits(), [18, 37, 75], "each wait twice the one before");
        bench.fault(Kind::Get, "run#", effect.clone(), 3);
        assert!(block_on(bench.store.load_run(&run.id)).unwrap().is_some());
        bench.fault(Kind::Query, run.id.as_str(), effect, 3);
        assert_eq!(
            block_on(bench.store.read_pages(&run.id, 1, false)).unwrap().pages.len(),
            1
        );
    }
}

#[test]
fn r31_each_cancelled_transaction_is_a_refusal_or_tried_again() {
    use Reason::{ConditionFailed, Conflict, None as Fine, Other, Throttled};
    let passing = [
        vec![Fine, Conflict],
        vec![Conflict, Conflict, Fine],
        vec![Throttled],
        vec![Throttled, Conflict],
        vec![],
    ];
    for reasons in passing {
        let (bench, run) = Bench::accepted();
        let (after, last) = ended(&run);
        bench.fault(Kind::Transact, "run#", Effect::Cancel(reasons.clone()), 2);
        let write = block_on(bench.store.write_run_with_page(&run, &after, &last));
        assert!(
            matches!(write, Ok(RowAndPageWrite::Landed(_))),
            "{reasons:?}: {write:?}"
        );
        assert_eq!(bench.table.requests().len(), 3);
    }
    let (bench, run) = Bench::accepted();
    let (after, last) = ended(&run);
    let stands = || bench.table.peek(&row_key(&run.id));
    let refused = [
        (
            vec![ConditionFailed(stands()), Fine, Fine],
            RowAndPageWrite::RowChanged(Some(Box::new(run.clone()))),
        ),
        (
            vec![ConditionFailed(None), Conflict, Fine],
            RowAndPageWrite::RowChanged(None),
        ),
        (
            vec![Conflict, ConditionFailed(Some(Item::new())), Throttled],
            RowAndPageWrite::TailMoved,
        ),
        (
            vec![ConditionFailed(None), ConditionFailed(None), Fine],
            RowAndPageWrite::RowChanged(None),
        ),
    ];
    for (reasons, expected) in refused {
        bench.fault(Kind::Transact, "run#", Effect::Cancel(reasons), 1);
        let write = block_on(bench.store.write_run_with_page(&run, &after, &last));
        assert_eq!(write, Ok(expected));
    }
    assert!(bench.waits().is_empty(), "a refusal is not tried again");
    bench.fault(
        Kind::Transact,
        "run#",
        Effect::Cancel(vec![Fine, Other("ValidationError".into())]),
        1,
    );
    let write = block_on(bench.store.write_run_with_page(&run, &after, &last));
    assert_eq!(write, Err(StoreError::Rejected("ValidationError".into())));
}

#[test]
fn r34_a_conflict_on_the_turn_does_not_hide_that_it_is_taken() {
    let bench = Bench::new();
    let first = acceptance(1);
    assert_eq!(block_on(bench.store.accept(&first, at(0))), Ok(Accepted::Landed));
    let thread = Item::from([
        ("owner".to_owned(), crate::table::text("local")),
        ("live_run".to_owned(), crate::table::text(first.run.id.as_str())),
        ("schema".to_owned(), number(1u64)),
    ]);
    // Row, page, thread, turn.
    let reasons = vec![
        Reason::None,
        Reason::None,
        Reason::ConditionFailed(Some(thread)),
        Reason::Conflict,
    ];
    bench.fault(Kind::Transact, "turn#", Effect::Cancel(reasons.clone()), 1);
    let repeated = block_on(bench.store.accept(&acceptance(2), at(0)));
    assert_eq!(repeated, Ok(Accepted::TurnTaken(first.turn.clone().unwrap())));
    // When the turn has expired the thread decides.
    bench.fault(Kind::Transact, "turn#", Effect::Cancel(reasons), 1);
    let later = block_on(bench.store.accept(&acceptance(2), at(100_000)));
    assert_eq!(later, Ok(Accepted::ThreadBusy(first.run.id)));
}

#[test]
fn what_does_not_pass_is_unavailable_and_what_is_refused_is_not_tried_again() {
    let (bench, run) = Bench::accepted();
    bench.fault(Kind::Get, "run#", Effect::Throttle, 8);
    let down = block_on(bench.store.load_run(&run.id));
    assert!(
        matches!(&down, Err(StoreError::Unavailable(why)) if why.contains("throttled")),
        "{down:?}"
    );
    assert_eq!(bench.waits(), [18, 37, 75, 150, 300, 600, 750]);
    assert!(block_on(bench.store.load_run(&run.id)).is_ok());
    bench.table.forget_requests();
    bench.fault(Kind::Get, "run#", Effect::Reject, 1);
    assert!(matches!(
        block_on(bench.store.load_run(&run.id)),
        Err(StoreError::Rejected(_))
    ));
    assert_eq!(bench.table.requests().len(), 1);
}
