//! What only the holder can log, each in one transaction with the row: what a control writer has put on the row alone, having
//! lost the tail too often, and that nobody has answered a question in time.

use std::sync::Arc;

use outlast_core::event::EventBody;
use outlast_core::page::Writer;
use outlast_core::{Page, Run, StepKey};
use outlast_store::{AnswerRecord, AnswerWrite, RowAndPageWrite, RowWrite, StoreError};

use crate::append::CannotAppend;
use crate::chunk::Chunk;
use crate::close::write;
use crate::control::{numbered, page_expiry};

/// Appends what control writers have left to the holder, and clears their marks.
pub(crate) async fn log_owed(chunk: &Arc<Chunk>) -> Result<(), CannotAppend> {
    while let Some((row, mut after, body)) = owed(chunk).await? {
        after.write_id = chunk.engine.seams.write_id();
        let Some(body) = body else {
            // It is in the log: an earlier try of ours landed without our knowing.
            match chunk.journal.store().write_run(&row, &after).await {
                Ok(RowWrite::Landed(row) | RowWrite::Changed(Some(row))) => chunk.lease.seen(*row),
                Ok(RowWrite::Changed(None)) => return Err(CannotAppend::Fenced),
                Err(StoreError::Unavailable(error)) => chunk.journal.wait_to_repeat(&error).await?,
                Err(error) => return Err(error.into()),
            }
            continue;
        };
        let page = page(chunk, &after, body);
        match write(chunk, &row, &after, &page).await? {
            RowAndPageWrite::Landed(landed) => {
                chunk.journal.landed_with_row(&page)?;
                chunk.lease.seen(*landed);
            }
            RowAndPageWrite::RowChanged(Some(row)) => {
                chunk.lease.seen(*row);
                chunk.journal.sync().await?;
            }
            RowAndPageWrite::RowChanged(None) => return Err(CannotAppend::Fenced),
            RowAndPageWrite::TailMoved => chunk.journal.sync().await?,
        }
    }
    Ok(())
}

type Owed = (Run, Run, Option<EventBody>);

/// The row, the row without the mark, and what the mark says.
async fn owed(chunk: &Arc<Chunk>) -> Result<Option<Owed>, CannotAppend> {
    let row = chunk.lease.row();
    if row.answer_unlogged.is_none() && !row.stop_unlogged {
        return Ok(None);
    }
    chunk.journal.drain().await?;
    let row = chunk.lease.row();
    let mut after = row.clone();
    if let Some(question) = after.answer_unlogged.take() {
        let is_logged = is_settled(chunk, &question);
        let body = match is_logged {
            true => None,
            false => Some(stored_answer(chunk, &question).await?),
        };
        return Ok(Some((row, after, body)));
    }
    if row.stop_unlogged && !chunk.journal.with_fold(|fold| fold.stop_requested) {
        after.stop_unlogged = false;
        return Ok(Some((row, after, Some(EventBody::StopRequested))));
    }
    Ok(None)
}

fn is_settled(chunk: &Chunk, question: &StepKey) -> bool {
    chunk.journal.with_fold(|fold| {
        let question = fold.questions.get(question);
        question.is_some_and(|question| question.settled.is_some())
    })
}

async fn stored_answer(chunk: &Chunk, question: &StepKey) -> Result<EventBody, CannotAppend> {
    loop {
        match chunk.journal.store().stored_answer(&chunk.run, question).await {
            Ok(Some(record)) => return Ok(recorded(record)),
            Ok(None) => {
                let what = format!("the row says that {question} is answered, and the answer isn't there");
                return Err(StoreError::Corrupt(what).into());
            }
            Err(StoreError::Unavailable(error)) => chunk.journal.wait_to_repeat(&error).await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The event of an answer.
pub(crate) fn recorded(record: AnswerRecord) -> EventBody {
    EventBody::AnswerRecorded {
        key: record.key,
        value: record.value,
        error: record.error,
        expired: record.expired,
    }
}

/// Logs that nobody answered in time, unless somebody did. It takes the place of an answer in the table, so that of the two only
/// one can be stored, and it names the row's version, so that an answer that isn't in the log yet is seen.
pub(crate) async fn log_expiry(chunk: &Arc<Chunk>, question: &StepKey) -> Result<(), CannotAppend> {
    loop {
        log_owed(chunk).await?;
        chunk.journal.drain().await?;
        if is_settled(chunk, question) {
            return Ok(());
        }
        let row = chunk.lease.row();
        let mut after = row.clone();
        after.write_id = chunk.engine.seams.write_id();
        let record = AnswerRecord {
            key: question.clone(),
            value: chunk
                .journal
                .with_fold(|fold| fold.questions.get(question).and_then(|asked| asked.default.clone())),
            error: None,
            expired: true,
            at: chunk.engine.seams.now(),
        };
        let page = page(chunk, &after, recorded(record.clone()));
        match write_expiry(chunk, &row, &after, &record, &page).await? {
            AnswerWrite::Landed(landed) => {
                chunk.journal.landed_with_row(&page)?;
                chunk.lease.seen(*landed);
                return Ok(());
            }
            AnswerWrite::RowChanged(Some(row)) => chunk.lease.seen(*row),
            AnswerWrite::RowChanged(None) => return Err(CannotAppend::Fenced),
            AnswerWrite::TailMoved | AnswerWrite::Taken => {}
        }
        chunk.journal.sync().await?;
    }
}

async fn write_expiry(
    chunk: &Chunk,
    before: &Run,
    after: &Run,
    record: &AnswerRecord,
    page: &Page,
) -> Result<AnswerWrite, CannotAppend> {
    loop {
        match chunk
            .journal
            .store()
            .write_answer(before, after, record, Some(page))
            .await
        {
            Err(StoreError::Unavailable(error)) => chunk.journal.wait_to_repeat(&error).await?,
            outcome => return Ok(outcome?),
        }
    }
}

fn page(chunk: &Chunk, row: &Run, body: EventBody) -> Page {
    chunk.journal.with_fold(|fold| Page {
        run_id: chunk.run.clone(),
        epoch: chunk.epoch,
        writer: Writer::Control,
        write_id: row.write_id.clone(),
        events: numbered(fold.tail.seq, vec![body], chunk.engine.seams.now()),
        totals: fold.totals,
        expires_at: page_expiry(row),
    })
}
