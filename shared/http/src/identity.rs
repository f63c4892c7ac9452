//! Who is calling: a port.

use async_trait::async_trait;
use http::HeaderMap;
use outlast_core::Owner;

/// Tells callers apart by their requests' headers. Whoever gets an owner may do everything with that owner's runs.
#[async_trait]
pub trait Identity: Send + Sync {
    /// The caller's owner; `None` if there is no credential or a bad one.
    async fn owner(&self, headers: &HeaderMap) -> Option<Owner>;
}

/// Everyone is the owner `local`. On loopback only: hosts refuse to start with it elsewhere.
pub struct NoIdentity;

#[async_trait]
impl Identity for NoIdentity {
    async fn owner(&self, _headers: &HeaderMap) -> Option<Owner> {
        Some(Owner::new("local"))
    }
}
