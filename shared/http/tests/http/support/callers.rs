//! Callers with keys of a deployment that asks for one.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::api_key::ApiKey;
use outlast_core::{Owner, Scope, Scopes};
use outlast_http::Api;
use outlast_http::identity::ApiKeyIdentity;
use outlast_store::KeyRecord;

use super::{Rig, agents};

/// A deployment that asks for keys.
pub fn asks_for_keys() -> Rig {
    Rig::with(agents::all(), ask_for_keys)
}

pub fn ask_for_keys(api: &mut Api) {
    let clock = api.engine.seams().clock.clone();
    api.identity = Arc::new(ApiKeyIdentity::new(api.engine.store().clone(), clock));
}

impl Rig {
    /// A fresh key of this owner with these scopes.
    pub async fn key(&self, owner: &str, scopes: &[Scope]) -> ApiKey {
        self.key_for(owner, scopes, None).await
    }

    /// The same, good for so long.
    pub async fn key_for(&self, owner: &str, scopes: &[Scope], good_for: Option<Duration>) -> ApiKey {
        let mut random = [0; 32];
        self.engine.seams().random.fill(&mut random);
        let key = ApiKey::from_random(random);
        let made_at = self.engine.seams().now();
        let record = KeyRecord {
            hash: key.hash(),
            owner: Owner::new(owner),
            scopes: scopes.iter().copied().collect::<Scopes>(),
            label: None,
            begins: key.begins().into(),
            made_at,
            expires_at: good_for.map(|time| made_at + time),
        };
        self.engine.store().add_api_key(&record).await.unwrap();
        key
    }
}

pub fn bearer(key: &ApiKey) -> String {
    format!("Bearer {}", key.expose())
}
