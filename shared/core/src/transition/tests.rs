//! Every cell of the table, the rules behind the cells, and what holds whatever the commands.

mod cells;
mod lifecycle;
mod properties;
mod reports;
mod rules;

use std::time::Duration;

use super::*;
use crate::ids::{AgentName, Owner, RunId, ThreadKey, WriteId};
use crate::limits::RUN_WALL_CLOCK;
use crate::run::{Executor, NewRun};

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);
const TIMING: Timing = Timing::LAMBDA;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Accepted at `NOW`.
fn accepted(executor: Executor) -> Run {
    NewRun {
        id: RunId::new("0190"),
        owner: Owner::new("local"),
        agent: AgentName::new("plan"),
        thread: ThreadKey::new("t1"),
        turn: None,
        executor,
        retry: None,
        ends_at: NOW + RUN_WALL_CLOCK,
        due_at: NOW + secs(60),
        write_id: WriteId::new("w1"),
    }
    .accepted(NOW)
}

fn token(name: &str) -> ClaimToken {
    ClaimToken::new(name)
}

fn claim_as(name: &str) -> Command {
    Command::Claim(Claim {
        token: token(name),
        holder: "host-1".into(),
        lease: TIMING.lease,
        expected_epoch: None,
        committed: 0,
    })
}

/// A holder that has nothing new to say of its progress.
fn held_by(name: &str) -> Held {
    held_with(name, 0)
}

fn held_with(name: &str, committed: u64) -> Held {
    Held {
        token: token(name),
        totals: Totals {
            planned: committed,
            committed,
            ..Totals::default()
        },
        cost: Cost::default(),
    }
}

fn beat_as(name: &str) -> Command {
    Command::Beat(Beat {
        holder: held_by(name),
        lease: TIMING.lease,
    })
}

fn hand_off_as(name: &str, progressed: bool) -> Command {
    Command::HandOff {
        holder: held_by(name),
        reason: ContinueReason::RunTimeout,
        progressed,
        timing: TIMING,
    }
}

fn park_as(name: &str, until: Option<Timestamp>) -> Command {
    Command::Park {
        holder: held_by(name),
        until,
    }
}

fn finish_as(name: &str, reason: Option<Reason>) -> Command {
    Command::Finish {
        holder: held_by(name),
        reason,
    }
}

const fn due(committed: u64) -> Command {
    Command::Due {
        committed,
        timing: TIMING,
        dispatches: true,
    }
}

const RESUME: Command = Command::Resume { timing: TIMING };
const STOP: Command = Command::Stop { force: false };

/// What the command makes of the run, which must allow it.
#[track_caller]
fn take(run: &Run, command: &Command, now: Timestamp) -> Run {
    match apply(run, command, now) {
        Ok(change) => change.run,
        Err(refusal) => panic!("{command:?} is refused: {refusal}"),
    }
}
