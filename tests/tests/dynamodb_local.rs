//! DynamoDB Local starts, answers the AWS SDK, keeps tests apart by their access keys, and is gone when dropped.

use std::net::TcpStream;

use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use outlast_tests::dynamodb_local::DynamoDbLocal;

#[tokio::test]
async fn starts_answers_and_stops() {
    let server = DynamoDbLocal::start();
    let one = server.client("one");
    assert!(
        one.list_tables()
            .send()
            .await
            .expect("tables are listed")
            .table_names()
            .is_empty()
    );

    let key = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S);
    let hash = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash);
    one.create_table()
        .table_name("things")
        .attribute_definitions(key.build().expect("an attribute"))
        .key_schema(hash.build().expect("a key"))
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .expect("a table is created");
    assert_eq!(
        one.list_tables().send().await.expect("tables are listed").table_names(),
        ["things"]
    );

    let other = server.client("other");
    assert!(
        other
            .list_tables()
            .send()
            .await
            .expect("tables are listed")
            .table_names()
            .is_empty()
    );

    let address = server.endpoint().replace("http://", "");
    assert!(TcpStream::connect(&address).is_ok());
    drop(server);
    assert!(TcpStream::connect(&address).is_err());
}
