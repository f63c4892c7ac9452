//! A user's own table: what `put_record` writes to and reads back.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::store::StoreError;

/// Single items of a user's tables, as JSON objects.
#[async_trait]
pub trait Records: Send + Sync {
    /// Writes the whole item, replacing what has the same key.
    async fn put(&self, table: &str, item: &Map<String, Value>) -> Result<(), StoreError>;
    /// Consistent.
    async fn get(&self, table: &str, key: &Map<String, Value>) -> Result<Option<Map<String, Value>>, StoreError>;
}
