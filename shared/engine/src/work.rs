//! One chunk: from its claim to its hand-off, its park or its end.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt as _;
use outlast_core::event::ContinueReason;
use outlast_core::limits::{SHUT_DOWN_GRACE, STOP_GRACE};
use outlast_core::outcome::{AgentResult, ErrorInfo, Reason};
use outlast_core::time_budget::ChunkTime;
use outlast_core::{Fold, Payload, Run, StepKey, Timestamp};
use outlast_store::{Store, StoreError};

use crate::append::{CannotAppend, Journal};
use crate::chunk::{Chunk, WaitsFor};
use crate::claim::Claimed;
use crate::close::{Closing, close};
use crate::ctx::Ctx;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::lease::Signals;
use crate::owed::{log_expiry, log_owed};
use crate::own_wakes::keep_own_wakes;
use crate::quiet::Quiet;
use crate::step::panic_message;

/// What a chunk came to.
#[derive(Debug)]
pub enum Worked {
    /// Its own closing write landed: the row after it.
    Closed(Box<Run>),
    /// Someone else has the run, or its lease could not be confirmed: this chunk changed nothing more.
    Fenced,
}

/// Carries a claimed run until the chunk must end.
pub(crate) async fn work(
    engine: &Arc<Engine>,
    store: Store,
    claimed: Claimed,
    time: ChunkTime,
    longest_body: std::time::Duration,
) -> Result<Worked, EngineError> {
    let Claimed {
        run,
        host,
        fold,
        agent,
        lease,
        beats,
    } = claimed;
    let input = fold.input.clone().unwrap_or_else(Payload::null);

    let journal = Journal::new(engine.clone(), store, lease.clone(), run.clone(), fold);
    let time = ChunkTime {
        soft_cap_at: time.soft_cap_at.min(run.ends_at),
        // The lease ends there too: a grace beyond it would be taken for a crash.
        grace_ends_at: time.grace_ends_at.min(run.ends_at),
        ..time
    };
    let chunk = Chunk::new(engine.clone(), &run, journal, lease, time, longest_body, host);
    let chunk = Arc::new(chunk);

    let code = {
        let ctx = Ctx::new(chunk.clone());
        AssertUnwindSafe(async move { agent.run(ctx, input).await }).catch_unwind()
    };
    let code = async {
        match code.await {
            Ok(Ok(returned)) => AgentResult::Returned {
                value: returned.value,
                verification: returned.verification,
            },
            Ok(Err(error)) => AgentResult::Failed(error),
            Err(panic) => AgentResult::Failed(ErrorInfo::new("panic", panic_message(&*panic))),
        }
    };
    // An answer that the holder before did not come to log goes before anything else of this one.
    let ended = match log_owed(&chunk).await {
        Ok(()) => keep_own_wakes(drive(&chunk, code)).await,
        Err(cannot) => Ended::Cannot(cannot),
    };

    let closing = match ended {
        Ended::Closing(closing) => closing,
        Ended::CutOff(reason) => {
            // Neither a pause nor the end of its host is a fault of the run's.
            let excused = matches!(reason, ContinueReason::Paused | ContinueReason::ShutDown);
            Closing::HandOff { reason, excused }
        }
        Ended::Cannot(CannotAppend::LogFull) => Closing::Finish(AgentResult::Ended(Reason::HistoryTooLarge)),
        // If the lease is ours after all, hand it on; it isn't started again here.
        Ended::Cannot(CannotAppend::LeaseInDoubt) => Closing::HandOff {
            reason: ContinueReason::LeaseInDoubt,
            excused: true,
        },
        Ended::Cannot(CannotAppend::Fenced) => {
            beats.stop().await;
            return Ok(Worked::Fenced);
        }
        // The next chunk could not write it either.
        Ended::Cannot(CannotAppend::Broken(EngineError::Store(StoreError::TooLarge(what)))) => {
            chunk.journal.discard();
            Closing::Finish(AgentResult::Failed(ErrorInfo::new("too_large", what)))
        }
        Ended::Cannot(CannotAppend::Broken(error)) => {
            beats.stop().await;
            return Err(error);
        }
    };
    match close(&chunk, beats, closing).await {
        Ok(run) => Ok(Worked::Closed(Box::new(run))),
        Err(CannotAppend::Broken(error)) => Err(error),
        Err(CannotAppend::Fenced | CannotAppend::LeaseInDoubt | CannotAppend::LogFull) => Ok(Worked::Fenced),
    }
}

enum Ended {
    Closing(Closing),
    CutOff(ContinueReason),
    Cannot(CannotAppend),
}

/// Why nothing new begins, and until when what is in hand may go on.
struct ClosingDown {
    why: Why,
    until: Timestamp,
}

enum Why {
    Cap,
    Pause,
    ShutDown,
    Stop,
}

/// Runs the agent's code and the log's writer side by side until one of them, the clock or a signal ends the chunk.
async fn drive(chunk: &Arc<Chunk>, code: impl Future<Output = AgentResult>) -> Ended {
    let mut code = Quiet::new(code);
    let mut signals = chunk.lease.signals();
    // Beats began with the claim: one may have said something already.
    signals.mark_changed();
    let mut down: Option<ClosingDown> = None;
    loop {
        // The writer is made anew after each signal, because a signal may need the log for itself.
        let heard = {
            let mut pump = Box::pin(chunk.journal.pump());
            match until_signal(chunk, &mut code, pump.as_mut(), &mut signals, &mut down).await {
                Ok(heard) => heard,
                Err(ended) => return ended,
            }
        };
        let heeded = match heard {
            Heard::Signals(signals) => heed(chunk, signals).await,
            Heard::Expired(questions) => log_expiries(chunk, &questions).await,
        };
        if let Err(cannot) = heeded {
            return Ended::Cannot(cannot);
        }
    }
}

