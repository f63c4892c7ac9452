//! API keys.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::{Owner, Scope, Scopes};
use outlast_store::table::{Item, Key, number, text, text_of};
use outlast_store::{Accepted, KeyRecord, StoreError};
use outlast_tests::wait::wait_until;

use crate::bench::{Bench, acceptance, at, fresh};

fn record(owner: &Owner, made_at: i64) -> KeyRecord {
    KeyRecord {
        hash: fresh(),
        owner: owner.clone(),
        scopes: [Scope::Run, Scope::Read].into_iter().collect(),
        label: Some("für Ana".into()),
        begins: "ol_AbCdEfGh".into(),
        made_at: at(made_at),
        expires_at: Some(at(made_at + 5)),
    }
}

fn item_key(record: &KeyRecord) -> Key {
    Key::Row {
        pk: format!("key#{}", record.hash),
        sk: "meta".into(),
    }
}

/// Indexes lag behind.
async fn listed(bench: &Bench, count: usize) -> Vec<KeyRecord> {
    let mut keys = Vec::new();
    wait_until("the keys are listed", Duration::from_secs(10), async || {
        keys = bench.store.api_keys().await.unwrap();
        keys.len() == count
    })
    .await;
    keys
}

pub async fn a_key_comes_back_as_it_was_made(bench: Bench) {
    let plain = KeyRecord {
        label: None,
        expires_at: None,
        scopes: Scopes::default(),
        ..record(&Owner::new("o/1 é"), 2)
    };
    for made in [record(&Owner::new("o"), 1), plain] {
        assert_eq!(bench.store.api_key(&made.hash).await, Ok(None));
        assert_eq!(bench.store.add_api_key(&made).await, Ok(()));
        assert_eq!(bench.store.api_key(&made.hash).await, Ok(Some(made.clone())));
        // As one whose reply was lost is sent again.
        assert_eq!(bench.store.add_api_key(&made).await, Ok(()));
        let other = KeyRecord {
            owner: Owner::new("thief"),
            ..made.clone()
        };
        assert!(matches!(
            bench.store.add_api_key(&other).await,
            Err(StoreError::Rejected(_))
        ));
        assert_eq!(bench.store.api_key(&made.hash).await, Ok(Some(made)));
    }
}

pub async fn a_removed_key_is_gone_at_once_and_for_good(bench: Bench) {
    let made = record(&Owner::new("o"), 1);
    bench.store.add_api_key(&made).await.unwrap();
    assert_eq!(bench.store.remove_api_key(&made.hash, at(9)).await, Ok(true));
    assert_eq!(bench.store.api_key(&made.hash).await, Ok(None));
    // The same removal again, and another.
    assert_eq!(bench.store.remove_api_key(&made.hash, at(9)).await, Ok(true));
    assert_eq!(bench.store.remove_api_key(&made.hash, at(10)).await, Ok(false));
    assert!(bench.store.add_api_key(&made).await.is_err(), "it doesn't come back");
    let unknown = record(&Owner::new("o"), 1);
    assert_eq!(bench.store.remove_api_key(&unknown.hash, at(9)).await, Ok(false));
    assert_eq!(bench.peek(&item_key(&unknown)).await, None);
    // Whose it was can still be seen for a while.
    let left = bench.peek(&item_key(&made)).await.unwrap();
    assert_eq!(text_of(&left, "owner"), Some("o"));
    assert_eq!(
        left["expires_at"],
        number((at(9) + Duration::from_secs(30 * 86_400)).as_ttl_seconds())
    );
}

