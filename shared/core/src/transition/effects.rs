//! What each cell of the table does.

use crate::event::ContinueReason;
use crate::limits::{LEASE_AFTER_STOP, MAX_CHUNKS, NEVER_STARTED_AFTER, RETENTION, STALLED_CHUNKS, Timing};
use crate::outcome::{Reason, terminal_status};
use crate::run::{Dispatch, DispatchStage, Executor, MAX_DISPATCH_ERROR_BYTES, Run, Status};
use crate::time::Timestamp;

use super::{Beat, Change, Claim, Held, Log, Phase, Refusal, Then};

pub(super) fn unchanged(run: &Run) -> Change {
    Change {
        run: run.clone(),
        log: Log::Nothing,
        then: Then::Nothing,
    }
}

pub(super) fn claim(run: &Run, claim: &Claim, now: Timestamp) -> Result<Change, Refusal> {
    if let Some(expected) = claim.expected_epoch.filter(|expected| *expected != run.epoch) {
        return Err(Refusal::StaleDispatch {
            expected,
            actual: run.epoch,
        });
    }
    if run.stopping {
        return Ok(end(run.clone(), Some(Reason::Stopped), now));
    }
    if run.paused {
        return Err(Refusal::Paused);
    }
    if run.blocked {
        return Err(Refusal::Blocked);
    }
    if now >= run.ends_at {
        return Ok(end(run.clone(), Some(Reason::TimeLimit), now));
    }
    let mut run = run.clone();
    let lease_expires_at = (now + claim.lease).min(run.ends_at);
    run.status = Status::Running;
    run.epoch += 1;
    run.claim_token = Some(claim.token.clone());
    run.holder = Some(claim.holder.clone());
    run.lease_expires_at = Some(lease_expires_at);
    run.last_sign_of_life = Some(now);
    run.counters.chunks += 1;
    run.dispatch = Dispatch::default();
    run.due_at = Some(lease_expires_at);
    Ok(Change {
        run,
        log: Log::Claimed,
        then: Then::Nothing,
    })
}

fn held(run: &Run, holder: &Held) -> Result<Run, Refusal> {
    if run.claim_token.as_ref() != Some(&holder.token) {
        return Err(Refusal::LeaseLost);
    }
    let mut run = run.clone();
    run.totals = run.totals.max(holder.totals);
    run.cost = run.cost + holder.cost;
    Ok(run)
}

pub(super) fn beat(run: &Run, beat: &Beat, now: Timestamp) -> Result<Change, Refusal> {
    let mut run = held(run, &beat.holder)?;
    let mut latest = run.ends_at;
    if let Some(stopped_at) = run.stop_requested_at {
        // An external worker learns of the stop from a beat, and its beats may be a lease apart.
        let time_to_stop = match run.executor {
            Executor::Inline | Executor::Background => LEASE_AFTER_STOP,
            Executor::External => beat.lease,
        };
        latest = latest.min(stopped_at + time_to_stop);
    }
    // A beat never moves the lease back: a clock that was set back must not shorten what was promised.
    run.lease_expires_at = run.lease_expires_at.max(Some((now + beat.lease).min(latest)));
    run.last_sign_of_life = run.last_sign_of_life.max(Some(now));
    Ok(Change {
        run,
        log: Log::Nothing,
        then: Then::Nothing,
    })
}

pub(super) fn hand_off(
    run: &Run,
    holder: &Held,
    reason: ContinueReason,
    progressed: bool,
    timing: &Timing,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut run = held(run, holder)?;
    run.counters.stalled = if progressed { 0 } else { run.counters.stalled + 1 };
    let ending = if run.stopping {
        Some(Reason::Stopped)
    } else if now >= run.ends_at {
        Some(Reason::TimeLimit)
    } else if run.counters.stalled >= STALLED_CHUNKS {
        Some(Reason::NoProgress)
    } else if run.counters.chunks >= MAX_CHUNKS {
        Some(Reason::ChunkLimit)
    } else {
        None
    };
    if ending.is_some() {
        return Ok(end(run, ending, now));
    }
    release_lease(&mut run);
    run.status = Status::Queued;
    let then = queue_next(&mut run, timing, now);
    Ok(Change {
        run,
        log: Log::AutoContinue(reason),
        then,
    })
}

