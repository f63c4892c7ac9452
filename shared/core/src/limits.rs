//! What bounds a run. Each limit has its own ending or error; none is silent.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Ceilings of the soft caps. Configuration lowers them and never raises them: behind a foreground function stand
/// walls of about 45 s (a gateway) and 60 s (the function), behind a background function one of 15 minutes.
pub const FOREGROUND_SOFT_CAP: Duration = Duration::from_secs(40);
pub const BACKGROUND_SOFT_CAP: Duration = Duration::from_secs(13 * 60);

/// After the soft cap: how long steps in hand may go on in the foreground.
pub const FOREGROUND_GRACE: Duration = Duration::from_secs(3);
/// What a chunk has used up of its time when its first body begins: it has claimed its run and read the log.
pub const CLAIM_TAKES: Duration = Duration::from_secs(2);
/// In the background they may go on until the wall less this.
pub const BACKGROUND_WALL_MARGIN: Duration = Duration::from_secs(30);

/// How long a run may take from its acceptance, waits and pauses included.
pub const RUN_WALL_CLOCK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Chunks of a run, those that went on after a wait not counted. The hand-off of the last ends it: `incomplete: chunk_limit`.
pub const MAX_CHUNKS: u64 = 500;
/// Steps of a plan. Those of an agent of one's own are bounded by the size of their log.
pub const MAX_STEPS: usize = 20_000;
/// A run's log, in bytes of its pages. Beyond it the run ends: `incomplete: history_too_large`.
pub const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Crashes without a newly committed step between them. The last ends the run: `failed: crash_limit`.
pub const CRASHES_IN_A_ROW: u64 = 3;
/// Crashes of a run, whatever it did between them. The last ends it: `failed: crash_limit`.
pub const CRASHES_IN_ALL: u64 = 25;
/// Chunks in a row without progress. The last ends the run: `incomplete: no_progress`.
pub const STALLED_CHUNKS: u64 = 3;

/// How long what has ended is kept.
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long an idempotency key is remembered.
pub const TURN_RETENTION: Duration = DAY;

/// A dispatched run that nobody claims ends this long after the first dispatch: `failed: never_started`.
pub const NEVER_STARTED_AFTER: Duration = Duration::from_secs(2 * 60 * 60);
/// No beat extends a lease further than this past a stop (an external worker's: one lease past it).
pub const LEASE_AFTER_STOP: Duration = MINUTE;
/// How long bodies in hand get after a stop.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long bodies in hand get when their host is told to end.
pub const SHUT_DOWN_GRACE: Duration = Duration::from_secs(3);
/// A wait that ends within this is sat out by its chunk; beyond it, when nothing else of the run can go on, the run parks.
pub const BACKGROUND_SITS_OUT: Duration = MINUTE;
/// The same in the foreground.
pub const FOREGROUND_SITS_OUT: Duration = Duration::from_secs(5);
/// How long a dispatch token is good for.
pub const DISPATCH_TOKEN_LIFE: Duration = Duration::from_secs(5 * 60);
/// How long a token that reads one run is good for. A stream that it opened goes on to its own end.
pub const READ_TOKEN_LIFE: Duration = Duration::from_secs(15 * 60);

/// The largest event that is accepted, in bytes of its JSON.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// The largest input and the largest value that a run returns.
pub const MAX_RUN_VALUE_BYTES: usize = 5 * 1024 * 1024;
/// A question's default and its schema together, in bytes of their JSON.
pub const MAX_QUESTION_BYTES: usize = 64 * 1024;
/// The value of an answer, in bytes of its JSON.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The longest key with all its scopes, in bytes as it is stored.
pub const MAX_KEY_PATH_BYTES: usize = 900;
/// A plan's body, in bytes.
pub const MAX_PLAN_BYTES: usize = 4 * 1024 * 1024;
/// A request's body, in bytes.
pub const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
/// A page is flushed at this size, in bytes of its events' JSON.
pub const PAGE_FLUSH_BYTES: usize = 16 * 1024;
/// The largest page, in bytes: well below the 400 KB that an item of the table may have.
pub const MAX_PAGE_BYTES: usize = 300 * 1024;
/// What is accepted is durable within this.
pub const PAGE_FLUSH_AFTER: Duration = Duration::from_millis(150);
/// A payload that doesn't fit into its page is put beside the log, in parts of at most this many bytes.
pub const BLOB_PART_BYTES: usize = 350 * 1024;

