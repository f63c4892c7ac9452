//! Whoever brings a key of this deployment, as `Authorization: Bearer ol_…`, is that key's owner.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use outlast_core::api_key::ApiKey;
use outlast_engine::seams::Clock;
use outlast_store::Store;

use super::{Caller, Identity, NotIdentified};

/// Looks the key up anew for each request: nothing is remembered that a removal would have to reach.
///
/// No two secrets are ever compared here. The key's hash is the name of an item, and what a caller could learn from how
/// long a look-up takes is about hashes, from which no key follows.
pub struct ApiKeyIdentity {
    store: Store,
    clock: Arc<dyn Clock>,
}

impl ApiKeyIdentity {
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}

#[async_trait]
impl Identity for ApiKeyIdentity {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, NotIdentified> {
        // What is no key by its checksum costs no read.
        let key = bearer(headers).and_then(|credential| ApiKey::parse(credential).ok());
        let key = key.ok_or(NotIdentified::NoGoodCredential)?;
        let found = self.store.api_key(&key.hash()).await.map_err(NotIdentified::Store)?;
        let good = found.filter(|record| !record.is_expired(self.clock.now()));
        let record = good.ok_or(NotIdentified::NoGoodCredential)?;
        Ok(Caller {
            owner: record.owner,
            scopes: record.scopes,
        })
    }
}

/// Two credentials are none: it would depend on the reader which of them counts.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, credential) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearers_credential_is_taken_from_one_header() {
        let check = |values: &[&[u8]], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, http::HeaderValue::from_bytes(value).unwrap());
            }
            assert_eq!(bearer(&headers), expected, "{values:?}");
        };
        check(&[b"Bearer k"], Some("k"));
        check(&[b"bEARER  k "], Some("k"));
        check(&[], None);
        check(&[b"k"], None);
        check(&[b"Basic k"], None);
        check(&[b"Bearer"], None);
        check(&[b"Bearer \xff"], None);
        check(&[b"Bearer k", b"Bearer k"], None);
    }
}