/// What needs the log for itself.
enum Heard {
    Signals(Signals),
    /// The time of these questions has passed.
    Expired(Vec<StepKey>),
}

async fn until_signal<C, P>(
    chunk: &Arc<Chunk>,
    code: &mut Quiet<C>,
    mut pump: Pin<&mut P>,
    signals: &mut tokio::sync::watch::Receiver<Signals>,
    down: &mut Option<ClosingDown>,
) -> Result<Heard, Ended>
where
    C: Future<Output = AgentResult>,
    P: Future<Output = CannotAppend>,
{
    let seams = &chunk.engine.seams;
    let shut_down = &chunk.engine.shut_down;
    loop {
        let shutting_down = shut_down.is_cancelled();
        close_down_if_told(chunk, down);
        if let Some(ended) = closed_down(chunk, down) {
            return Err(ended);
        }
        let expired = chunk.take_expiring();
        if !expired.is_empty() {
            return Ok(Heard::Expired(expired));
        }
        let may_park = down.is_none();
        let next_look = down.as_ref().map_or(chunk.time.soft_cap_at, |down| down.until);
        tokio::select! {
            biased;
            ended = code.until_quiet_and(|| may_park && chunk.waits_long_for().is_some()) => {
                let closing = match (ended, chunk.waits_long_for()) {
                    (Some(result), _) => Closing::Finish(result),
                    (None, Some(waits)) => Closing::Park(waits),
                    // By a moment's time it is one to sit out.
                    (None, None) => continue,
                };
                return Err(Ended::Closing(closing));
            }
            cannot = pump.as_mut() => return Err(Ended::Cannot(cannot)),
            _ = signals.changed() => return Ok(Heard::Signals(*signals.borrow_and_update())),
            () = chunk.changed() => {}
            () = chunk.journal.news() => {}
            () = shut_down.cancelled(), if !shutting_down => {}
            () = seams.sleep_until(next_look) => {}
        }
    }
}

/// Whether the chunk begins to close now: a stop, a pause, the soft cap, the end of its host, or that nothing is left which
/// could still end here, whichever comes first; a
/// stop overrides, and the end of the host shortens what is left.
fn close_down_if_told(chunk: &Arc<Chunk>, down: &mut Option<ClosingDown>) {
    let now = chunk.engine.seams.now();
    let (stop, pause) = chunk.journal.with_fold(|fold| (fold.stop_requested, fold.paused));
    if stop {
        if !matches!(down, Some(ClosingDown { why: Why::Stop, .. })) {
            let until = (now + STOP_GRACE).min(chunk.time.grace_ends_at.max(now));
            *down = Some(ClosingDown { why: Why::Stop, until });
            chunk.closing.cancel();
            chunk.cancelled.cancel();
        }
        return;
    }
    let shut_down = chunk.engine.shut_down.is_cancelled();
    let is_time = now >= chunk.time.soft_cap_at || chunk.has_only_the_next_chunks();
    if down.is_none() && (pause || shut_down || is_time) {
        let why = match (pause, shut_down) {
            (true, _) => Why::Pause,
            (false, true) => Why::ShutDown,
            (false, false) => Why::Cap,
        };
        *down = Some(ClosingDown {
            why,
            until: chunk.time.grace_ends_at,
        });
        chunk.closing.cancel();
    }
    if let Some(down) = down.as_mut().filter(|_| shut_down) {
        down.until = down.until.min(now + SHUT_DOWN_GRACE);
    }
}

/// How the chunk ends, once nothing is in hand or its grace is over.
fn closed_down(chunk: &Arc<Chunk>, down: &Option<ClosingDown>) -> Option<Ended> {
    if let Some(result) = chunk.given_up() {
        return Some(Ended::Closing(Closing::Finish(result)));
    }
    let down = down.as_ref()?;
    let now = chunk.engine.seams.now();
    if chunk.has_in_hand() && now < down.until {
        return None;
    }
    let is_to_come = |waits: &WaitsFor| waits.until.is_none_or(|until| until > now);
    let parked_or = |reason| match chunk.waits_for().filter(is_to_come) {
        Some(waits) => Ended::Closing(Closing::Park(waits)),
        None => Ended::CutOff(reason),
    };
    Some(match down.why {
        Why::Stop => Ended::Closing(Closing::Finish(AgentResult::Ended(Reason::Stopped))),
        Why::Pause => Ended::CutOff(ContinueReason::Paused),
        Why::Cap => parked_or(ContinueReason::RunTimeout),
        Why::ShutDown => parked_or(ContinueReason::ShutDown),
    })
}

/// Acts on what a beat has said: the log is read on where it may hold a stop or a pause.
async fn heed(chunk: &Arc<Chunk>, signals: Signals) -> Result<(), CannotAppend> {
    if signals.lost {
        return Err(CannotAppend::Fenced);
    }
    if signals.in_doubt {
        return Err(CannotAppend::LeaseInDoubt);
    }
    let known = |fold: &Fold| (fold.stop_requested, fold.paused, fold.answers);
    let (stop_known, pause_known, answers_known) = chunk.journal.with_fold(known);
    if (signals.stop_unlogged && !stop_known) || signals.answer_unlogged {
        log_owed(chunk).await?;
    } else if (signals.stopping && !stop_known) || signals.paused != pause_known || signals.answers > answers_known {
        chunk.journal.sync().await?;
    }
    Ok(())
}

async fn log_expiries(chunk: &Arc<Chunk>, questions: &[StepKey]) -> Result<(), CannotAppend> {
    for question in questions {
        log_expiry(chunk, question).await?;
    }
    Ok(())
}
