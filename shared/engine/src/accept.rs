//! Accepting a run: one transaction of thread, turn, run and first page, then its dispatch.

use std::sync::Arc;

use outlast_core::digest::{input_digest, sha256_hex};
use outlast_core::event::EventBody;
use outlast_core::key::{KeyError, key_part};
use outlast_core::limits::{MAX_RUN_VALUE_BYTES, RUN_WALL_CLOCK, TURN_RETENTION};
use outlast_core::outcome::{AgentResult, Reason};
use outlast_core::page::Writer;
use outlast_core::run::{NewRun, Retry};
use outlast_core::{
    AgentName, Command, Executor, Fold, Owner, Page, Payload, Run, RunId, ThreadKey, Timestamp, Totals, TurnKey, apply,
};
use outlast_store::{Acceptance, Accepted, StoreError, Turn, TurnRecord};
use thiserror::Error;

use crate::agent::BadInput;
use crate::control::{ending_events, numbered, page_expiry};
use crate::dispatch::dispatch;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::sweep::look_at;

/// A request for a run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub owner: Owner,
    pub agent: AgentName,
    pub input: Payload,
    /// Without one the thread is the run's own.
    pub thread: Option<String>,
    /// The idempotency key.
    pub turn: Option<String>,
    /// Earlier than the default wall-clock limit, never later.
    pub ends_at: Option<Timestamp>,
    /// What remains of an ended run.
    pub retry: Option<Retry>,
}

/// A run that is durable. Its work may not have begun: only a claim is a start.
#[derive(Clone, Debug)]
pub struct AcceptedRun {
    pub run: Run,
    /// The request had come before under its key; this is its run.
    pub repeated: bool,
}

