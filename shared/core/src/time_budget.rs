//! How long one invocation may carry a run: the soft cap, the true deadline where there is one, and the grace.

use std::time::Duration;

use crate::limits::{BACKGROUND_SOFT_CAP, BACKGROUND_WALL_MARGIN, FOREGROUND_GRACE, FOREGROUND_SOFT_CAP};
use crate::time::Timestamp;

/// Which entry point serves this invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    Foreground,
    Background,
}

impl HostKind {
    /// The highest soft cap of this kind of host. A ceiling: see [`lowered_cap`].
    pub const fn soft_cap_ceiling(self) -> Duration {
        match self {
            HostKind::Foreground => FOREGROUND_SOFT_CAP,
            HostKind::Background => BACKGROUND_SOFT_CAP,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            HostKind::Foreground => "foreground",
            HostKind::Background => "background",
        }
    }

    /// How much of the wall is left for the hand-off itself when the cap is taken from the deadline.
    const fn wall_margin(self) -> Duration {
        match self {
            HostKind::Foreground => Duration::from_secs(5),
            HostKind::Background => Duration::from_secs(2 * 60),
        }
    }
}

/// A soft cap as configured: it can lower the ceiling and never raise it.
pub fn lowered_cap(kind: HostKind, configured: Option<Duration>) -> Duration {
    configured.map_or(kind.soft_cap_ceiling(), |cap| cap.min(kind.soft_cap_ceiling()))
}

/// The points in time of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTime {
    pub starts_at: Timestamp,
    /// From here on nothing new begins.
    pub soft_cap_at: Timestamp,
    /// From here on steps in hand are cancelled and reported.
    pub grace_ends_at: Timestamp,
    /// A deadline was given and is nonsense; the cap alone counts.
    pub implausible_deadline: bool,
}

