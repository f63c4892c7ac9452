//! What anyone but the holder may do to a run: a pure change of its row and, where it has to be logged, the page with it,
//! in one transaction.

use std::sync::Arc;

use outlast_core::event::EventBody;
use outlast_core::limits::{CONTROL_APPEND_TRIES, RETENTION, TURN_RETENTION};
use outlast_core::outcome::AgentResult;
use outlast_core::transition::{Log, Phase};
use outlast_core::{
    Change, Command, Event, Fold, Owner, Page, Run, RunId, Tail, Then, Timestamp, Totals, TurnKey, Writer, apply,
};
use outlast_store::store::tail_of;
use outlast_store::{RowAndPageWrite, RowWrite, Store};

use crate::dispatch::dispatch;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::owed::recorded;

/// Stops a run. Without a live holder it ends at once; otherwise its holder is told, and ends it. `force`, or a second
/// stop, does not wait for the holder.
pub async fn stop(engine: &Arc<Engine>, owner: &Owner, id: &RunId, force: bool) -> Result<Run, EngineError> {
    let run = owned_run(engine, owner, id).await?;
    Ok(change_run(engine, &engine.store, run, &Command::Stop { force })
        .await?
        .run)
}

/// Nobody may begin another chunk until the run is resumed; a holder hands it off at its next step. Again: no change.
pub async fn pause(engine: &Arc<Engine>, owner: &Owner, id: &RunId) -> Result<Run, EngineError> {
    let run = owned_run(engine, owner, id).await?;
    Ok(change_run(engine, &engine.store, run, &Command::Pause).await?.run)
}

/// What was queued is dispatched, what was waiting is looked at. Not paused: no change.
pub async fn resume(engine: &Arc<Engine>, owner: &Owner, id: &RunId) -> Result<Run, EngineError> {
    let run = owned_run(engine, owner, id).await?;
    let command = Command::Resume { timing: engine.timing };
    let change = change_run(engine, &engine.store, run, &command).await?;
    if change.then == Then::Dispatch {
        dispatch(engine, &change.run).await;
    }
    Ok(change.run)
}

/// Stops what a request becomes, by its idempotency key: the run that it became, or, if it hasn't come yet, whatever it becomes
/// within a day. `None`: it hasn't come.
pub async fn stop_turn(
    engine: &Arc<Engine>,
    owner: &Owner,
    turn: &TurnKey,
    force: bool,
) -> Result<Option<Run>, EngineError> {
    let now = engine.seams.now();
    let taken = engine.store.stop_turn(owner, turn, now + TURN_RETENTION, now).await?;
    match taken {
        Some(record) => stop(engine, owner, &record.run_id, force).await.map(Some),
        None => Ok(None),
    }
}

/// A run of this owner that has not expired.
pub async fn owned_run(engine: &Engine, owner: &Owner, id: &RunId) -> Result<Run, EngineError> {
    let run = engine.store.load_run(id).await?.ok_or(EngineError::NotFound)?;
    if run.owner != *owner || run.is_expired(engine.seams.now()) {
        return Err(EngineError::NotFound);
    }
    Ok(run)
}

/// Applies `command` to the run as it is, however often it changes in between: it lands or names its refusal.
pub(crate) async fn change_run(
    engine: &Engine,
    store: &Store,
    mut run: Run,
    command: &Command,
) -> Result<Change, EngineError> {
    let mut tail_lost = 0;
    let mut fold = Fold::default();
    loop {
        let now = engine.seams.now();
        let mut change = apply(&run, command, now)?;
        if change.run == run {
            return Ok(change);
        }
        change.run.write_id = engine.seams.write_id();
        let wrote = match change.log {
            Log::Nothing | Log::Claimed => row_alone(store, &run, &change).await?,
            Log::StopRequested if tail_lost >= CONTROL_APPEND_TRIES => {
                // A busy holder keeps winning the tail. It owes the event: its next beat tells it.
                change.run.stop_unlogged = true;
                row_alone(store, &run, &change).await?
            }
            Log::Ended(_) if tail_lost >= CONTROL_APPEND_TRIES && owes_a_word(&run, command, now) => {
                // Against a busy holder an ending might never win the tail. Told to stop, it grows quiet.
                let mut told = apply(&run, &Command::Stop { force: false }, now)?;
                told.run.write_id = engine.seams.write_id();
                told.run.stop_unlogged = true;
                match row_alone(store, &run, &told).await? {
                    Wrote::Landed(row) => Wrote::RowChanged(Some(row)),
                    refused => refused,
                }
            }
            _ => row_and_page(store, &run, &change, &mut fold, now).await?,
        };
        match wrote {
            Wrote::Landed(row) => {
                if change.log != Log::Nothing {
                    engine.hints.grew(&row.id, 0);
                }
                change.run = *row;
                return Ok(change);
            }
            Wrote::RowChanged(row) => run = *row.ok_or(EngineError::NotFound)?,
            Wrote::TailMoved => tail_lost += 1,
        }
    }
}

/// A stop by force of a run whose holder lives and hasn't been told.
fn owes_a_word(run: &Run, command: &Command, now: Timestamp) -> bool {
    matches!(command, Command::Stop { .. }) && Phase::of(run, now) == Phase::Live && !run.stopping
}

enum Wrote {
    Landed(Box<Run>),
    RowChanged(Option<Box<Run>>),
    TailMoved,
}

