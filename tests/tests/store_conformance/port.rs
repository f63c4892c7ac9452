//! The table port: items, conditions, transactions.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use outlast_store::Meter;
use outlast_store::table::{
    Action, Condition, Failure, Item, Key, Reason, Transacted, Write, Written, number, number_of, text, text_of,
};

use crate::bench::{Bench, fresh};

fn row() -> Key {
    Key::Row {
        pk: fresh(),
        sk: "meta".into(),
    }
}

fn item(attributes: &[(&str, AttributeValue)]) -> Item {
    let named = attributes
        .iter()
        .map(|(name, value)| (String::from(*name), value.clone()));
    named.collect()
}

fn whole(key: &Key, attributes: &[(&str, AttributeValue)]) -> Item {
    let mut whole = item(attributes);
    whole.extend(key.attributes().map(|(name, value)| (name.to_owned(), value)));
    whole
}

fn set(attributes: &[(&str, AttributeValue)]) -> Action {
    Action::Update {
        set: item(attributes).into_iter().collect(),
        remove: vec![],
    }
}

fn write(key: &Key, action: Action, condition: Condition) -> Write {
    Write {
        key: key.clone(),
        action,
        condition,
    }
}

pub async fn nothing_is_there_at_first(bench: Bench) {
    for consistent in [true, false] {
        let page = Key::Page {
            run_id: fresh(),
            first_seq: 1,
        };
        assert_eq!(bench.table.get(&row(), consistent, &bench.meter).await, Ok(None));
        assert_eq!(bench.table.get(&page, consistent, &bench.meter).await, Ok(None));
    }
}

pub async fn a_put_where_something_stands_is_refused_with_it(bench: Bench) {
    let pages = Key::Page {
        run_id: fresh(),
        first_seq: 1,
    };
    for key in [row(), pages] {
        let first = Action::Put(item(&[("a", text("first"))]));
        assert_eq!(bench.write(&key, first, Condition::NotExists).await, Written::Done);
        let second = Action::Put(item(&[("a", text("second"))]));
        let stands = Some(whole(&key, &[("a", text("first"))]));
        assert_eq!(
            bench.write(&key, second, Condition::NotExists).await,
            Written::Refused(stands.clone())
        );
        assert_eq!(bench.peek(&key).await, stands);
    }
}

pub async fn a_put_without_condition_replaces_the_whole_item(bench: Bench) {
    let key = row();
    bench.plant(&key, item(&[("a", text("x")), ("b", number(1))])).await;
    bench.plant(&key, item(&[("b", number(2))])).await;
    assert_eq!(bench.peek(&key).await, Some(whole(&key, &[("b", number(2))])));
}

pub async fn an_update_changes_what_it_names(bench: Bench) {
    let key = row();
    // Names that DynamoDB reserves, and one that is none of ours.
    bench
        .plant(
            &key,
            item(&[("status", text("a")), ("owner", text("b")), ("later", number(7))]),
        )
        .await;
    let update = Action::Update {
        set: vec![("status".into(), text("c")), ("size".into(), number(1))],
        remove: vec!["owner".into(), "never".into()],
    };
    assert_eq!(bench.write(&key, update, Condition::Always).await, Written::Done);
    let expected = whole(
        &key,
        &[("status", text("c")), ("size", number(1)), ("later", number(7))],
    );
    assert_eq!(bench.peek(&key).await, Some(expected));
}

pub async fn an_update_of_nothing_makes_an_item(bench: Bench) {
    let key = row();
    assert_eq!(
        bench.write(&key, set(&[("a", number(1))]), Condition::Lacks("a")).await,
        Written::Done
    );
    assert_eq!(bench.peek(&key).await, Some(whole(&key, &[("a", number(1))])));
}

pub async fn a_version_is_compared(bench: Bench) {
    let key = row();
    let update = || set(&[("version", number(2))]);
    let nothing = bench.write(&key, update(), Condition::VersionIs(1)).await;
    assert!(matches!(nothing, Written::Refused(_)), "{nothing:?}");
    assert_eq!(bench.peek(&key).await, None, "a refused update leaves nothing");
    bench.plant(&key, item(&[("version", number(1))])).await;
    assert_eq!(
        bench.write(&key, update(), Condition::VersionIs(1)).await,
        Written::Done
    );
    let stands = Some(whole(&key, &[("version", number(2))]));
    assert_eq!(
        bench.write(&key, update(), Condition::VersionIs(1)).await,
        Written::Refused(stands)
    );
}