/// Nothing was stored.
#[derive(Clone, Debug, Error)]
pub enum NotAccepted {
    #[error("no agent named `{0}` is part of this deployment")]
    UnknownAgent(String),
    #[error("{}", .0.message)]
    BadInput(BadInput),
    #[error("the input has {bytes} bytes; at most {MAX_RUN_VALUE_BYTES} are accepted")]
    InputTooLarge { bytes: usize },
    #[error("`{field}` can't be used: {problem}")]
    BadKey { field: &'static str, problem: KeyError },
    #[error("`endsAt` lies in the past, or further ahead than a run may take")]
    BadEnd,
    #[error("the thread has a live run, {}", .0.id)]
    ThreadBusy(Box<Run>),
    #[error("this idempotency key was used with another request, which became run {run_id}")]
    TurnMismatch { run_id: RunId },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for NotAccepted {
    fn from(error: StoreError) -> Self {
        NotAccepted::Engine(error.into())
    }
}

/// Stores the run and, unless it is inline, dispatches it; returns when both are done. A dispatch that fails is no error: it is noted on the run,
/// and the sweep repeats it.
///
/// If the store can't be reached ([`EngineError::Store`]) the run may have been accepted all the same: ask again under the same
/// `turn`, and it is found.
pub async fn accept(engine: &Arc<Engine>, request: RunRequest) -> Result<AcceptedRun, NotAccepted> {
    check(engine, &request)?;
    let mut acceptance = acceptance(engine, &request)?;
    let owner = &request.owner;
    let mut looked_at_busy = false;
    loop {
        // The key is judged before the thread: a repetition finds its run however busy the thread is.
        if let Some(turn) = &acceptance.turn {
            match engine.store.turn(owner, &turn.turn, engine.seams.now()).await? {
                Some(Turn::Taken(record)) => return repeated(engine, turn, record).await,
                Some(Turn::Stopped) if !acceptance.run.status.is_terminal() => born_cancelled(engine, &mut acceptance)?,
                Some(Turn::Stopped) | None => {}
            }
        }
        match engine.store.accept(&acceptance, engine.seams.now()).await? {
            Accepted::Landed => break,
            Accepted::TurnTaken(record) => {
                let Some(turn) = &acceptance.turn else { continue };
                return repeated(engine, turn, record).await;
            }
            Accepted::TurnStopped => {}
            Accepted::ThreadBusy(busy) => {
                let active = look_at(engine, &busy).await?;
                match active {
                    Some(run) if !run.status.is_terminal() || looked_at_busy => {
                        return Err(NotAccepted::ThreadBusy(Box::new(run)));
                    }
                    None if looked_at_busy => {
                        let what = format!("the thread's live run, {busy}, isn't there");
                        return Err(StoreError::Corrupt(what).into());
                    }
                    // It has ended by this look: its thread is free.
                    Some(_) | None => looked_at_busy = true,
                }
            }
        }
    }
    engine.hints.grew(&acceptance.run.id, 1);
    if acceptance.run.executor == Executor::Background && !acceptance.run.status.is_terminal() {
        dispatch(engine, &acceptance.run).await;
    }
    Ok(AcceptedRun {
        run: acceptance.run,
        repeated: false,
    })
}

fn check(engine: &Engine, request: &RunRequest) -> Result<(), NotAccepted> {
    let agent = engine.agents.get(&request.agent);
    let agent = agent.ok_or_else(|| NotAccepted::UnknownAgent(request.agent.to_string()))?;
    for (field, value) in [("threadId", &request.thread), ("turnId", &request.turn)] {
        if let Some(value) = value {
            key_part(value).map_err(|problem| NotAccepted::BadKey { field, problem })?;
        }
    }
    let bytes = request.input.len();
    if bytes > MAX_RUN_VALUE_BYTES {
        return Err(NotAccepted::InputTooLarge { bytes });
    }
    agent.check_input(&request.input).map_err(NotAccepted::BadInput)
}

fn acceptance(engine: &Engine, request: &RunRequest) -> Result<Acceptance, NotAccepted> {
    let now = engine.seams.now();
    let latest = now + RUN_WALL_CLOCK;
    let ends_at = request.ends_at.unwrap_or(latest);
    if ends_at <= now || ends_at > latest {
        return Err(NotAccepted::BadEnd);
    }
    let id = engine.seams.run_id();
    let new = NewRun {
        owner: request.owner.clone(),
        agent: request.agent.clone(),
        thread: ThreadKey::new(request.thread.clone().unwrap_or_else(|| id.to_string())),
        turn: request.turn.clone().map(TurnKey::new),
        executor: engine.executor(),
        retry: request.retry.clone(),
        ends_at,
        due_at: (now + engine.timing.redispatch_wait(1)).min(ends_at),
        write_id: engine.seams.write_id(),
        id: id.clone(),
    };
    let run = new.accepted(now);
    let accepted = EventBody::RunAccepted {
        agent: request.agent.clone(),
        input: request.input.clone(),
        retry_of: request.retry.as_ref().map(|retry| retry.of.clone()),
    };
    let page = Page {
        run_id: id.clone(),
        epoch: 0,
        writer: Writer::Control,
        write_id: run.write_id.clone(),
        events: numbered(0, vec![accepted], now),
        totals: Totals::default(),
        expires_at: page_expiry(&run),
    };
    let turn = run.turn.clone().map(|turn| TurnRecord {
        owner: request.owner.clone(),
        turn,
        run_id: id,
        fingerprint: fingerprint(request),
        expires_at: now + TURN_RETENTION,
    });
    Ok(Acceptance { run, page, turn })
}

/// Of what the request asks for. The input counts as a value: the order of a map's keys and white space don't.
fn fingerprint(request: &RunRequest) -> String {
    let parts = (
        request.agent.as_str(),
        input_digest(&request.input),
        &request.thread,
        request.ends_at.map(Timestamp::as_millis),
        &request.retry,
    );
    sha256_hex(format!("{parts:?}").as_bytes())
}

/// The turn was stopped before this request came: its run has ended when it is first seen, and nothing of it ever began.
fn born_cancelled(engine: &Engine, acceptance: &mut Acceptance) -> Result<(), EngineError> {
    let now = engine.seams.now();
    let mut fold = Fold::default();
    fold.page(&acceptance.page)?;
    let stopped = apply(&acceptance.run, &Command::Stop { force: true }, now)?;
    acceptance.run = stopped.run;
    let result = AgentResult::Ended(Reason::Stopped);
    let ending = ending_events(&fold, true, result, fold.tail.seq, now)?;
    acceptance.page.events.extend(numbered(fold.tail.seq, ending, now));
    Ok(())
}

async fn repeated(engine: &Engine, asked: &TurnRecord, record: TurnRecord) -> Result<AcceptedRun, NotAccepted> {
    if record.fingerprint != asked.fingerprint {
        return Err(NotAccepted::TurnMismatch { run_id: record.run_id });
    }
    let run = engine
        .store
        .load_run(&record.run_id)
        .await?
        .ok_or(NotAccepted::Engine(EngineError::NotFound))?;
    Ok(AcceptedRun { run, repeated: true })
}
