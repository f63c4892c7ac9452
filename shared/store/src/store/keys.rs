//! API keys: read with each request that brings one; made, listed and removed by whoever operates the deployment.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use outlast_core::Timestamp;
use tracing::warn;

use super::lists::AT_ONCE;
use super::{Store, StoreError};
use crate::keys::{KeyRecord, LIST, api_key_key, decode, encode, hash_of, removal, was_removed_at};
use crate::schema::{Index, TableId};
use crate::table::{Action, Condition, Query, Range, Write, Written};

impl Store {
    /// The key of this hash, unless there is none or it was removed. Consistent, so that a removal is known to the next
    /// request: half a read unit more than a read that might still find the key. Whether it has expired is for the
    /// caller to say, who has a clock.
    pub async fn api_key(&self, hash: &str) -> Result<Option<KeyRecord>, StoreError> {
        match self.get(&api_key_key(hash)?, true).await? {
            Some(item) => decode(hash, &item),
            None => Ok(None),
        }
    }

    /// Fails if there is such a key, or was: its hash has to be that of a fresh one.
    pub async fn add_api_key(&self, record: &KeyRecord) -> Result<(), StoreError> {
        let put = Write {
            key: api_key_key(&record.hash)?,
            action: Action::Put(encode(record)?),
            condition: Condition::NotExists,
        };
        match self.write(&put).await? {
            Written::Done => Ok(()),
            // An earlier try of this one had landed.
            Written::Refused(Some(item)) if decode(&record.hash, &item)?.as_ref() == Some(record) => Ok(()),
            Written::Refused(_) => Err(StoreError::Rejected("there is such a key already".into())),
        }
    }

    /// False if there is no such key any more.
    pub async fn remove_api_key(&self, hash: &str, now: Timestamp) -> Result<bool, StoreError> {
        let (set, remove) = removal(now);
        let update = Write {
            key: api_key_key(hash)?,
            action: Action::Update { set, remove },
            // Of one that is listed; and never an item where there is none.
            condition: Condition::Is(Index::Work.keys().hash.name, LIST.into()),
        };
        Ok(match self.write(&update).await? {
            Written::Done => true,
            // An earlier try of this one may have landed.
            Written::Refused(item) => item.is_some_and(|item| was_removed_at(&item, now)),
        })
    }

    /// All keys that were not removed, the oldest first. By an index: one that was made a moment ago may be missing. One
    /// that can't be read is left out.
    pub async fn api_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        let query = Query {
            table: TableId::Runs,
            index: Some(Index::Work),
            hash: LIST.into(),
            range: Range::All,
            reverse: false,
            limit: None,
            consistent: false,
            start: None,
        };
        let items = self.query_all(query).await?;
        let hashes: Vec<String> = items.iter().filter_map(hash_of).map(str::to_owned).collect();
        let read = stream::iter(hashes).map(|hash| async move { self.readable_key(&hash).await });
        let keys: Vec<Option<KeyRecord>> = read.buffered(AT_ONCE).try_collect().await?;
        Ok(keys.into_iter().flatten().collect())
    }

    async fn readable_key(&self, hash: &str) -> Result<Option<KeyRecord>, StoreError> {
        match self.api_key(hash).await {
            Err(error @ (StoreError::Corrupt(_) | StoreError::UnknownSchema(_))) => {
                warn!(%error, "a key was left out of the list");
                Ok(None)
            }
            answer => answer,
        }
    }
}
