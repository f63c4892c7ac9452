//! The end of a chunk: hand-off, park or finish. What is pending first, then the row and the closing page in one
//! transaction.

use std::sync::Arc;

use outlast_core::event::{ContinueReason, EventBody, MOST_AWAITED};
use outlast_core::outcome::{AgentResult, ErrorInfo};
use outlast_core::page::Writer;
use outlast_core::transition::{Held, Log};
use outlast_core::{Change, Command, Page, Run, StepKey, Then, Timestamp, apply};
use outlast_store::{RowAndPageWrite, StoreError};

use crate::append::CannotAppend;
use crate::chunk::{Chunk, WaitsFor};
use crate::control::{ending_events, logged, numbered, page_expiry};
use crate::dispatch::dispatch;
use crate::error::EngineError;
use crate::heartbeat::Heartbeat;
use crate::owed::log_owed;

/// How a chunk ends.
#[derive(Clone, Debug)]
pub(crate) enum Closing {
    /// Excused: a chunk without progress is none of the run's own doing.
    HandOff {
        reason: ContinueReason,
        excused: bool,
    },
    Park(WaitsFor),
    Finish(AgentResult),
}

/// Closes the chunk; the row as it then is. Everything is awaited: nothing is left to run behind the reply.
pub(crate) async fn close(chunk: &Arc<Chunk>, beats: Heartbeat, mut closing: Closing) -> Result<Run, CannotAppend> {
    chunk.journal.withdraw_unstarted();
    let drained = chunk.journal.drain().await;
    beats.stop().await;
    drained?;
    let mut is_cut_down = false;
    let change = loop {
        match try_close(chunk, &closing).await {
            Ok(Some(change)) => break change,
            Ok(None) => {}
            // Nothing of it was written, and no later chunk could write it either: what was to be said is the failure.
            Err(CannotAppend::Broken(EngineError::Store(StoreError::TooLarge(what)))) if !is_cut_down => {
                is_cut_down = true;
                closing = Closing::Finish(AgentResult::Failed(ErrorInfo::new("too_large", what)));
            }
            Err(cannot) => return Err(cannot),
        }
    };
    if change.then == Then::Dispatch {
        dispatch(&chunk.engine, &change.run).await;
    }
    Ok(change.run)
}

/// What a park becomes when an answer that it was to wait for has come in between.
const ANSWERED: Closing = Closing::HandOff {
    reason: ContinueReason::Answered,
    excused: true,
};

fn has_answer_to(chunk: &Chunk, waits: &WaitsFor) -> bool {
    chunk.journal.with_fold(|fold| {
        let is_settled = |key| {
            fold.questions
                .get(key)
                .is_some_and(|question| question.settled.is_some())
        };
        waits.awaits.iter().any(is_settled)
    })
}

/// One try at the transaction; `None` if the row or the tail had moved.
async fn try_close(chunk: &Arc<Chunk>, closing: &Closing) -> Result<Option<Change>, CannotAppend> {
    log_owed(chunk).await?;
    let engine = &chunk.engine;
    let now = engine.seams.now();
    let spent = chunk.journal.store().cost() + chunk.lease.cost_of_beats();
    let (row, holder) = chunk.lease.held(spent).ok_or(CannotAppend::Fenced)?;
    let answered = matches!(closing, Closing::Park(waits) if has_answer_to(chunk, waits));
    let closing = if answered { &ANSWERED } else { closing };
    let mut change = apply(&row, &command(chunk, closing, holder), now).map_err(|_| CannotAppend::Fenced)?;
    if change.run == row {
        return Ok(Some(change));
    }
    change.run.write_id = engine.seams.write_id();
    let page = closing_page(chunk, closing, &change, now)?;
    match write(chunk, &row, &change.run, &page).await? {
        RowAndPageWrite::Landed(landed) => {
            chunk.journal.landed_with_row(&page)?;
            change.run = *landed;
            Ok(Some(change))
        }
        RowAndPageWrite::RowChanged(Some(row)) => {
            chunk.lease.seen(*row);
            chunk.journal.sync().await?;
            Ok(None)
        }
        RowAndPageWrite::RowChanged(None) => Err(CannotAppend::Fenced),
        RowAndPageWrite::TailMoved => {
            chunk.journal.sync().await?;
            Ok(None)
        }
    }
}

/// The same transaction until its outcome is known, or the lease is in doubt.
pub(crate) async fn write(
    chunk: &Chunk,
    before: &Run,
    after: &Run,
    page: &Page,
) -> Result<RowAndPageWrite, CannotAppend> {
    loop {
        match chunk.journal.store().write_run_with_page(before, after, page).await {
            Err(StoreError::Unavailable(error)) => chunk.journal.wait_to_repeat(&error).await?,
            outcome => return Ok(outcome?),
        }
    }
}

fn command(chunk: &Chunk, closing: &Closing, holder: Held) -> Command {
    match closing {
        // Asked when all is in the log: a step that outlived the cap has ended just now.
        Closing::HandOff { reason, excused } => Command::HandOff {
            holder,
            reason: *reason,
            progressed: *excused || chunk.has_progressed(),
            timing: chunk.engine.timing,
        },
        Closing::Park(waits) => Command::Park {
            holder,
            until: waits.until,
        },
        Closing::Finish(result) => {
            let reason = chunk.journal.with_fold(|fold| fold.outcome(result.clone()).reason);
            Command::Finish { holder, reason }
        }
    }
}

fn closing_page(chunk: &Chunk, closing: &Closing, change: &Change, now: Timestamp) -> Result<Page, CannotAppend> {
    let page = chunk.journal.with_fold(|fold| {
        let bodies = match change.log {
            Log::AutoContinue(reason) => {
                vec![EventBody::AutoContinue {
                    reason,
                    interrupted: in_hand(fold, chunk.epoch),
                }]
            }
            Log::Ended(reason) => {
                let result = match (closing, reason) {
                    (Closing::Finish(result), _) => result.clone(),
                    (_, Some(reason)) => AgentResult::Ended(reason),
                    (_, None) => return Err(CannotAppend::Fenced),
                };
                ending_events(fold, change.run.stopping, result, fold.tail.seq, now)?
            }
            Log::Parked(until) => {
                let awaits = match closing {
                    Closing::Park(waits) if waits.awaits.len() <= MOST_AWAITED => waits.awaits.clone(),
                    Closing::Park(_) | Closing::HandOff { .. } | Closing::Finish(_) => vec![],
                };
                vec![EventBody::RunParked { until, awaits }]
            }
            ref log => logged(log).into_iter().collect(),
        };
        Ok(Page {
            run_id: chunk.run.clone(),
            epoch: chunk.epoch,
            writer: Writer::Control,
            write_id: change.run.write_id.clone(),
            totals: fold.totals_after(&bodies),
            events: numbered(fold.tail.seq, bodies, now),
            expires_at: page_expiry(&change.run),
        })
    })?;
    Ok(page)
}

/// Bodies that this chunk let begin and cuts off.
fn in_hand(fold: &outlast_core::Fold, epoch: u64) -> Vec<StepKey> {
    fold.interrupted(epoch + 1)
}
