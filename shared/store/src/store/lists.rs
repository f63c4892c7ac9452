//! What the indexes say. An index is a hint: what is done with a run is decided on its row.

use futures::StreamExt as _;
use futures::stream;
use outlast_core::{Owner, Run, RunId, Timestamp};
use tracing::warn;

use super::{RunList, Store, StoreError};
use crate::rows::{due_shard_name, run_id_of, run_key};
use crate::schema::{Index, TableId};
use crate::table::{Item, Query, Range, number, number_of, text};

/// Items read at the same time for a list.
pub(super) const AT_ONCE: usize = 8;

impl Store {
    /// Newest first. A row that can't be read is left out.
    pub async fn list_runs(&self, owner: &Owner, limit: usize, after: Option<&str>) -> Result<RunList, StoreError> {
        let start = after.map(|cursor| start_after(owner, cursor)).transpose()?;
        let query = Query {
            table: TableId::Runs,
            index: Some(Index::ByOwner),
            hash: owner.to_string(),
            range: Range::All,
            reverse: true,
            limit: Some(u32::try_from(limit.max(1)).unwrap_or(u32::MAX)),
            consistent: false,
            start,
        };
        let answer = self.query(&query).await?;
        let ids: Vec<RunId> = answer.items.iter().filter_map(run_id_of).collect();
        let loaded: Vec<_> = stream::iter(ids)
            .map(|id| async move { (self.load_run(&id).await, id) })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut runs: Vec<Run> = Vec::with_capacity(loaded.len());
        for (row, id) in loaded {
            match row {
                Ok(Some(run)) if run.owner == *owner => runs.push(run),
                // The index lags behind.
                Ok(_) => {}
                Err(error @ (StoreError::Corrupt(_) | StoreError::UnknownSchema(_))) => {
                    warn!(run = %id, %error, "a row was left out of a list");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(RunList {
            runs,
            next: answer.last_key.as_ref().and_then(cursor),
        })
    }

    /// Runs that the index says are due in one of [`crate::schema::DUE_SHARDS`] shards, all of them. A hint.
    pub async fn due_runs(&self, shard: u8, now: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let query = Query {
            table: TableId::Runs,
            index: Some(Index::Due),
            hash: due_shard_name(shard),
            range: Range::AtMost(now.as_millis()),
            reverse: false,
            limit: None,
            consistent: false,
            start: None,
        };
        Ok(self.query_all(query).await?.iter().filter_map(run_id_of).collect())
    }
}

/// `<created at>.<run id>`.
fn cursor(last_key: &Item) -> Option<String> {
    Some(format!(
        "{}.{}",
        number_of::<i64>(last_key, "created_at")?,
        run_id_of(last_key)?
    ))
}

fn start_after(owner: &Owner, cursor: &str) -> Result<Item, StoreError> {
    let parsed = cursor
        .split_once('.')
        .and_then(|(created_at, id)| Some((created_at.parse::<i64>().ok()?, RunId::parse(id)?)));
    let (created_at, id) = parsed.ok_or_else(|| StoreError::Rejected("that is no cursor of this list".into()))?;
    let mut start = Item::from([
        ("owner".into(), text(owner.as_str())),
        ("created_at".into(), number(created_at)),
    ]);
    let key = run_key(&id)?.attributes();
    start.extend(key.map(|(name, value)| (name.to_owned(), value)));
    Ok(start)
}
