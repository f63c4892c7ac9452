//! An answer in one transaction with its run's row and, where there is one, its page.

use futures::future::join_all;
use outlast_core::event::EventBody;
use outlast_core::outcome::ErrorInfo;
use outlast_core::{Page, Run, StepKey};
use outlast_store::{AnswerRecord, AnswerWrite, RowWrite};

use crate::bench::{Bench, at, claimed, page, page_key, payload, write_id};

fn record(value: &str) -> AnswerRecord {
    AnswerRecord {
        key: StepKey::new("fan/a/ok%3F"),
        value: Some(payload(value)),
        error: None,
        expired: false,
        at: at(7),
    }
}

fn recorded(run: &Run, record: &AnswerRecord) -> Page {
    let body = EventBody::AnswerRecorded {
        key: record.key.clone(),
        value: record.value.clone(),
        error: record.error.clone(),
        expired: record.expired,
    };
    page(&run.id, 2, vec![body])
}

async fn write(bench: &Bench, before: &Run, after: &Run, record: &AnswerRecord, page: Option<&Page>) -> AnswerWrite {
    let wrote = bench.store.write_answer(before, after, record, page).await;
    wrote.expect("an answer")
}

pub async fn row_answer_and_page_are_written_together(bench: Bench) {
    let run = bench.accepted().await;
    let (after, record) = (claimed(&run), record(r#"{"z": 1.0}"#));
    let page = recorded(&run, &record);
    let landed = write(&bench, &run, &after, &record, Some(&page)).await;
    let expected = Run {
        version: 2,
        ..after.clone()
    };
    assert_eq!(landed, AnswerWrite::Landed(Box::new(expected.clone())));
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(expected)));
    assert_eq!(bench.store.tail_page(&run.id).await, Ok(Some(page.clone())));
    let stored = bench.store.stored_answer(&run.id, &record.key).await;
    assert_eq!(stored, Ok(Some(record.clone())));
    // The same again knows itself.
    let again = write(&bench, &run, &after, &record, Some(&page)).await;
    assert!(matches!(again, AnswerWrite::Landed(_)), "{again:?}");
}

pub async fn an_answer_without_a_page_and_one_with_an_error_come_back(bench: Bench) {
    let run = bench.accepted().await;
    let error = AnswerRecord {
        value: None,
        error: Some(ErrorInfo::new("declined", "no")),
        ..record("1")
    };
    let landed = write(&bench, &run, &claimed(&run), &error, None).await;
    assert!(matches!(landed, AnswerWrite::Landed(_)), "{landed:?}");
    assert_eq!(bench.store.stored_answer(&run.id, &error.key).await, Ok(Some(error)));
    let other = bench.store.stored_answer(&run.id, &StepKey::new("other")).await;
    assert_eq!(other, Ok(None));
    assert_eq!(bench.peek(&page_key(&run.id, 2)).await, None);
}

pub async fn what_keeps_an_answer_out_is_told_apart(bench: Bench) {
    let run = bench.accepted().await;
    let (first, second) = (record("1"), record("2"));
    let landed = write(&bench, &run, &claimed(&run), &first, None).await;
    let AnswerWrite::Landed(row) = landed else {
        panic!("{landed:?}")
    };
    let page = recorded(&run, &second);
    let taken = write(&bench, &row, &claimed(&row), &second, Some(&page)).await;
    assert_eq!(taken, AnswerWrite::Taken);
    let changed = write(&bench, &run, &claimed(&run), &second, Some(&page)).await;
    assert_eq!(changed, AnswerWrite::RowChanged(Some(row.clone())));
    bench.append(&run.id, 2, vec![EventBody::RunPaused]).await;
    let other = AnswerRecord {
        key: StepKey::new("other"),
        ..second
    };
    let moved = write(&bench, &row, &claimed(&row), &other, Some(&recorded(&run, &other))).await;
    assert_eq!(moved, AnswerWrite::TailMoved);
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*row)));
    assert_eq!(bench.store.stored_answer(&run.id, &other.key).await, Ok(None));
    assert_eq!(bench.store.stored_answer(&run.id, &first.key).await, Ok(Some(first)));
}

pub async fn twenty_answers_have_one_winner(bench: Bench) {
    let run = bench.accepted().await;
    let tries = (0..20).map(|n| {
        let (bench, run) = (&bench, &run);
        async move {
            let mut row = run.clone();
            let record = record(&n.to_string());
            loop {
                match write(bench, &row, &claimed(&row), &record, None).await {
                    AnswerWrite::Landed(_) => return Some(record),
                    AnswerWrite::RowChanged(Some(changed)) => row = *changed,
                    AnswerWrite::Taken => return None,
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    let won: Vec<AnswerRecord> = join_all(tries).await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    let stored = bench.store.stored_answer(&run.id, &won[0].key).await;
    assert_eq!(stored.unwrap().as_ref(), won.first());
}

pub async fn evidence_stands_beside_the_answer(bench: Bench) {
    let run = bench.accepted().await;
    let RowWrite::Landed(row) = bench.store.write_run(&run, &claimed(&run)).await.unwrap() else {
        panic!("it lands");
    };
    let late = record("3");
    for _ in 0..2 {
        bench.store.keep_evidence(&row, &late, &write_id()).await.unwrap();
    }
    assert_eq!(bench.store.stored_answer(&run.id, &late.key).await, Ok(None));
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*row)));
}