pub async fn keys_are_listed_the_oldest_first_and_are_no_runs(bench: Bench) {
    let owner = Owner::new(fresh());
    let mut run = acceptance(&owner, None);
    run.run.created_at = at(4);
    assert_eq!(bench.store.accept(&run, at(4)).await, Ok(Accepted::Landed));
    let made: Vec<KeyRecord> = [5, 1, 3, 3, 9].map(|time| record(&owner, time)).into();
    for key in &made {
        bench.store.add_api_key(key).await.unwrap();
    }
    let keys = listed(&bench, made.len()).await;
    let times: Vec<_> = keys.iter().map(|key| key.made_at).collect();
    assert_eq!(times, [1, 3, 3, 5, 9].map(at));
    let hashes = |keys: &[KeyRecord]| keys.iter().map(|key| key.hash.clone()).collect::<BTreeSet<_>>();
    assert_eq!(hashes(&keys), hashes(&made));

    bench.store.remove_api_key(&made[1].hash, at(9)).await.unwrap();
    assert_eq!(
        hashes(&listed(&bench, 4).await),
        hashes(&[&made[..1], &made[2..]].concat())
    );
    // A list of the owner's runs meets none of them, not even as an end of a page.
    let runs = bench.store.list_runs(&owner, 1, None).await.unwrap();
    assert_eq!(runs.runs.len(), 1);
    let after = runs.next.expect("at the limit it isn't looked whether there is more");
    let end = bench.store.list_runs(&owner, 1, Some(&after)).await.unwrap();
    assert_eq!((end.runs.len(), end.next), (0, None));
}

pub async fn what_is_stored_of_a_key_is_judged(bench: Bench) {
    let made = record(&Owner::new("o"), 1);
    bench.store.add_api_key(&made).await.unwrap();
    let whole = bench.peek(&item_key(&made)).await.unwrap();
    let with = async |name: &str, value: Option<AttributeValue>| {
        let mut item: Item = whole.clone();
        item.remove(name);
        item.extend(value.map(|value| (name.to_owned(), value)));
        bench.plant(&item_key(&made), item).await;
        bench.store.api_key(&made.hash).await
    };
    let list = |scopes: &[&str]| AttributeValue::L(scopes.iter().map(|scope| text(*scope)).collect());
    let scopes = |found: Result<Option<KeyRecord>, StoreError>| found.unwrap().unwrap().scopes.to_string();
    assert_eq!(
        scopes(with("scopes", Some(list(&["read", "fly", "READ"]))).await),
        "read"
    );
    assert_eq!(scopes(with("scopes", Some(list(&[]))).await), "");
    for (name, value) in [
        ("owner", None),
        // The table itself keeps out one that is empty, or no text.
        ("owner", Some(text("x".repeat(257)))),
        ("scopes", None),
        ("scopes", Some(text("admin"))),
        ("made_at", None),
        ("good_until", Some(text("never"))),
        ("schema", None),
    ] {
        let found = with(name, value).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{name}: {found:?}");
    }
    assert!(matches!(
        with("schema", Some(number(9))).await,
        Err(StoreError::UnknownSchema(9))
    ));
    assert!(
        bench.store.api_keys().await.unwrap().is_empty(),
        "and is left out of the list"
    );
    // An expiry that is there counts, however it came there.
    let found = with("good_until", Some(number(at(3).as_millis())))
        .await
        .unwrap()
        .unwrap();
    assert!(!found.is_expired(at(2)) && found.is_expired(at(3)));
}

pub async fn the_name_of_a_key_can_not_be_forged(bench: Bench) {
    let made = record(&Owner::new("o"), 1);
    bench.store.add_api_key(&made).await.unwrap();
    for forged in ["#", "x#meta", "../run", "%", ""] {
        assert!(
            matches!(
                bench.store.api_key(forged).await,
                Ok(None) | Err(StoreError::Rejected(_))
            ),
            "{forged}"
        );
    }
    let nobody = KeyRecord {
        owner: Owner::new(""),
        ..record(&Owner::new("o"), 1)
    };
    assert!(matches!(
        bench.store.add_api_key(&nobody).await,
        Err(StoreError::Rejected(_))
    ));
    assert_eq!(bench.peek(&item_key(&nobody)).await, None);
}