pub(super) fn park(run: &Run, holder: &Held, until: Option<Timestamp>, now: Timestamp) -> Result<Change, Refusal> {
    let mut run = held(run, holder)?;
    if run.stopping {
        return Ok(end(run, Some(Reason::Stopped), now));
    }
    release_lease(&mut run);
    run.counters.stalled = 0;
    // A chunk that a wake begins doesn't count towards the limit of chunks: its claim will count it again.
    run.counters.chunks = run.counters.chunks.saturating_sub(1);
    run.status = Status::Waiting;
    // While it is paused no time can come; resuming it makes the sweep look.
    let wakes_at = until.filter(|_| !run.paused).unwrap_or(run.ends_at);
    run.due_at = Some(wakes_at.min(run.ends_at));
    Ok(Change {
        run,
        log: Log::Parked(until),
        then: Then::Nothing,
    })
}

pub(super) fn finish(run: &Run, holder: &Held, reason: Option<Reason>, now: Timestamp) -> Result<Change, Refusal> {
    Ok(end(held(run, holder)?, reason, now))
}

/// The same finish again gets the same answer. One whose run was ended otherwise, by a limit or by force, comes too late.
pub(super) fn finish_again(run: &Run, holder: &Held, reason: Option<Reason>) -> Result<Change, Refusal> {
    if run.claim_token.as_ref() != Some(&holder.token) || run.reason != effective(run, reason) {
        return Err(Refusal::LeaseLost);
    }
    Ok(unchanged(run))
}

/// Whatever ends a run after a stop was asked for ends it as stopped.
fn effective(run: &Run, reason: Option<Reason>) -> Option<Reason> {
    if run.stopping { Some(Reason::Stopped) } else { reason }
}

/// Ends a run.
pub(super) fn end(mut run: Run, reason: Option<Reason>, now: Timestamp) -> Change {
    let reason = effective(&run, reason);
    run.status = terminal_status(reason);
    run.reason = reason;
    run.holder = None;
    run.lease_expires_at = None;
    run.dispatch = Dispatch::default();
    run.due_at = None;
    run.stop_unlogged = false;
    run.answer_unlogged = None;
    run.ended_at = Some(now);
    run.expires_at = Some((now + RETENTION).as_ttl_seconds());
    Change {
        run,
        log: Log::Ended(reason),
        then: Then::Nothing,
    }
}

pub(super) fn release_lease(run: &mut Run) {
    run.claim_token = None;
    run.holder = None;
    run.lease_expires_at = None;
}

/// A run that can be claimed: by whom, and when the sweep looks if nobody does.
pub(super) fn queue_next(run: &mut Run, timing: &Timing, now: Timestamp) -> Then {
    run.dispatch = Dispatch::default();
    if run.paused || run.blocked {
        run.due_at = Some(run.ends_at);
        return Then::Nothing;
    }
    match run.executor {
        Executor::Background => {
            run.dispatch = Dispatch {
                stage: DispatchStage::Sent,
                attempts: 1,
                first_at: Some(now),
                error: None,
            };
            run.due_at = Some((now + timing.redispatch_wait(1)).min(run.ends_at));
            Then::Dispatch
        }
        Executor::Inline => {
            // Its client continues it; if not, it is abandoned.
            run.due_at = Some((now + timing.redispatch_wait(1)).min(run.ends_at));
            Then::Nothing
        }
        Executor::External => {
            run.due_at = Some(run.ends_at);
            Then::Nothing
        }
    }
}

/// Stored: whoever carries the run finds it.
pub(super) fn answer(run: &Run) -> Change {
    let mut run = run.clone();
    run.answers += 1;
    Change {
        run,
        log: Log::AnswerRecorded,
        then: Then::Nothing,
    }
}

pub(super) fn answer_waiting(run: &Run, timing: &Timing, now: Timestamp) -> Change {
    let mut run = answer(run).run;
    run.status = Status::Queued;
    let then = queue_next(&mut run, timing, now);
    if run.executor == Executor::Inline && !run.paused && !run.blocked {
        // No client sat out the wait.
        run.due_at = Some(now.min(run.ends_at));
    }
    Change {
        run,
        log: Log::AnswerRecorded,
        then,
    }
}

pub(super) fn pause(run: &Run) -> Change {
    if run.paused {
        return unchanged(run);
    }
    let mut run = run.clone();
    run.paused = true;
    if run.status != Status::Running {
        run.due_at = Some(run.ends_at);
    }
    Change {
        run,
        log: Log::Paused,
        then: Then::Nothing,
    }
}

pub(super) fn resume(run: &Run, phase: Phase, timing: &Timing, now: Timestamp) -> Change {
    if !run.paused {
        return unchanged(run);
    }
    let mut run = run.clone();
    run.paused = false;
    let then = match phase {
        Phase::Queued | Phase::Lost => {
            let then = queue_next(&mut run, timing, now);
            if run.executor == Executor::Inline && !run.blocked {
                // Whoever resumed it need not be its client.
                run.due_at = Some(now.min(run.ends_at));
            }
            then
        }
        // The wait may be over by now: the sweep looks.
        Phase::Waiting => {
            run.due_at = Some(now.min(run.ends_at));
            Then::Nothing
        }
        Phase::Live | Phase::Lapsed | Phase::Ended => Then::Nothing,
    };
    Change {
        run,
        log: Log::Resumed,
        then,
    }
}

