//! The lifecycle as a table: one `match` over (phase, command), no catch-all.
//!
//! [`apply`] decides and changes nothing: it returns the row as it should be, what has to be logged in the same
//! transaction, and what has to be done once that has landed.

mod effects;
mod lapse;

use std::time::Duration;

use thiserror::Error;

use crate::event::ContinueReason;
use crate::ids::ClaimToken;
use crate::limits::Timing;
use crate::outcome::Reason;
use crate::run::{Cost, DispatchStage, Run, Status, Totals};
use crate::time::Timestamp;

use effects::{
    answer, answer_waiting, beat, claim, dispatch_failed, due_queued, due_waiting, finish, finish_again, hand_off,
    park, pause, resume, stop_live, stop_now, unchanged,
};
use lapse::{claim_lapsed, declare_lapsed, due_lapsed};

/// A run's status as its commands see it: running is two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Queued,
    /// Running, and its lease has not run out.
    Live,
    /// Running as far as the row knows; the lease has run out.
    Lapsed,
    Waiting,
    Lost,
    Ended,
}

impl Phase {
    pub const ALL: [Phase; 6] = [
        Phase::Queued,
        Phase::Live,
        Phase::Lapsed,
        Phase::Waiting,
        Phase::Lost,
        Phase::Ended,
    ];

    pub fn of(run: &Run, now: Timestamp) -> Phase {
        match run.status {
            Status::Queued => Phase::Queued,
            Status::Running if run.is_lapsed(now) => Phase::Lapsed,
            Status::Running => Phase::Live,
            Status::Waiting => Phase::Waiting,
            Status::Lost => Phase::Lost,
            Status::Completed | Status::Incomplete | Status::Failed | Status::Cancelled => Phase::Ended,
        }
    }
}

/// What may be asked of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Somebody wants to carry the run's next chunk.
    Claim(Claim),
    /// The holder is alive.
    Beat(Beat),
    /// The chunk ends and the run goes on.
    HandOff {
        holder: Held,
        reason: ContinueReason,
        /// In this chunk a step was committed, a model's message finished, or a cursor advanced.
        progressed: bool,
        timing: Timing,
    },
    /// Nothing of the run can go on before `until` (`None`: before an answer).
    Park {
        holder: Held,
        until: Option<Timestamp>,
    },
    /// The run ends. `reason` is why it is not complete; `None`: it is.
    Finish {
        holder: Held,
        reason: Option<Reason>,
    },
    /// An answer came; `awaited` if the run is waiting for just this one.
    Answer {
        awaited: bool,
        timing: Timing,
    },
    /// Nobody may begin another chunk, until it is resumed.
    Pause,
    Resume {
        timing: Timing,
    },
    /// The run is to end. A holder gets time for what it has in hand, unless by `force` or asked a second time.
    Stop {
        force: bool,
    },
    /// The sweep looks. `committed` counts the steps that the log's last page says are committed.
    Due {
        committed: u64,
        timing: Timing,
        /// Whether this deployment has anywhere to dispatch to.
        dispatches: bool,
    },
    /// A dispatch for `epoch` died at `stage`.
    DispatchFailed {
        epoch: u64,
        stage: DispatchStage,
        error: String,
    },
    /// The holder's process is known to be dead: its lease need not be waited for.
    DeclareLapsed,
}

/// What a claimant says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Drawn at random before the first write.
    pub token: ClaimToken,
    /// The claimant's name for itself, for people.
    pub holder: String,
    /// From now on, and cut at the run's end time.
    pub lease: Duration,
    /// The epoch that the dispatch was made for; `None` where nobody dispatched.
    pub expected_epoch: Option<u64>,
    /// Steps that the log's last page says are committed; asked for only when a lapsed run is claimed.
    pub committed: u64,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub holder: Held,
    /// From now on, and cut at the run's end time and soon after a stop.
    pub lease: Duration,
}

/// What every command of a holder carries: its token, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub token: ClaimToken,
    /// As of the last page that it put. An older count than the row's changes nothing.
    pub totals: Totals,
    /// What this chunk has cost since it last wrote the row.
    pub cost: Cost,
}

/// What a command comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row as it should be. Its version and write id are still those that were read: who writes it sets them. A row equal to
    /// the one read needs no write.
    pub run: Run,
    pub log: Log,
    pub then: Then,
}

/// What the same transaction writes to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    Nothing,
    /// Not in the same transaction: the claim is the row, then this page.
    Claimed,
    AutoContinue(ContinueReason),
    Parked(Option<Timestamp>),
    Paused,
    Resumed,
    StopRequested,
    AnswerRecorded,
    Lost {
        epoch: u64,
        last_sign_of_life: Timestamp,
        crashes: u64,
    },
    /// The terminal event; the thread is freed with it.
    Ended(Option<Reason>),
}

/// What is to be done when the write has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// Send a dispatch for the row's epoch. If that fails, the sweep repeats it when the run is due.
    Dispatch,
    /// Carry a chunk of it here: it is inline and its client hasn't come back, or this deployment no longer dispatches.
    /// It stays due until somebody does.
    Carry,
}

/// Why a command was refused. Nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("another holder has the run's lease until {}", .until.as_millis())]
    Held { until: Timestamp },
    #[error("the run waits and its time has not come")]
    NotReady,
    #[error("the run is paused")]
    Paused,
    #[error("the run waits for another run of its thread")]
    Blocked,
    #[error("the dispatch was made for epoch {expected} and the run is at {actual}")]
    StaleDispatch { expected: u64, actual: u64 },
    #[error("the lease is lost: someone else has claimed the run, or it was handed on")]
    LeaseLost,
    #[error("the run has ended")]
    Ended,
    #[error("the run has a live holder; there is nothing to do")]
    NotDue,
}