async fn row_alone(store: &Store, run: &Run, change: &Change) -> Result<Wrote, EngineError> {
    Ok(match store.write_run(run, &change.run).await? {
        RowWrite::Landed(row) => Wrote::Landed(row),
        RowWrite::Changed(row) => Wrote::RowChanged(row),
    })
}

/// `fold` is what earlier tries have read of the log.
async fn row_and_page(
    store: &Store,
    run: &Run,
    change: &Change,
    fold: &mut Fold,
    now: Timestamp,
) -> Result<Wrote, EngineError> {
    // An ending counts the whole log; anything else needs its tail alone.
    let (tail, totals, bodies) = if let Log::Ended(reason) = change.log {
        read_on(store, &run.id, fold).await?;
        let result = reason.map_or(AgentResult::Ended(outlast_core::Reason::AgentError), AgentResult::Ended);
        let mut bodies = owed_answer(store, run, fold).await?;
        bodies.extend(ending_events(fold, change.run.stopping, result, fold.tail.seq, now)?);
        (fold.tail, fold.totals, bodies)
    } else {
        let page = store.tail_page(&run.id).await?;
        let tail = page.as_ref().map(tail_of).unwrap_or_default();
        (
            tail,
            page.map(|page| page.totals).unwrap_or_default(),
            logged(&change.log).into_iter().collect(),
        )
    };
    let mut change_run = change.run.clone();
    change_run.totals = change_run.totals.max(totals);
    let page = control_page(&change_run, tail, totals, bodies, now);
    if tail.ended {
        let what = format!(
            "at seq {}: a terminal event whose row is {}",
            tail.seq,
            run.status.as_str()
        );
        return Err(EngineError::Store(outlast_store::StoreError::Corrupt(what)));
    }
    Ok(match store.write_run_with_page(run, &change_run, &page).await? {
        RowAndPageWrite::Landed(row) => Wrote::Landed(row),
        RowAndPageWrite::RowChanged(row) => Wrote::RowChanged(row),
        RowAndPageWrite::TailMoved => Wrote::TailMoved,
    })
}

/// The answer that is stored and that no holder has come to log.
async fn owed_answer(store: &Store, run: &Run, fold: &Fold) -> Result<Vec<EventBody>, EngineError> {
    let Some(key) = &run.answer_unlogged else {
        return Ok(vec![]);
    };
    let is_open = fold
        .questions
        .get(key)
        .is_some_and(|question| question.settled.is_none());
    let stored = store.stored_answer(&run.id, key).await?;
    Ok(stored.filter(|_| is_open).map(recorded).into_iter().collect())
}

/// The terminal event of a run whose log is `fold`, behind the `stop.requested` that the log still lacks.
pub(crate) fn ending_events(
    fold: &Fold,
    stopping: bool,
    result: AgentResult,
    after_seq: u64,
    now: Timestamp,
) -> Result<Vec<EventBody>, EngineError> {
    if !stopping || fold.stop_requested {
        return Ok(vec![EventBody::terminal(fold.outcome(result))]);
    }
    let mut stopped = fold.clone();
    stopped.event(&Event {
        seq: after_seq + 1,
        at: now,
        body: EventBody::StopRequested,
    })?;
    Ok(vec![
        EventBody::StopRequested,
        EventBody::terminal(stopped.outcome(result)),
    ])
}

/// The event of a change that needs no more than its row.
pub(crate) fn logged(log: &Log) -> Option<EventBody> {
    match *log {
        Log::Lost {
            epoch,
            last_sign_of_life,
            crashes,
        } => Some(EventBody::RunLost {
            epoch,
            last_sign_of_life,
            crashes,
        }),
        Log::Paused => Some(EventBody::RunPaused),
        Log::Resumed => Some(EventBody::RunResumed),
        Log::StopRequested => Some(EventBody::StopRequested),
        // The holder's hand-off lists what it cut off, its park what it waits for; answers carry their value; an ending is counted.
        Log::AutoContinue(_) | Log::Parked(_) | Log::AnswerRecorded | Log::Ended(_) | Log::Nothing | Log::Claimed => {
            None
        }
    }
}

pub(crate) fn control_page(run: &Run, tail: Tail, totals: Totals, bodies: Vec<EventBody>, now: Timestamp) -> Page {
    Page {
        run_id: run.id.clone(),
        epoch: run.epoch,
        writer: Writer::Control,
        write_id: run.write_id.clone(),
        events: numbered(tail.seq, bodies, now),
        totals,
        expires_at: page_expiry(run),
    }
}

/// Events behind `tail_seq`.
pub(crate) fn numbered(tail_seq: u64, bodies: Vec<EventBody>, at: Timestamp) -> Vec<Event> {
    (tail_seq + 1..)
        .zip(bodies)
        .map(|(seq, body)| Event { seq, at, body })
        .collect()
}

/// No page of a live run expires: its latest possible end, and the retention.
pub(crate) fn page_expiry(run: &Run) -> i64 {
    (run.ends_at + RETENTION).as_ttl_seconds()
}

/// Folds what the log holds behind the fold's tail. Consistent.
pub(crate) async fn read_on(store: &Store, id: &RunId, fold: &mut Fold) -> Result<(), EngineError> {
    let mut next = Some(fold.tail.seq + 1);
    while let Some(first_seq) = next {
        let slice = store.read_pages(id, first_seq, true).await?;
        for page in &slice.pages {
            fold.page(page)?;
        }
        next = slice.next;
    }
    Ok(())
}
