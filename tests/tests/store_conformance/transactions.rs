//! A row and a page in one transaction.

use futures::future::join_all;
use outlast_core::event::EventBody;
use outlast_core::{Page, Run};
use outlast_store::table::{Action, Condition, number, number_of, text, text_of};
use outlast_store::{RowAndPageWrite, RowWrite};

use crate::bench::{Bench, acceptance, claimed, ended, outcome, page, page_key, row_key};
use outlast_core::Owner;
use outlast_store::table::Key;

fn stopped(run: &Run) -> (Run, Page) {
    (claimed(run), page(&run.id, 2, vec![EventBody::StopRequested]))
}

fn completed(run: &Run) -> (Run, Page) {
    (ended(run), page(&run.id, 2, vec![EventBody::terminal(outcome(None))]))
}

fn thread_key(run: &Run) -> Key {
    Key::Row {
        pk: format!("thread#{}#{}", run.owner, run.thread),
        sk: "meta".into(),
    }
}

async fn write(bench: &Bench, before: &Run, (after, page): &(Run, Page)) -> RowAndPageWrite {
    bench
        .store
        .write_run_with_page(before, after, page)
        .await
        .expect("an answer")
}

pub async fn row_and_page_are_written_together(bench: Bench) {
    let run = bench.accepted().await;
    let (after, page) = stopped(&run);
    let landed = write(&bench, &run, &(after.clone(), page.clone())).await;
    let expected = Run { version: 2, ..after };
    assert_eq!(landed, RowAndPageWrite::Landed(Box::new(expected.clone())));
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(expected)));
    assert_eq!(bench.store.tail_page(&run.id).await, Ok(Some(page)));
}

pub async fn a_changed_row_keeps_the_page_out(bench: Bench) {
    let run = bench.accepted().await;
    let RowWrite::Landed(second) = bench.store.write_run(&run, &claimed(&run)).await.unwrap() else {
        panic!("it lands");
    };
    assert_eq!(
        write(&bench, &run, &stopped(&run)).await,
        RowAndPageWrite::RowChanged(Some(second))
    );
    assert_eq!(bench.peek(&page_key(&run.id, 2)).await, None);
    let nowhere = acceptance(&Owner::new("local"), None).run;
    assert_eq!(
        write(&bench, &nowhere, &stopped(&nowhere)).await,
        RowAndPageWrite::RowChanged(None)
    );
    assert_eq!(bench.peek(&page_key(&nowhere.id, 2)).await, None);
}

pub async fn a_moved_tail_keeps_the_row_back(bench: Bench) {
    let run = bench.accepted().await;
    bench.append(&run.id, 2, vec![EventBody::RunPaused]).await;
    for attempt in [stopped(&run), completed(&run)] {
        assert_eq!(write(&bench, &run, &attempt).await, RowAndPageWrite::TailMoved);
    }
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(run.clone())));
    assert_eq!(bench.store.active_run(&run.owner, &run.thread).await, Ok(Some(run.id)));
}

pub async fn both_failed_is_a_changed_row(bench: Bench) {
    let run = bench.accepted().await;
    let (row, tail) = stopped(&run);
    let RowAndPageWrite::Landed(second) = write(&bench, &run, &(row, tail)).await else {
        panic!("it lands");
    };
    assert_eq!(
        write(&bench, &run, &completed(&run)).await,
        RowAndPageWrite::RowChanged(Some(second))
    );
}

pub async fn a_repeated_transaction_knows_itself(bench: Bench) {
    let run = bench.accepted().await;
    let attempt = completed(&run);
    let first = write(&bench, &run, &attempt).await;
    assert!(matches!(first, RowAndPageWrite::Landed(_)), "{first:?}");
    assert_eq!(write(&bench, &run, &attempt).await, first);
    // Also when the row went on meanwhile: the page tells.
    let RowAndPageWrite::Landed(landed) = &first else {
        unreachable!("it was checked");
    };
    assert!(matches!(
        bench.store.write_run(landed, &claimed(landed)).await,
        Ok(RowWrite::Landed(_))
    ));
    assert_eq!(write(&bench, &run, &attempt).await, first);
    assert_eq!(bench.store.load_run(&run.id).await.unwrap().unwrap().version, 3);
}

pub async fn an_end_frees_the_thread(bench: Bench) {
    let run = bench.accepted().await;
    assert_eq!(
        bench.store.active_run(&run.owner, &run.thread).await,
        Ok(Some(run.id.clone()))
    );
    let live = bench.peek(&thread_key(&run)).await.unwrap();
    assert!(
        !live.contains_key("expires_at"),
        "a thread in use doesn't expire: {live:?}"
    );
    let attempt = completed(&run);
    assert!(matches!(
        write(&bench, &run, &attempt).await,
        RowAndPageWrite::Landed(_)
    ));
    assert_eq!(bench.store.active_run(&run.owner, &run.thread).await, Ok(None));
    let row = bench.peek(&row_key(&run.id)).await.unwrap();
    assert_eq!(number_of(&row, "expires_at"), attempt.0.expires_at);
    let freed = bench.peek(&thread_key(&run)).await.unwrap();
    assert_eq!(number_of(&freed, "expires_at"), attempt.0.expires_at);
}

pub async fn an_end_is_not_kept_back_by_a_strange_thread(bench: Bench) {
    let run = bench.accepted().await;
    let strange = Action::Update {
        set: vec![("live_run".into(), text("another")), ("planted".into(), number(1))],
        remove: vec![],
    };
    bench.write(&thread_key(&run), strange, Condition::Always).await;
    assert!(matches!(
        write(&bench, &run, &completed(&run)).await,
        RowAndPageWrite::Landed(_)
    ));
    let thread = bench.peek(&thread_key(&run)).await.unwrap();
    assert_eq!(
        text_of(&thread, "live_run"),
        Some("another"),
        "what isn't this run's stays"
    );
}

pub async fn twenty_transactions_have_one_winner(bench: Bench) {
    let run = bench.accepted().await;
    let tries = (0..20).map(|racer| {
        let (bench, run) = (bench.clone(), run.clone());
        tokio::spawn(async move {
            let attempt = if racer % 2 == 0 { stopped(&run) } else { completed(&run) };
            (write(&bench, &run, &attempt).await, attempt)
        })
    });
    let tries: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let mut winners = tries
        .iter()
        .filter(|(write, _)| matches!(write, RowAndPageWrite::Landed(_)));
    let (winner, (_, page)) = winners.next().expect("one wins");
    assert_eq!(winners.count(), 0);
    let RowAndPageWrite::Landed(row) = winner else {
        unreachable!("it was filtered");
    };
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*row.clone())));
    assert_eq!(bench.store.tail_page(&run.id).await, Ok(Some(page.clone())));
    let is_live = bench.store.active_run(&run.owner, &run.thread).await.unwrap().is_some();
    assert_eq!(is_live, !row.status.is_terminal());
}