impl Refusal {
    /// One spelling for API, logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::Held { .. } => "held",
            Refusal::NotReady => "not_ready",
            Refusal::Paused => "paused",
            Refusal::Blocked => "blocked",
            Refusal::StaleDispatch { .. } => "stale_dispatch",
            Refusal::LeaseLost => "lease_lost",
            Refusal::Ended => "ended",
            Refusal::NotDue => "not_due",
        }
    }
}

/// What `command` does to `run` at `now`.
///
/// Fails with a [`Refusal`] where the table forbids the command; then nothing is to be written. Success may leave the row as it
/// was (a claim or a stop that had landed before, a look before the time): compare. A claim that finds a limit reached or a stop
/// asked for succeeds by ending the run: only [`Log::Claimed`] means that the caller holds it.
pub fn apply(run: &Run, command: &Command, now: Timestamp) -> Result<Change, Refusal> {
    let phase = Phase::of(run, now);
    match (phase, command) {
        (Phase::Queued | Phase::Lost, Command::Claim(c)) => claim(run, c, now),
        (Phase::Lapsed, Command::Claim(c)) => claim_lapsed(run, c, now),
        (Phase::Live, Command::Claim(c)) if run.claim_token.as_ref() == Some(&c.token) => Ok(unchanged(run)),
        (Phase::Live, Command::Claim(_)) => Err(Refusal::Held {
            until: run.lease_expires_at.unwrap_or(now),
        }),
        (Phase::Waiting, Command::Claim(_)) => Err(Refusal::NotReady),

        (Phase::Live | Phase::Lapsed, Command::Beat(b)) => beat(run, b, now),
        (
            Phase::Live | Phase::Lapsed,
            Command::HandOff {
                holder,
                reason,
                progressed,
                timing,
            },
        ) => hand_off(run, holder, *reason, *progressed, timing, now),
        (Phase::Live | Phase::Lapsed, Command::Park { holder, until }) => park(run, holder, *until, now),
        (Phase::Live | Phase::Lapsed, Command::Finish { holder, reason }) => finish(run, holder, *reason, now),
        (
            Phase::Queued | Phase::Waiting | Phase::Lost,
            Command::Beat(_) | Command::HandOff { .. } | Command::Park { .. } | Command::Finish { .. },
        ) => Err(Refusal::LeaseLost),
        (Phase::Ended, Command::Finish { holder, reason }) => finish_again(run, holder, *reason),
        (Phase::Ended, Command::Beat(_) | Command::HandOff { .. } | Command::Park { .. }) => Err(Refusal::LeaseLost),

        (Phase::Waiting, Command::Answer { awaited: true, timing }) => Ok(answer_waiting(run, timing, now)),
        (Phase::Queued | Phase::Live | Phase::Lapsed | Phase::Waiting | Phase::Lost, Command::Answer { .. }) => {
            Ok(answer(run))
        }

        (Phase::Queued | Phase::Live | Phase::Lapsed | Phase::Waiting | Phase::Lost, Command::Pause) => Ok(pause(run)),
        (Phase::Queued | Phase::Live | Phase::Lapsed | Phase::Waiting | Phase::Lost, Command::Resume { timing }) => {
            Ok(resume(run, phase, timing, now))
        }

        (Phase::Live, Command::Stop { force }) => Ok(stop_live(run, *force, now)),
        (Phase::Queued | Phase::Lapsed | Phase::Waiting | Phase::Lost, Command::Stop { .. }) => Ok(stop_now(run, now)),
        (Phase::Ended, Command::Stop { .. }) => Ok(unchanged(run)),

        (Phase::Queued | Phase::Lost, Command::Due { timing, dispatches, .. }) => {
            Ok(due_queued(run, *dispatches, timing, now))
        }
        (
            Phase::Lapsed,
            Command::Due {
                committed,
                timing,
                dispatches,
            },
        ) => Ok(due_lapsed(run, *committed, *dispatches, timing, now)),
        (Phase::Waiting, Command::Due { timing, dispatches, .. }) => due_waiting(run, *dispatches, timing, now),
        (Phase::Live, Command::Due { .. }) => Err(Refusal::NotDue),

        (Phase::Queued | Phase::Lost, Command::DispatchFailed { epoch, stage, error }) => {
            dispatch_failed(run, *epoch, *stage, error)
        }
        (Phase::Live | Phase::Lapsed | Phase::Waiting, Command::DispatchFailed { epoch, .. }) => {
            Err(Refusal::StaleDispatch {
                expected: *epoch,
                actual: run.epoch,
            })
        }

        (Phase::Live, Command::DeclareLapsed) => Ok(declare_lapsed(run, now)),
        (Phase::Queued | Phase::Lapsed | Phase::Waiting | Phase::Lost, Command::DeclareLapsed) => Err(Refusal::NotDue),

        (
            Phase::Ended,
            Command::Claim(_)
            | Command::Answer { .. }
            | Command::Pause
            | Command::Resume { .. }
            | Command::Due { .. }
            | Command::DispatchFailed { .. }
            | Command::DeclareLapsed,
        ) => Err(Refusal::Ended),
    }
}

#[cfg(test)]
mod tests;
