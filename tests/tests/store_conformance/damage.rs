//! Whatever is stored in the place of what we wrote: an error, or another value, and never a panic.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::Owner;
use outlast_store::Accepted;
use outlast_store::table::{Action, Condition, Item, Key, Write, number, text};

use crate::bench::{Bench, acceptance, at, claimed, page_key, row_key, run_id};
use crate::log::every_kind;

fn odd_values() -> Vec<AttributeValue> {
    let map = |name: &str, value| AttributeValue::M(HashMap::from([(name.to_owned(), value)]));
    vec![
        AttributeValue::Null(true),
        AttributeValue::Bool(true),
        number(-1),
        number(u64::MAX),
        number(i64::MAX),
        number(i128::from(u64::MAX) * 1_000_000),
        AttributeValue::N("1.5".into()),
        AttributeValue::N("1E+120".into()),
        text(""),
        text("\u{10FFFF}{\"a\":"),
        AttributeValue::B(vec![0, 159, 146, 150].into()),
        AttributeValue::L(vec![]),
        AttributeValue::L(vec![text("x"), number(7), map("seq", number(0))]),
        AttributeValue::M(HashMap::new()),
        map("first_part", number(i128::from(u64::MAX))),
        AttributeValue::M(HashMap::from([
            ("digest".to_owned(), text("x")),
            ("bytes".to_owned(), number(u64::MAX)),
            ("first_part".to_owned(), number(u64::MAX)),
            ("parts".to_owned(), number(u64::MAX)),
        ])),
        AttributeValue::Ss(vec!["a".into()]),
        AttributeValue::Ns(vec!["1".into()]),
        AttributeValue::Bs(vec![vec![1].into()]),
    ]
}

/// Puts each odd value in the place of each attribute, one at a time, and lets the store read it.
async fn damage(bench: &Bench, key: &Key, whole: &Item, read: impl AsyncFn()) {
    let names = whole
        .keys()
        .filter(|name| key.attributes().iter().all(|(part, _)| part != name));
    for name in names {
        for odd in odd_values().into_iter().map(Some).chain([None]) {
            let mut item = whole.clone();
            match odd {
                Some(odd) => item.insert(name.clone(), odd),
                None => item.remove(name),
            };
            let write = Write {
                key: key.clone(),
                action: Action::Put(item),
                condition: Condition::Always,
            };
            // A server refuses an index's attribute of another kind: then there is nothing to read.
            if bench.table.write(&write, &bench.meter).await.is_ok() {
                read().await;
            }
        }
    }
}

pub async fn no_attribute_of_a_row_can_panic(bench: Bench) {
    let new = acceptance(&Owner::new("local"), Some(("turn", "print")));
    assert_eq!(bench.store.accept(&new, at(0)).await, Ok(Accepted::Landed));
    let run = &new.run;
    let turn = new.turn.as_ref().unwrap();
    let row = |pk: String| Key::Row { pk, sk: "meta".into() };
    let keys = [
        row_key(&run.id),
        row(format!("thread#local#{}", run.thread)),
        row("turn#local#turn".into()),
    ];
    for key in keys {
        let whole = bench.peek(&key).await.unwrap();
        damage(&bench, &key, &whole, async || {
            let _ = bench.store.load_run(&run.id).await;
            let _ = bench.store.list_runs(&run.owner, 10, None).await;
            let _ = bench.store.write_run(&claimed(run), &claimed(run)).await;
            let _ = bench.store.active_run(&run.owner, &run.thread).await;
            let _ = bench.store.turn(&run.owner, &turn.turn, at(0)).await;
        })
        .await;
        bench.plant(&key, whole).await;
    }
}

pub async fn no_attribute_of_a_page_can_panic(bench: Bench) {
    let run = run_id();
    bench.append(&run, 1, every_kind()).await;
    let key = page_key(&run, 1);
    let whole = bench.peek(&key).await.unwrap();
    damage(&bench, &key, &whole, async || {
        let _ = bench.store.read_pages(&run, 1, true).await;
        let _ = bench.store.tail_page(&run).await;
        let _ = bench.store.last_seq(&run).await;
        let read = bench.store.read_wire_events(&run, 1, true).await;
        assert!(read.is_err() || !read.unwrap().events.is_empty());
    })
    .await;
}

pub async fn no_attribute_of_an_event_can_panic(bench: Bench) {
    let run = run_id();
    bench.append(&run, 1, every_kind()).await;
    let key = page_key(&run, 1);
    let whole = bench.peek(&key).await.unwrap();
    let Some(AttributeValue::L(events)) = whole.get("events") else {
        panic!("it has events");
    };
    let count = events.len();
    for index in [0, 3, 6, 8, count - 1] {
        let AttributeValue::M(event) = &events[index] else {
            panic!("an event is a map");
        };
        for name in event.keys() {
            for odd in odd_values() {
                let (mut events, mut event) = (events.clone(), event.clone());
                event.insert(name.clone(), odd);
                events[index] = AttributeValue::M(event);
                let mut item = whole.clone();
                item.insert("events".into(), AttributeValue::L(events));
                bench.plant(&key, item).await;
                let _ = bench.store.read_pages(&run, 1, true).await;
                let wire = bench
                    .store
                    .read_wire_events(&run, 1, true)
                    .await
                    .expect("readers get an answer");
                assert_eq!(wire.events.len(), count, "the others are untouched");
                assert!(wire.events.last().is_some_and(|event| event.terminal), "it still ends");
            }
        }
    }
}
