//! Who is calling: a port.
//!
//! [`NoIdentity`] lets everyone in, [`ApiKeyIdentity`] whoever brings a key of the deployment. What a caller may do is
//! compared with what its route needs in one place, `access`.

mod api_key;

use async_trait::async_trait;
use http::HeaderMap;
use outlast_core::{Owner, Scopes};
use outlast_store::StoreError;

pub use api_key::ApiKeyIdentity;

/// Whose runs the request is about, and what it may do with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub owner: Owner,
    pub scopes: Scopes,
}

/// Why it is not known who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotIdentified {
    /// There is no credential, or it is not good. Which of the two, and why, is not for the caller to know.
    NoGoodCredential,
    /// The credential could not be looked up.
    Store(StoreError),
}

/// Tells callers apart by their requests' headers, before anything else of a request is looked at.
#[async_trait]
pub trait Identity: Send + Sync {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, NotIdentified>;
}

/// Everyone is the owner `local`. On loopback only: hosts refuse to start with it elsewhere.
pub struct NoIdentity;

#[async_trait]
impl Identity for NoIdentity {
    async fn caller(&self, _headers: &HeaderMap) -> Result<Caller, NotIdentified> {
        Ok(Caller {
            owner: Owner::new("local"),
            scopes: Scopes::ALL,
        })
    }
}
