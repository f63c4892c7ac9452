//! A user's own table: what `put_record` writes to and reads back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use serde_json::{Map, Value};

use crate::dynamodb::failure;
use crate::store::StoreError;
use crate::table::Item;

/// Single items of a user's tables, as JSON objects.
#[async_trait]
pub trait Records: Send + Sync {
    /// Writes the whole item, replacing what has the same key.
    async fn put(&self, table: &str, item: &Map<String, Value>) -> Result<(), StoreError>;
    /// Consistent.
    async fn get(&self, table: &str, key: &Map<String, Value>) -> Result<Option<Map<String, Value>>, StoreError>;
}

/// Through the AWS SDK. Writing a whole item twice is writing it once, so the client's own retries do.
pub struct DynamoRecords {
    client: Client,
}

impl DynamoRecords {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Records for DynamoRecords {
    async fn put(&self, table: &str, item: &Map<String, Value>) -> Result<(), StoreError> {
        let item = to_item(item)?;
        let sent = self
            .client
            .put_item()
            .table_name(table)
            .set_item(Some(item))
            .send()
            .await;
        sent.map(|_| ()).map_err(|error| failure(&error).into())
    }

    async fn get(&self, table: &str, key: &Map<String, Value>) -> Result<Option<Map<String, Value>>, StoreError> {
        let get = self.client.get_item().table_name(table).set_key(Some(to_item(key)?));
        let found = get.consistent_read(true).send().await;
        let found = found.map_err(|error| StoreError::from(failure(&error)))?;
        let read = |item| {
            serde_dynamo::from_item(item)
                .map_err(|error| StoreError::Corrupt(format!("an item of {table} that is no JSON: {error}")))
        };
        found.item.map(read).transpose()
    }
}

fn to_item(item: &Map<String, Value>) -> Result<Item, StoreError> {
    serde_dynamo::to_item(item).map_err(|error| StoreError::Rejected(format!("an item: {error}")))
}

/// For tests: tables in memory, each with the names of its key's attributes.
#[derive(Clone, Debug, Default)]
pub struct MemoryRecords {
    tables: Arc<Mutex<HashMap<String, MemoryTable>>>,
}

#[derive(Clone, Debug)]
struct MemoryTable {
    key: Vec<String>,
    /// By the JSON of their keys.
    items: HashMap<String, Map<String, Value>>,
}

impl MemoryRecords {
    /// With one more table.
    pub fn with_table(self, name: &str, key: &[&str]) -> Self {
        let table = MemoryTable {
            key: key.iter().map(|name| String::from(*name)).collect(),
            items: HashMap::new(),
        };
        self.tables().insert(name.into(), table);
        self
    }

    /// All items of a table, in no order.
    pub fn items(&self, table: &str) -> Vec<Map<String, Value>> {
        let tables = self.tables();
        tables
            .get(table)
            .map_or(vec![], |table| table.items.values().cloned().collect())
    }

    /// Takes an item away, as somebody else would.
    pub fn delete(&self, table: &str, key: &Map<String, Value>) -> bool {
        let mut tables = self.tables();
        let Some(table) = tables.get_mut(table) else {
            return false;
        };
        table.key_of(key).is_ok_and(|key| table.items.remove(&key).is_some())
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<String, MemoryTable>> {
        self.tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl MemoryTable {
    fn key_of(&self, item: &Map<String, Value>) -> Result<String, StoreError> {
        let lacking = |name: &String| StoreError::Rejected(format!("ValidationException: the key {name} is missing"));
        let values = self.key.iter().map(|name| item.get(name).ok_or_else(|| lacking(name)));
        Ok(Value::from_iter(values.collect::<Result<Vec<_>, _>>()?.into_iter().cloned()).to_string())
    }
}

fn missing(table: &str) -> StoreError {
    StoreError::Rejected(format!("ResourceNotFoundException: no table {table}"))
}

#[async_trait]
impl Records for MemoryRecords {
    async fn put(&self, table: &str, item: &Map<String, Value>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let table = tables.get_mut(table).ok_or_else(|| missing(table))?;
        table.items.insert(table.key_of(item)?, item.clone());
        Ok(())
    }

    async fn get(&self, table: &str, key: &Map<String, Value>) -> Result<Option<Map<String, Value>>, StoreError> {
        let tables = self.tables();
        let table = tables.get(table).ok_or_else(|| missing(table))?;
        Ok(table.items.get(&table.key_of(key)?).cloned())
    }
}