pub async fn an_attribute_must_be_there(bench: Bench) {
    let key = row();
    let nothing = bench.write(&key, set(&[("b", number(1))]), Condition::Has("a")).await;
    assert!(matches!(nothing, Written::Refused(_)), "{nothing:?}");
    assert_eq!(bench.peek(&key).await, None);
    bench.plant(&key, item(&[("a", number(1))])).await;
    assert_eq!(
        bench.write(&key, set(&[("b", number(1))]), Condition::Has("a")).await,
        Written::Done
    );
}

pub async fn an_attribute_must_be_absent(bench: Bench) {
    let key = row();
    bench.plant(&key, item(&[("b", number(1))])).await;
    assert_eq!(
        bench.write(&key, set(&[("a", number(1))]), Condition::Lacks("a")).await,
        Written::Done
    );
    let again = bench.write(&key, set(&[("a", number(2))]), Condition::Lacks("a")).await;
    let stands = whole(&key, &[("a", number(1)), ("b", number(1))]);
    assert_eq!(again, Written::Refused(Some(stands)));
}

pub async fn an_attribute_must_be_this_text(bench: Bench) {
    let key = row();
    bench.plant(&key, item(&[("a", text("x"))])).await;
    let is = |value: &str| Condition::Is("a", value.into());
    assert!(matches!(
        bench.write(&key, set(&[("a", text("z"))]), is("y")).await,
        Written::Refused(Some(_))
    ));
    assert_eq!(
        bench.write(&key, set(&[("a", text("z"))]), is("x")).await,
        Written::Done
    );
}

pub async fn a_number_must_be_reached(bench: Bench) {
    let key = row();
    let put = |until: i64| Action::Put(item(&[("until", number(until))]));
    let by = |now: i64| Condition::NotExistsOrAtMost("until", now);
    assert_eq!(bench.write(&key, put(10), by(0)).await, Written::Done);
    assert!(matches!(
        bench.write(&key, put(20), by(9)).await,
        Written::Refused(Some(_))
    ));
    assert_eq!(bench.write(&key, put(20), by(10)).await, Written::Done);
    bench.plant(&key, item(&[("other", number(1))])).await;
    assert!(matches!(
        bench.write(&key, put(20), by(30)).await,
        Written::Refused(Some(_))
    ));
}

pub async fn a_transaction_is_all_or_nothing(bench: Bench) {
    let (one, two, checked) = (row(), row(), row());
    bench.plant(&one, item(&[("version", number(1))])).await;
    let writes = |version| {
        [
            write(&one, set(&[("version", number(2))]), Condition::VersionIs(version)),
            write(&two, Action::Put(item(&[("a", text("x"))])), Condition::NotExists),
            write(&checked, Action::Check, Condition::NotExists),
        ]
    };
    let refused = bench.table.transact(&writes(7), &bench.meter).await;
    assert!(matches!(refused, Ok(Transacted::Refused(_))), "{refused:?}");
    assert_eq!(bench.peek(&two).await, None);
    assert_eq!(
        bench.table.transact(&writes(1), &bench.meter).await,
        Ok(Transacted::Done)
    );
    assert_eq!(bench.peek(&one).await, Some(whole(&one, &[("version", number(2))])));
    assert_eq!(bench.peek(&two).await, Some(whole(&two, &[("a", text("x"))])));
    assert_eq!(bench.peek(&checked).await, None);
}

pub async fn r31_a_cancelled_transaction_says_why_for_each_write(bench: Bench) {
    let (one, two, three) = (row(), row(), row());
    bench.plant(&one, item(&[("a", number(1))])).await;
    bench.plant(&three, item(&[("a", number(3))])).await;
    let writes = [
        write(&one, Action::Put(item(&[])), Condition::NotExists),
        write(&two, Action::Put(item(&[])), Condition::NotExists),
        write(&three, Action::Check, Condition::Is("a", "x".into())),
    ];
    let reasons = vec![
        Reason::ConditionFailed(Some(whole(&one, &[("a", number(1))]))),
        Reason::None,
        Reason::ConditionFailed(Some(whole(&three, &[("a", number(3))]))),
    ];
    let answer = bench.table.transact(&writes, &bench.meter).await;
    assert_eq!(answer, Ok(Transacted::Refused(reasons)));
}

