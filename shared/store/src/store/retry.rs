//! What is tried again, and how: throttles, conflicts, and requests of unknown outcome, as they were. A write knows
//! itself by its write id, so that one which had landed is recognised.

use std::time::Duration;

use tracing::debug;

use super::{Store, StoreError};
use crate::table::{Answer, Failure, Item, Key, Query, Transacted, Write, Written};

const TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(25);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Store {
    pub(super) async fn get(&self, key: &Key, consistent: bool) -> Result<Option<Item>, StoreError> {
        let what = || format!("get {key}");
        self.retry(what, || self.table.get(key, consistent, &self.meter)).await
    }

    pub(super) async fn write(&self, write: &Write) -> Result<Written, StoreError> {
        let what = || format!("write {}", write.key);
        self.retry(what, || self.table.write(write, &self.meter)).await
    }

    pub(super) async fn transact(&self, writes: &[Write]) -> Result<Transacted, StoreError> {
        let what = || {
            let keys: Vec<String> = writes.iter().map(|write| write.key.to_string()).collect();
            format!("transaction of {}", keys.join(", "))
        };
        self.retry(what, || self.table.transact(writes, &self.meter)).await
    }

    pub(super) async fn query(&self, query: &Query) -> Result<Answer, StoreError> {
        let what = || match query.index {
            Some(index) => format!("query {} of {}", index.name(), query.hash),
            None => format!("query {}", query.hash),
        };
        self.retry(what, || self.table.query(query, &self.meter)).await
    }

    /// All that a query finds, page by page until the table says that there is no more.
    pub(super) async fn query_all(&self, mut query: Query) -> Result<Vec<Item>, StoreError> {
        let mut items = vec![];
        loop {
            let answer = self.query(&query).await?;
            items.extend(answer.items);
            match answer.last_key {
                Some(last_key) => query.start = Some(last_key),
                None => return Ok(items),
            }
        }
    }

    async fn retry<T, F>(&self, what: impl Fn() -> String, request: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut wait = FIRST_WAIT;
        for tried in 1.. {
            let failure = match request().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            debug!(request = what(), tried, %failure, "a request to the store failed");
            if let Failure::Rejected(why) = failure {
                return Err(StoreError::Rejected(why));
            }
            if tried == TRIES {
                return Err(StoreError::Unavailable(format!("{}, {TRIES} times: {failure}", what())));
            }
            // Between half of it and all of it: those who collided don't meet again, and nobody hurries.
            self.pause
                .sleep(wait.mul_f64(0.5 + self.pause.draw().clamp(0.0, 1.0) / 2.0))
                .await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        unreachable!("the loop ends by returning")
    }
}
