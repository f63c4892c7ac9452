//! What becomes of a run whose lease has run out. Whoever takes it out of `running` counts the crash.

use crate::limits::{CRASHES_IN_A_ROW, CRASHES_IN_ALL, Timing};
use crate::outcome::Reason;
use crate::run::{Run, Status};
use crate::time::Timestamp;

use super::effects::{claim, end, queue_swept, release_lease, unchanged};
use super::{Change, Claim, Log, Refusal, Then};

pub(super) fn claim_lapsed(run: &Run, asked: &Claim, now: Timestamp) -> Result<Change, Refusal> {
    if run.claim_token.as_ref() == Some(&asked.token) {
        return Ok(unchanged(run));
    }
    // A flag or a stale dispatch leaves the lapse to the sweep; only a claim that takes the run counts it.
    claim(run, asked, now)?;
    let crashed = count_crash(run, asked.committed);
    match ending(&crashed, now) {
        Some(reason) => Ok(end_lapsed(crashed, reason, now)),
        None => claim(&crashed, asked, now),
    }
}

pub(super) fn due_lapsed(run: &Run, committed: u64, dispatches: bool, timing: &Timing, now: Timestamp) -> Change {
    let mut run = count_crash(run, committed);
    if let Some(reason) = ending(&run, now) {
        return end_lapsed(run, reason, now);
    }
    let log = Log::Lost {
        epoch: run.epoch,
        last_sign_of_life: last_sign_of_life(&run),
        crashes: run.counters.crashes,
    };
    release_lease(&mut run);
    run.status = Status::Lost;
    let then = queue_swept(&mut run, dispatches, timing, now);
    Change { run, log, then }
}

/// The lease is over now, whatever it said.
pub(super) fn declare_lapsed(run: &Run, now: Timestamp) -> Change {
    let mut run = run.clone();
    run.lease_expires_at = Some(now);
    run.due_at = Some(now);
    Change {
        run,
        log: Log::Nothing,
        then: Then::Nothing,
    }
}

/// Counted once an epoch: by the write that takes a lapsed run out of `running`.
fn count_crash(run: &Run, committed: u64) -> Run {
    let mut run = run.clone();
    let counters = &mut run.counters;
    counters.crashes += 1;
    counters.crashes_in_a_row = if committed > counters.committed_at_crash {
        1
    } else {
        counters.crashes_in_a_row + 1
    };
    counters.committed_at_crash = committed.max(counters.committed_at_crash);
    run
}

/// Why a lapsed run can't go on, if it can't.
fn ending(run: &Run, now: Timestamp) -> Option<Reason> {
    if run.stopping {
        Some(Reason::Stopped)
    } else if now >= run.ends_at {
        Some(Reason::TimeLimit)
    } else if run.counters.crashes_in_a_row >= CRASHES_IN_A_ROW || run.counters.crashes >= CRASHES_IN_ALL {
        Some(Reason::CrashLimit)
    } else {
        None
    }
}

/// Ends a run when its holder did, as far as anyone knows, and not when somebody came to look. What has ended is kept
/// from now on all the same: an ending that nobody could have seen yet must not be past its retention.
fn end_lapsed(run: Run, reason: Reason, now: Timestamp) -> Change {
    let ended_at = last_sign_of_life(&run).max(run.stop_requested_at.unwrap_or_default());
    let mut change = end(run, Some(reason), now);
    change.run.ended_at = Some(ended_at.min(now));
    change
}

fn last_sign_of_life(run: &Run) -> Timestamp {
    run.last_sign_of_life.unwrap_or(run.created_at)
}
