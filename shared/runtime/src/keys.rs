//! A deployment's API keys for whoever operates it: straight in its table, with the caller's own AWS credentials. Where the
//! table is, the AWS SDK's variables say.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::ProvideCredentials as _;
use outlast_core::api_key::{ApiKey, KEY_RANDOM_BYTES};
use outlast_core::{Owner, Scopes, Timestamp};
use outlast_engine::seams::Seams;
use outlast_store::dynamodb::DynamoTable;
use outlast_store::schema::TableNames;
use outlast_store::{KeyRecord, Store, StoreError};

use crate::{aws, seams};

pub struct Keys {
    store: Store,
    seams: Seams,
}

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub owner: Owner,
    pub scopes: Scopes,
    pub label: Option<String>,
    /// `None`: it never expires.
    pub good_for: Option<Duration>,
}

/// Why no table can be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAccess {
    #[error("no AWS region is configured")]
    Region,
    #[error("there are no AWS credentials: {0}")]
    Credentials(String),
}

impl Keys {
    /// Fails at once where the SDK would ask in vain, again and again.
    pub async fn of_table(runs_table: &str) -> Result<Self, NoAccess> {
        let config = aws::load().await;
        config.region().ok_or(NoAccess::Region)?;
        let provider = config.credentials_provider();
        let provider = provider.ok_or_else(|| NoAccess::Credentials("no provider is configured".into()))?;
        if let Err(error) = provider.provide_credentials().await {
            return Err(NoAccess::Credentials(error.to_string()));
        }
        let seams = seams::machine();
        let tables = TableNames {
            runs: runs_table.to_owned(),
            ..TableNames::default()
        };
        let table = DynamoTable::new(&Client::new(&config), tables);
        Ok(Self {
            store: Store::new(Arc::new(table), Arc::new(seams.clone())),
            seams,
        })
    }

    /// The key itself is nowhere but in this answer.
    pub async fn add(&self, new: NewKey) -> Result<(ApiKey, KeyRecord), StoreError> {
        let mut random = [0; KEY_RANDOM_BYTES];
        self.seams.random.fill(&mut random);
        let key = ApiKey::from_random(random);
        let made_at = self.now();
        let record = KeyRecord {
            hash: key.hash(),
            owner: new.owner,
            scopes: new.scopes,
            label: new.label,
            begins: key.begins().to_owned(),
            made_at,
            expires_at: new.good_for.map(|time| made_at + time),
        };
        self.store.add_api_key(&record).await?;
        Ok((key, record))
    }

    /// The oldest first. One that was made a moment ago may be missing.
    pub async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.store.api_keys().await
    }

    /// False if it was removed already.
    pub async fn remove(&self, key: &KeyRecord) -> Result<bool, StoreError> {
        self.store.remove_api_key(&key.hash, self.now()).await
    }

    pub fn now(&self) -> Timestamp {
        self.seams.now()
    }
}
