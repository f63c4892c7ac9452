//! Limits that depend on each other, checked in pairs. Each problem names both values.

use std::time::Duration;

use outlast_core::env_vars as vars;
use outlast_core::limits::{
    BACKGROUND_WALL_MARGIN, DISPATCH_TOKEN_LIFE, FOREGROUND_GRACE, LEASE_AFTER_STOP, STOP_GRACE,
};
use outlast_core::time_budget::{HostKind, lowered_cap};

use crate::settings::Settings;

/// The walls behind which our hosts stand: a gateway's, and Lambda's.
const FOREGROUND_WALL: Duration = Duration::from_secs(45);
const BACKGROUND_WALL: Duration = Duration::from_secs(15 * 60);

/// What must be shorter than what.
struct Below<'a> {
    shorter: (&'a str, Duration),
    longer: (&'a str, Duration),
}

/// A line for each pair that is the wrong way round.
pub(crate) fn broken(settings: &Settings) -> Vec<String> {
    let timing = settings.timing;
    let cap = |host| lowered_cap(host, settings.soft_cap(host));
    let pairs = [
        Below {
            shorter: (&format!("three times {}", vars::BEAT.name), timing.beat * 3),
            longer: (vars::LEASE.name, timing.lease),
        },
        Below {
            shorter: ("the lease's margin", timing.lease_margin()),
            longer: (vars::LEASE.name, timing.lease),
        },
        Below {
            shorter: (vars::LEASE.name, timing.lease),
            longer: ("the dispatch token's life", DISPATCH_TOKEN_LIFE),
        },
        Below {
            shorter: ("the time that bodies get after a stop", STOP_GRACE),
            longer: ("the longest lease after a stop", LEASE_AFTER_STOP),
        },
        Below {
            shorter: (
                &format!("{} with its grace", vars::FOREGROUND_SOFT_CAP.name),
                cap(HostKind::Foreground) + FOREGROUND_GRACE,
            ),
            longer: ("the wall of a gateway", FOREGROUND_WALL),
        },
        Below {
            shorter: (
                &format!("{} with what is left for the hand-off", vars::BACKGROUND_SOFT_CAP.name),
                cap(HostKind::Background) + BACKGROUND_WALL_MARGIN,
            ),
            longer: ("the wall of a function", BACKGROUND_WALL),
        },
    ];
    let wrong = pairs.iter().filter(|pair| pair.shorter.1 >= pair.longer.1);
    let told = wrong.map(|Below { shorter, longer }| {
        format!(
            "{} ({:?}) must be shorter than {} ({:?}).",
            shorter.0, shorter.1, longer.0, longer.1
        )
    });
    told.collect()
}
