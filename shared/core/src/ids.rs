//! Identifiers. Each is a newtype, so that a thread can't be passed where a run is meant.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A run: a UUID of version 7, so ids sort by the time they were made.
    RunId
);
text_id!(
    /// The tenant a run belongs to. From the caller's identity, never from a request's body.
    Owner
);
text_id!(
    /// The agent that carries a run.
    AgentName
);
text_id!(
    /// A conversation: at most one live run at a time.
    ThreadKey
);
text_id!(
    /// A client's name for one request: the idempotency key.
    TurnKey
);
text_id!(
    /// Drawn at random for each claim. Whoever has it holds the lease.
    ClaimToken
);
text_id!(
    /// Drawn at random for each write, so that a retried write recognises itself.
    WriteId
);
text_id!(
    /// A step's stable key: the path of its scopes, each part percent-encoded, joined by `/`.
    StepKey
);

impl StepKey {
    /// The scopes that it stands in: `a/b/c` in `a` and `a/b`. Its parts are encoded, so that a slash is always a separator.
    pub fn scopes(&self) -> impl Iterator<Item = StepKey> {
        let text = self.as_str();
        text.match_indices('/').map(|(at, _)| StepKey::new(&text[..at]))
    }

    /// The path that leads on from here by one encoded part.
    pub fn child(&self, part: &str) -> StepKey {
        StepKey::new(format!("{self}/{part}"))
    }
}

impl RunId {
    /// A version 7 UUID of `at_ms` (epoch milliseconds) and ten random bytes.
    pub fn from_parts(at_ms: u64, random: [u8; 10]) -> Self {
        let uuid = uuid::Builder::from_unix_timestamp_millis(at_ms, &random).into_uuid();
        Self(uuid.to_string())
    }

    /// A run's id as a caller gave it; `None` if it can't be one.
    pub fn parse(text: &str) -> Option<Self> {
        uuid::Uuid::try_parse(text).ok().map(|uuid| Self(uuid.to_string()))
    }
}