pub(super) fn stop_live(run: &Run, force: bool, now: Timestamp) -> Change {
    if force || run.stopping {
        return stop_now(run, now);
    }
    let mut run = run.clone();
    run.stopping = true;
    run.stop_requested_at = Some(now);
    Change {
        run,
        log: Log::StopRequested,
        then: Then::Nothing,
    }
}

pub(super) fn stop_now(run: &Run, now: Timestamp) -> Change {
    let mut run = run.clone();
    run.stopping = true;
    run.stop_requested_at = run.stop_requested_at.or(Some(now));
    end(run, Some(Reason::Stopped), now)
}

/// Whether whoever looks carries it, because nobody can be told to.
fn is_carried_by_the_sweep(run: &Run, dispatches: bool) -> bool {
    match run.executor {
        Executor::Inline => true,
        // Accepted when there was somewhere to dispatch it to.
        Executor::Background => !dispatches,
        Executor::External => false,
    }
}

/// As [`queue_next`], for the sweep, which knows whether there is anywhere to dispatch to. Without it a background run stays
/// due, and nothing is counted towards giving it up: nobody has tried to start it.
pub(super) fn queue_swept(run: &mut Run, dispatches: bool, timing: &Timing, now: Timestamp) -> Then {
    if run.executor != Executor::Background || dispatches || run.paused || run.blocked {
        return queue_next(run, timing, now);
    }
    run.dispatch = Dispatch::default();
    run.due_at = Some(now.min(run.ends_at));
    Then::Carry
}

pub(super) fn due_queued(run: &Run, dispatches: bool, timing: &Timing, now: Timestamp) -> Change {
    if run.stopping {
        return end(run.clone(), Some(Reason::Stopped), now);
    }
    if now >= run.ends_at {
        return end(run.clone(), Some(Reason::TimeLimit), now);
    }
    if run.due_at.is_some_and(|due_at| now < due_at) || run.paused || run.blocked {
        return unchanged(run);
    }
    if is_carried_by_the_sweep(run, dispatches) {
        return Change {
            then: Then::Carry,
            ..unchanged(run)
        };
    }
    let given_up = run
        .dispatch
        .first_at
        .is_some_and(|first_at| now.since(first_at) >= NEVER_STARTED_AFTER);
    if given_up && run.executor == Executor::Background {
        return end(run.clone(), Some(Reason::NeverStarted), now);
    }
    let mut run = run.clone();
    let before = std::mem::take(&mut run.dispatch);
    let then = queue_next(&mut run, timing, now);
    if then == Then::Dispatch {
        run.dispatch.attempts = before.attempts + 1;
        run.dispatch.first_at = before.first_at.or(Some(now));
        run.dispatch.error = before.error;
        run.due_at = Some((now + timing.redispatch_wait(run.dispatch.attempts)).min(run.ends_at));
    }
    Change {
        run,
        log: Log::Nothing,
        then,
    }
}

pub(super) fn due_waiting(run: &Run, dispatches: bool, timing: &Timing, now: Timestamp) -> Result<Change, Refusal> {
    if run.stopping {
        return Ok(end(run.clone(), Some(Reason::Stopped), now));
    }
    if now >= run.ends_at {
        return Ok(end(run.clone(), Some(Reason::TimeLimit), now));
    }
    if run.due_at.is_some_and(|due_at| now < due_at) || run.paused {
        return Err(Refusal::NotReady);
    }
    let mut run = run.clone();
    run.status = Status::Queued;
    let then = match run.executor {
        // No client sat out the wait.
        Executor::Inline => Then::Carry,
        Executor::Background | Executor::External => queue_swept(&mut run, dispatches, timing, now),
    };
    Ok(Change {
        run,
        log: Log::Nothing,
        then,
    })
}

pub(super) fn dispatch_failed(run: &Run, epoch: u64, stage: DispatchStage, error: &str) -> Result<Change, Refusal> {
    if epoch != run.epoch {
        return Err(Refusal::StaleDispatch {
            expected: epoch,
            actual: run.epoch,
        });
    }
    let mut run = run.clone();
    run.dispatch.stage = stage;
    run.dispatch.error = Some(error[..error.floor_char_boundary(MAX_DISPATCH_ERROR_BYTES)].to_owned());
    Ok(Change {
        run,
        log: Log::Nothing,
        then: Then::Nothing,
    })
}
