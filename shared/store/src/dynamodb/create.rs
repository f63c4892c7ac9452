//! Makes the two tables from their definition.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus, KeySchemaElement, KeyType as Role, Projection,
    ProjectionType, ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};

use super::failure;
use crate::schema::{Index, KeyType, Keys, TABLES, TTL, TableNames, TableSchema};
use crate::store::{Pause, StoreError};

const POLL: Duration = Duration::from_millis(500);
/// Two minutes: an on-demand table with three indexes takes seconds.
const POLLS: u32 = 240;

/// Makes what is not there yet: two on-demand tables with their indexes and TTL; returns when both can be used. A
/// table that is there with other keys is refused.
///
/// Point-in-time recovery is the deployment's to turn on: local servers don't know it.
pub async fn create_tables(client: &Client, names: &TableNames, pause: &dyn Pause) -> Result<(), StoreError> {
    for schema in &TABLES {
        create_table(client, schema, names.of(schema.table)).await?;
    }
    for schema in &TABLES {
        let name = names.of(schema.table);
        wait_until_active(client, schema, name, pause).await?;
        expire(client, name).await?;
    }
    Ok(())
}

async fn create_table(client: &Client, schema: &TableSchema, name: &str) -> Result<(), StoreError> {
    let indexes = schema.indexes.iter().map(|index| {
        GlobalSecondaryIndex::builder()
            .index_name(index.name())
            .set_key_schema(Some(key_schema(index.keys())?))
            .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
            .build()
            .map_err(unbuilt)
    });
    let indexes = indexes.collect::<Result<Vec<_>, StoreError>>()?;
    let sent = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(definitions(schema)?))
        .set_key_schema(Some(key_schema(schema.keys)?))
        .set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes))
        .send()
        .await;
    match sent {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some("ResourceInUseException") => Ok(()),
        Err(error) => Err(StoreError::from(failure(&error))),
    }
}

fn definitions(schema: &TableSchema) -> Result<Vec<AttributeDefinition>, StoreError> {
    let keys = std::iter::once(schema.keys).chain(schema.indexes.iter().map(|index| index.keys()));
    let attributes = keys.flat_map(|keys| [keys.hash, keys.range]).map(|attribute| {
        AttributeDefinition::builder()
            .attribute_name(attribute.name)
            .attribute_type(match attribute.kind {
                KeyType::Text => ScalarAttributeType::S,
                KeyType::Number => ScalarAttributeType::N,
            })
            .build()
            .map_err(unbuilt)
    });
    attributes.collect()
}

fn key_schema(keys: Keys) -> Result<Vec<KeySchemaElement>, StoreError> {
    let element = |(name, role): (&str, Role)| {
        let built = KeySchemaElement::builder().attribute_name(name).key_type(role).build();
        built.map_err(unbuilt)
    };
    [(keys.hash.name, Role::Hash), (keys.range.name, Role::Range)]
        .into_iter()
        .map(element)
        .collect()
}

async fn wait_until_active(
    client: &Client,
    schema: &TableSchema,
    name: &str,
    pause: &dyn Pause,
) -> Result<(), StoreError> {
    for _ in 0..POLLS {
        match client.describe_table().table_name(name).send().await {
            Ok(output) => {
                if let Some(table) = output.table() {
                    check_keys(schema, name, table)?;
                    if is_active(table) {
                        return Ok(());
                    }
                }
            }
            // Just made, and not everywhere known yet.
            Err(error) if error.code() == Some("ResourceNotFoundException") => {}
            Err(error) => match failure(&error) {
                failure if failure.may_pass() => {}
                failure => return Err(failure.into()),
            },
        }
        pause.sleep(POLL).await;
    }
    Err(StoreError::Unavailable(format!(
        "table {name} is not active after {} s",
        POLLS / 2
    )))
}

fn is_active(table: &TableDescription) -> bool {
    let indexes = table.global_secondary_indexes();
    table.table_status() == Some(&TableStatus::Active)
        && indexes
            .iter()
            .all(|index| index.index_status().is_none_or(|status| *status == IndexStatus::Active))
}

fn check_keys(schema: &TableSchema, name: &str, table: &TableDescription) -> Result<(), StoreError> {
    let is = |found: &[KeySchemaElement], keys: Keys| {
        let of = |role: Role| found.iter().find(|element| *element.key_type() == role);
        of(Role::Hash).is_some_and(|element| element.attribute_name() == keys.hash.name)
            && of(Role::Range).is_some_and(|element| element.attribute_name() == keys.range.name)
    };
    let has = |index: &&Index| {
        let named = table
            .global_secondary_indexes()
            .iter()
            .find(|found| found.index_name() == Some(index.name()));
        named.is_some_and(|found| is(found.key_schema(), index.keys()))
    };
    let lacking = schema.indexes.iter().find(|index| !has(index));
    match (is(table.key_schema(), schema.keys), lacking) {
        (true, None) => Ok(()),
        (false, _) => Err(StoreError::Rejected(format!("there is a table {name} with other keys"))),
        (true, Some(index)) => Err(StoreError::Rejected(format!(
            "table {name} lacks the index {}",
            index.name()
        ))),
    }
}

async fn expire(client: &Client, name: &str) -> Result<(), StoreError> {
    let described = client.describe_time_to_live().table_name(name).send().await;
    let described = described.map_err(|error| StoreError::from(failure(&error)))?;
    let status = described
        .time_to_live_description()
        .and_then(|found| found.time_to_live_status());
    if matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)) {
        return Ok(());
    }
    let specification = TimeToLiveSpecification::builder()
        .attribute_name(TTL)
        .enabled(true)
        .build();
    let sent = client
        .update_time_to_live()
        .table_name(name)
        .time_to_live_specification(specification.map_err(unbuilt)?)
        .send()
        .await;
    match sent {
        Ok(_) => Ok(()),
        // Somebody else was quicker.
        Err(error)
            if error
                .message()
                .is_some_and(|message| message.contains("already enabled")) =>
        {
            Ok(())
        }
        Err(error) => Err(StoreError::from(failure(&error))),
    }
}

fn unbuilt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Rejected(error.to_string())
}