/// How many keys of the remainder a terminal event lists.
pub const REMAINDER_KEYS: usize = 100;
/// Tries of a control writer to append at the tail before it writes the row alone.
pub const CONTROL_APPEND_TRIES: usize = 5;

/// What differs between a deployment and a laptop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a claim or a beat holds a run.
    pub lease: Duration,
    /// From one beat to the next.
    pub beat: Duration,
    /// The first wait before a dispatch that nobody claimed is repeated; it doubles up to fifteen times itself. An inline run
    /// that nobody continues for this long is carried on by the sweep.
    pub redispatch_after: Duration,
}

impl Timing {
    /// A deployment: its sweep comes by once a minute.
    pub const LAMBDA: Timing = Timing {
        lease: Duration::from_secs(30),
        beat: Duration::from_secs(5),
        redispatch_after: MINUTE,
    };
    /// A laptop: its sweep comes by once a second.
    pub const LOCAL: Timing = Timing {
        lease: Duration::from_secs(3),
        beat: Duration::from_millis(500),
        redispatch_after: Duration::from_secs(2),
    };

    /// Without a confirmed beat by the lease's end less this, a holder cancels its bodies and ends its chunk.
    pub fn lease_margin(&self) -> Duration {
        self.lease / 6
    }

    /// How long after a confirmed request began its lease is relied on.
    pub fn trusted_lease(&self) -> Duration {
        self.lease - self.lease_margin()
    }

    /// The wait before dispatch number `attempts + 1` of one epoch: 1, 2, 4 … 15 times the first.
    pub fn redispatch_wait(&self, attempts: u64) -> Duration {
        let factor = 1u32 << attempts.saturating_sub(1).min(4);
        self.redispatch_after * factor.min(15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_is_repeated_after_1_2_4_8_15_minutes() {
        let minutes: Vec<u64> = (1..=6)
            .map(|attempt| Timing::LAMBDA.redispatch_wait(attempt).as_secs() / 60)
            .collect();
        assert_eq!(minutes, [1, 2, 4, 8, 15, 15]);
    }

    #[test]
    fn however_often_a_dispatch_was_repeated_its_wait_is_bounded() {
        for attempts in [0, 1, 64, u64::MAX] {
            assert!(Timing::LAMBDA.redispatch_wait(attempts) <= Duration::from_secs(15 * 60));
        }
    }

    #[test]
    fn a_holder_beats_several_times_before_its_lease_is_in_doubt() {
        for timing in [Timing::LAMBDA, Timing::LOCAL] {
            assert!(timing.beat * 2 < timing.lease - timing.lease_margin(), "{timing:?}");
            assert!(timing.redispatch_wait(1) < NEVER_STARTED_AFTER);
        }
    }

    #[test]
    fn the_limits_fit_into_each_other() {
        let durations = [
            (
                "foreground",
                FOREGROUND_SOFT_CAP + FOREGROUND_GRACE,
                Duration::from_secs(45),
            ),
            (
                "background",
                BACKGROUND_SOFT_CAP + BACKGROUND_WALL_MARGIN,
                Duration::from_secs(15 * 60),
            ),
            (
                "a token outlives the wait for the next one",
                MINUTE,
                DISPATCH_TOKEN_LIFE,
            ),
            ("bodies stop before the lease does", STOP_GRACE, LEASE_AFTER_STOP),
            (
                "giving up comes before the run's end",
                NEVER_STARTED_AFTER,
                RUN_WALL_CLOCK,
            ),
        ];
        for (what, shorter, longer) in durations {
            assert!(shorter < longer, "{what}");
        }
        let bytes = [
            ("a plan fits into its request", MAX_PLAN_BYTES, MAX_BODY_BYTES),
            ("a page takes more than one flush", PAGE_FLUSH_BYTES, MAX_PAGE_BYTES),
            ("an item of the table holds a page", MAX_PAGE_BYTES, 400 * 1024),
            ("an item of the table holds a part", BLOB_PART_BYTES, 400 * 1024),
            ("a page holds an answer", MAX_ANSWER_BYTES, MAX_PAGE_BYTES),
        ];
        for (what, smaller, larger) in bytes {
            assert!(smaller < larger, "{what}");
        }
    }
}
