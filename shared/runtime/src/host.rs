//! The two entry points: what makes a process the foreground or the background.

use std::time::Duration;

use outlast_core::time_budget::{HostKind, lowered_cap};

/// Which entry point this process is. Only a `main` makes one: a request can't claim to be in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    kind: HostKind,
    soft_cap: Duration,
}

impl Host {
    /// A soft cap of 40 s.
    pub fn foreground() -> Self {
        Self {
            kind: HostKind::Foreground,
            soft_cap: lowered_cap(HostKind::Foreground, None),
        }
    }

    /// A soft cap of 13 minutes.
    pub fn background() -> Self {
        Self {
            kind: HostKind::Background,
            soft_cap: lowered_cap(HostKind::Background, None),
        }
    }

    /// With its soft cap lowered; a higher one changes nothing.
    pub fn with_soft_cap(self, cap: Option<Duration>) -> Self {
        Self {
            soft_cap: lowered_cap(self.kind, cap).min(self.soft_cap),
            ..self
        }
    }

    pub fn kind(&self) -> HostKind {
        self.kind
    }

    pub fn soft_cap(&self) -> Duration {
        self.soft_cap
    }
}