pub async fn a_transaction_names_an_item_once(bench: Bench) {
    let key = row();
    let twice = [
        write(&key, Action::Put(item(&[])), Condition::Always),
        // A check of it beside a put is rejected too, though not by DynamoDB Local.
        write(&key, set(&[("a", number(1))]), Condition::Always),
    ];
    let answer = bench.table.transact(&twice, &bench.meter).await;
    assert!(matches!(answer, Err(Failure::Rejected(_))), "{answer:?}");
}

pub async fn an_item_too_large_is_rejected(bench: Bench) {
    let key = row();
    let large = write(
        &key,
        Action::Put(item(&[("a", text("x".repeat(401 * 1024)))])),
        Condition::Always,
    );
    let answer = bench.table.write(&large, &bench.meter).await;
    assert!(matches!(answer, Err(Failure::Rejected(_))), "{answer:?}");
    assert_eq!(bench.peek(&key).await, None);
}

pub async fn every_kind_of_value_comes_back(bench: Bench) {
    let key = row();
    let map = HashMap::from([(
        "in".to_owned(),
        AttributeValue::L(vec![number(1), text("🙂"), text("")]),
    )]);
    let attributes = [
        ("empty", text("")),
        ("text", text("a\0b\r\n\u{2028}\"\\ 你好🙂é")),
        ("large", number(i64::MAX)),
        ("negative", number(-5)),
        ("time", number(1_780_000_000_000_i64)),
        ("hundred", number(100)),
        ("yes", AttributeValue::Bool(true)),
        ("null", AttributeValue::Null(true)),
        ("map", AttributeValue::M(map)),
        ("none", AttributeValue::L(vec![])),
        ("blank", AttributeValue::M(HashMap::new())),
        ("bytes", AttributeValue::B(vec![0, 255, 7].into())),
    ];
    bench.plant(&key, item(&attributes)).await;
    assert_eq!(bench.peek(&key).await, Some(whole(&key, &attributes)));
}

pub async fn twenty_at_once_have_one_winner(bench: Bench) {
    let key = row();
    bench.plant(&key, item(&[("version", number(1))])).await;
    let tries = (0..20).map(|racer: u64| {
        let (bench, key) = (bench.clone(), key.clone());
        tokio::spawn(async move {
            let update = set(&[("version", number(2)), ("by", number(racer))]);
            (racer, bench.write(&key, update, Condition::VersionIs(1)).await)
        })
    });
    let tries: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<u64> = tries
        .iter()
        .filter(|(_, written)| *written == Written::Done)
        .map(|(racer, _)| *racer)
        .collect();
    assert_eq!(winners.len(), 1);
    let stands = bench.peek(&key).await.unwrap();
    assert_eq!(number_of(&stands, "by"), Some(winners[0]));
    for (_, written) in tries {
        if let Written::Refused(shown) = written {
            assert_eq!(shown, Some(stands.clone()));
        }
    }
}

pub async fn requests_and_units_are_counted(bench: Bench) {
    let (key, meter) = (row(), Arc::new(Meter::default()));
    let put = write(
        &key,
        Action::Put(item(&[("a", text("x".repeat(5000)))])),
        Condition::NotExists,
    );
    bench.table.write(&put, &meter).await.unwrap();
    let cost = meter.cost();
    assert_eq!((cost.write_requests, cost.write_deci_units), (1, 50));
    bench.table.write(&put, &meter).await.unwrap();
    let refused = meter.cost() - cost;
    assert_eq!(refused.write_requests, 1);
    assert!(refused.write_deci_units >= 10);

    let before = meter.cost();
    let read = bench.table.get(&key, true, &meter).await.unwrap().unwrap();
    assert_eq!(text_of(&read, "a").map(str::len), Some(5000));
    bench.table.get(&key, false, &meter).await.unwrap();
    let reads = meter.cost() - before;
    assert_eq!((reads.read_requests, reads.read_deci_units), (2, 30));

    let before = meter.cost();
    let put = |key: Key| write(&key, Action::Put(item(&[("a", text("x"))])), Condition::NotExists);
    bench.table.transact(&[put(row()), put(row())], &meter).await.unwrap();
    let transaction = meter.cost() - before;
    assert_eq!((transaction.write_requests, transaction.write_deci_units), (1, 40));
}