/// The time budget of an invocation that starts at `now`.
///
/// `deadline` is what the platform says of its own wall. Emulators send 1970, zero or 2072: one that has passed or lies more
/// than an hour ahead (no function may run longer than 15 minutes) is implausible.
pub fn chunk_time(kind: HostKind, cap: Duration, deadline: Option<Timestamp>, now: Timestamp) -> ChunkTime {
    let plausible = deadline.filter(|deadline| *deadline > now && deadline.since(now) <= Duration::from_secs(60 * 60));
    let by_cap = now + cap;
    let soft_cap_at = match plausible {
        Some(deadline) => by_cap.min(deadline - kind.wall_margin()).max(now),
        None => by_cap,
    };
    let grace_ends_at = match (kind, plausible) {
        // A grace beyond the wall is none: what is still in hand there is killed, not reported.
        (HostKind::Foreground, Some(deadline)) => (soft_cap_at + FOREGROUND_GRACE).min(deadline),
        (HostKind::Foreground, None) => soft_cap_at + FOREGROUND_GRACE,
        (HostKind::Background, Some(deadline)) => (deadline - BACKGROUND_WALL_MARGIN).max(soft_cap_at),
        (HostKind::Background, None) => soft_cap_at + (Duration::from_secs(2 * 60) - BACKGROUND_WALL_MARGIN),
    };
    ChunkTime {
        starts_at: now,
        soft_cap_at,
        grace_ends_at,
        implausible_deadline: deadline.is_some() && plausible.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn configuration_lowers_the_cap_and_never_raises_it() {
        assert_eq!(lowered_cap(HostKind::Foreground, Some(secs(240))), secs(40));
        assert_eq!(lowered_cap(HostKind::Foreground, Some(secs(3))), secs(3));
        assert_eq!(lowered_cap(HostKind::Background, Some(secs(3600))), secs(780));
        assert_eq!(lowered_cap(HostKind::Background, None), secs(780));
    }

    #[test]
    fn r15_a_nonsense_deadline_leaves_the_cap() {
        for nonsense in [0, 600_000, 3_218_000_000_000] {
            let time = chunk_time(
                HostKind::Foreground,
                secs(40),
                Some(Timestamp::from_millis(nonsense)),
                NOW,
            );
            assert_eq!(time.soft_cap_at, NOW + secs(40), "{nonsense}");
            assert!(time.implausible_deadline);
        }
        assert!(!chunk_time(HostKind::Foreground, secs(40), None, NOW).implausible_deadline);
    }

    #[test]
    fn a_true_deadline_shortens_it_and_never_lengthens_it() {
        let short = chunk_time(HostKind::Foreground, secs(40), Some(NOW + secs(20)), NOW);
        assert_eq!(short.soft_cap_at, NOW + secs(15));
        let long = chunk_time(HostKind::Foreground, secs(40), Some(NOW + secs(75)), NOW);
        assert_eq!(long.soft_cap_at, NOW + secs(40));
        let background = chunk_time(HostKind::Background, secs(780), Some(NOW + secs(900)), NOW);
        assert_eq!(background.soft_cap_at, NOW + secs(780));
        assert_eq!(background.grace_ends_at, NOW + secs(870));
        let nearly_over = chunk_time(HostKind::Background, secs(780), Some(NOW + secs(1)), NOW);
        assert_eq!((nearly_over.soft_cap_at, nearly_over.grace_ends_at), (NOW, NOW));
    }

    #[test]
    fn a_foreground_chunk_has_3_seconds_of_grace_and_ends_before_its_wall() {
        let check = |wall: Option<u64>, soft_cap: u64, grace: u64| {
            let time = chunk_time(HostKind::Foreground, secs(40), wall.map(|wall| NOW + secs(wall)), NOW);
            assert_eq!(
                (time.soft_cap_at, time.grace_ends_at),
                (NOW + secs(soft_cap), NOW + secs(grace)),
                "{wall:?}"
            );
        };
        check(None, 40, 43);
        check(Some(60), 40, 43);
        check(Some(45), 40, 43);
        check(Some(30), 25, 28);
        check(Some(5), 0, 3);
        check(Some(2), 0, 2);
    }

    #[test]
    fn r15_a_deadline_is_believed_up_to_an_hour_ahead() {
        let check = |deadline: Timestamp, believed: bool| {
            let time = chunk_time(HostKind::Background, secs(780), Some(deadline), NOW);
            assert_eq!(!time.implausible_deadline, believed, "{deadline:?}");
        };
        check(NOW, false);
        check(NOW + Duration::from_millis(1), true);
        check(NOW + secs(3600), true);
        check(NOW + secs(3600) + Duration::from_millis(1), false);
        check(NOW - secs(1), false);
        check(Timestamp::from_millis(-1), false);
        check(Timestamp::from_millis(i64::MAX), false);
        check(Timestamp::from_millis(i64::MIN), false);
    }

    #[test]
    fn a_background_chunk_without_a_deadline_has_its_grace_after_the_cap() {
        let time = chunk_time(HostKind::Background, secs(780), None, NOW);
        assert_eq!(
            (time.soft_cap_at, time.grace_ends_at),
            (NOW + secs(780), NOW + secs(870))
        );
    }

    proptest! {
        #[test]
        fn the_points_of_a_chunk_are_in_order_and_before_its_wall(
            is_background in any::<bool>(),
            cap in 0u64..2_000,
            deadline in proptest::option::of(prop_oneof![any::<i64>(), NOW.as_millis()..NOW.as_millis() + 4_000_000]),
        ) {
            let kind = if is_background { HostKind::Background } else { HostKind::Foreground };
            let cap = lowered_cap(kind, Some(secs(cap)));
            prop_assert!(cap <= kind.soft_cap_ceiling());
            let deadline = deadline.map(Timestamp::from_millis);
            let time = chunk_time(kind, cap, deadline, NOW);
            prop_assert_eq!(time.starts_at, NOW);
            prop_assert!(NOW <= time.soft_cap_at && time.soft_cap_at <= time.grace_ends_at);
            prop_assert!(time.soft_cap_at <= NOW + cap);
            match deadline {
                Some(deadline) if !time.implausible_deadline => prop_assert!(time.grace_ends_at <= deadline),
                _ => prop_assert_eq!(time.soft_cap_at, NOW + cap),
            }
        }
    }
}
