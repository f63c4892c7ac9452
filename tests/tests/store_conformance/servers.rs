//! What concerns servers only: the tables themselves.

use outlast_core::{Owner, RunId};
use outlast_store::dynamodb::{DynamoTable, create_tables};
use outlast_store::records::{DynamoRecords, Records as _};
use outlast_store::schema::{TABLES, TTL, TableNames};
use outlast_store::{Store, StoreError};
use outlast_tests::dynamodb_local::DynamoDbLocal;
use outlast_tests::embedded::Embedded;
use outlast_tests::wait::RealPause;
use serde_json::{Map, Value, json};
use std::sync::Arc;

use aws_sdk_dynamodb::Client;

async fn tables_are_made_once(client: Client) {
    let names = TableNames::with_prefix("made");
    for _ in 0..2 {
        create_tables(&client, &names, &RealPause)
            .await
            .expect("the tables are made, or there already");
    }
    for schema in &TABLES {
        let name = names.of(schema.table);
        let table = client
            .describe_table()
            .table_name(name)
            .send()
            .await
            .unwrap()
            .table
            .unwrap();
        let mut found: Vec<_> = table
            .global_secondary_indexes()
            .iter()
            .filter_map(|index| index.index_name())
            .collect();
        let mut expected: Vec<_> = schema.indexes.iter().map(|index| index.name()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let ttl = client.describe_time_to_live().table_name(name).send().await.unwrap();
        assert_eq!(ttl.time_to_live_description.unwrap().attribute_name(), Some(TTL));
    }
    // A table that is there with other keys.
    let swapped = TableNames {
        runs: names.events.clone(),
        events: names.runs.clone(),
    };
    let refused = create_tables(&client, &swapped, &RealPause).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
}

async fn a_missing_table_is_rejected_at_once(client: Client) {
    let table = DynamoTable::new(&client, TableNames::with_prefix("nowhere"));
    let store = Store::new(Arc::new(table), Arc::new(RealPause));
    let missing = store.load_run(&RunId::new("a")).await;
    assert!(matches!(missing, Err(StoreError::Rejected(_))), "{missing:?}");
    let missing = store.list_runs(&Owner::new("a"), 1, None).await;
    assert!(matches!(missing, Err(StoreError::Rejected(_))), "{missing:?}");
    assert_eq!(store.cost().read_requests, 2, "no request was tried again");
}

async fn records_are_put_and_got(client: Client) {
    let names = TableNames::with_prefix("records");
    create_tables(&client, &names, &RealPause).await.unwrap();
    let records = DynamoRecords::new(client);
    let object = |value: Value| -> Map<String, Value> { serde_json::from_value(value).unwrap() };
    let key = object(json!({"pk": "AF", "sk": "country"}));
    assert_eq!(records.get(&names.runs, &key).await, Ok(None));
    let item = object(json!({
        "pk": "AF", "sk": "country", "name": "Åland 🙂", "area": 1580.5, "population": 30000,
        "codes": ["ALA", 248, null, true], "nested": {"a": {"b": -1}}
    }));
    for _ in 0..2 {
        assert_eq!(records.put(&names.runs, &item).await, Ok(()));
    }
    assert_eq!(records.get(&names.runs, &key).await, Ok(Some(item)));
    let keyless = object(json!({"name": "x"}));
    let refused = records.put(&names.runs, &keyless).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    let missing = records.put("nowhere", &key).await;
    assert!(matches!(missing, Err(StoreError::Rejected(_))), "{missing:?}");
}

#[tokio::test]
async fn on_the_embedded_server() {
    let server = Embedded::start();
    tables_are_made_once(server.client()).await;
    a_missing_table_is_rejected_at_once(server.client()).await;
    records_are_put_and_got(server.client()).await;
}

#[tokio::test]
async fn on_dynamodb_local() {
    let server = DynamoDbLocal::start();
    tables_are_made_once(server.client("made")).await;
    a_missing_table_is_rejected_at_once(server.client("missing")).await;
    records_are_put_and_got(server.client("records")).await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable() {
    let server = Embedded::start();
    let client = server.client();
    drop(server);
    let store = Store::new(
        Arc::new(DynamoTable::new(&client, TableNames::default())),
        Arc::new(RealPause),
    );
    let gone = store.load_run(&RunId::new("a")).await;
    assert!(matches!(gone, Err(StoreError::Unavailable(_))), "{gone:?}");
    assert_eq!(store.cost().read_requests, 8, "it was tried again");
}
