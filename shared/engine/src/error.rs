//! Why a verb did not do what it was asked.

use outlast_core::Refusal;
use outlast_core::fold::Corrupt;
use outlast_store::StoreError;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// There is no such run, it is another owner's, or it has expired: the caller can't tell which.
    #[error("there is no such run")]
    NotFound,
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no agent named `{0}` is part of this deployment")]
    UnknownAgent(String),
    /// Its run is left to its lease.
    #[error("the chunk's task died")]
    ChunkDied,
}

impl From<Corrupt> for EngineError {
    fn from(corrupt: Corrupt) -> Self {
        EngineError::Store(StoreError::Corrupt(format!("at seq {}: {}", corrupt.seq, corrupt.what)))
    }
}
