//! What a run looks like from outside.

use std::sync::Arc;

use outlast_core::fold::Question;
use outlast_core::{Fold, Outcome, Owner, Page, Run, RunId, Status, StepKey, ThreadKey, Totals};
use outlast_store::{RunList, StoreError};

use crate::control::{owned_run, read_on};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::sweep::look_at;

/// A run and what the end of its log says.
#[derive(Clone, Debug)]
pub struct RunView {
    pub run: Run,
    pub last_seq: u64,
    /// M of N by the log, which is ahead of the row.
    pub totals: Totals,
    /// Of an ended run.
    pub outcome: Option<Outcome>,
    /// What a run that waits or is paused has asked and nobody has answered, in the order in which it was asked.
    pub questions: Vec<(StepKey, Question)>,
}

/// A run of this owner, after the sweep's look at it.
pub async fn show(engine: &Arc<Engine>, owner: &Owner, id: &RunId) -> Result<RunView, EngineError> {
    owned_run(engine, owner, id).await?;
    let mut run = look_at(engine, id).await?.ok_or(EngineError::NotFound)?;
    let tail = engine.store.tail_page(id).await?;
    if tail.as_ref().is_some_and(Page::is_ended) && !run.status.is_terminal() {
        // The end landed between the two reads; or, in no log of ours, without its row.
        run = engine.store.load_run(id).await?.ok_or(EngineError::NotFound)?;
        if !run.status.is_terminal() {
            let what = format!("a terminal event whose row is {}", run.status.as_str());
            return Err(StoreError::Corrupt(what).into());
        }
    }
    let questions = open_questions(engine, &run).await?;
    let last = tail.as_ref().and_then(|page| page.events.last());
    Ok(RunView {
        last_seq: tail.as_ref().map_or(0, Page::last_seq),
        totals: tail.as_ref().map_or(run.totals, |page| page.totals),
        outcome: last.and_then(|event| event.body.outcome().cloned()),
        questions,
        run,
    })
}

/// Takes the whole log, which is why it isn't done for a run that is at work.
async fn open_questions(engine: &Engine, run: &Run) -> Result<Vec<(StepKey, Question)>, EngineError> {
    let is_at_rest = run.status == Status::Waiting || (run.paused && !run.status.is_terminal());
    if !is_at_rest {
        return Ok(vec![]);
    }
    let mut fold = Fold::default();
    match read_on(&engine.store, &run.id, &mut fold).await {
        // It is shown as far as it can be.
        Err(EngineError::Store(error @ StoreError::Corrupt(_))) => {
            tracing::warn!(run = %run.id, %error, "the questions of a run can't be read");
        }
        read => read?,
    }
    let open = fold.open_questions().into_iter();
    Ok(open.map(|(key, question)| (key.clone(), question.clone())).collect())
}

/// The thread's live run, after the sweep's look at it.
pub async fn active(engine: &Arc<Engine>, owner: &Owner, thread: &ThreadKey) -> Result<Option<Run>, EngineError> {
    let Some(id) = engine.store.active_run(owner, thread).await? else {
        return Ok(None);
    };
    let run = look_at(engine, &id).await?;
    Ok(run.filter(|run| run.owner == *owner && !run.status.is_terminal()))
}

/// Runs of this owner, newest first, at most `limit`; fewer where some are past their retention. From an index, which lags
/// behind by moments. `after` is the `next` of the page before.
pub async fn list(
    engine: &Arc<Engine>,
    owner: &Owner,
    limit: usize,
    after: Option<&str>,
) -> Result<RunList, EngineError> {
    let now = engine.seams.now();
    let mut list = engine.store.list_runs(owner, limit, after).await?;
    list.runs.retain(|run| !run.is_expired(now));
    Ok(list)
}
