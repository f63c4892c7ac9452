//! Rows, and rows together with pages.
//!
//! One rule for rows: every write names the version that it read and leaves a fresh write id. If its condition
//! fails, the item that stands there tells whether an earlier try of it had landed.

use outlast_core::{Page, Run, RunId, Timestamp};
use tracing::warn;

use super::{RowAndPageWrite, RowWrite, Store, StoreError};
use crate::pages::{StoredPage, encode_page, is_same};
use crate::rows::{decode_run, difference, encode_run, run_key, thread_key};
use crate::table::{Action, Condition, Item, Reason, Transacted, Write, Written, number, text, text_of};

impl Store {
    /// Consistent.
    pub async fn load_run(&self, id: &RunId) -> Result<Option<Run>, StoreError> {
        match self.get(&run_key(id)?, true).await? {
            Some(item) => decode_run(id, item).map(Some),
            None => Ok(None),
        }
    }

    /// Conditional on `before.version`; `after.write_id` must be fresh. Names only the attributes that differ.
    pub async fn write_run(&self, before: &Run, after: &Run) -> Result<RowWrite, StoreError> {
        match self.write(&row_update(before, after)?).await? {
            Written::Done => Ok(RowWrite::Landed(landed(before, after))),
            Written::Refused(row) if is_ours(row.as_ref(), after) => Ok(RowWrite::Landed(landed(before, after))),
            Written::Refused(row) => Ok(RowWrite::Changed(decode_other(after, row)?)),
        }
    }

    /// One transaction: the row as [`Store::write_run`], the page where nothing stands, and, if `after` has ended,
    /// the thread freed.
    pub async fn write_run_with_page(
        &self,
        before: &Run,
        after: &Run,
        page: &Page,
    ) -> Result<RowAndPageWrite, StoreError> {
        let row = row_update(before, after)?;
        let page = encode_page(page)?;
        self.put_parts(&page).await?;
        let mut writes = vec![row, page_put(page)];
        if after.status.is_terminal() && !before.status.is_terminal() {
            writes.push(free_thread(after)?);
        }
        loop {
            let mut reasons = match self.transact(&writes).await? {
                Transacted::Done => return Ok(RowAndPageWrite::Landed(landed(before, after))),
                Transacted::Refused(reasons) => reasons.into_iter(),
            };
            let (row, page) = (reasons.next(), reasons.next());
            // The page never changes: it tells even if the row went on since.
            if let Some(Reason::ConditionFailed(stands)) = &page
                && has_landed(&writes[1], stands.as_ref())
            {
                return Ok(RowAndPageWrite::Landed(landed(before, after)));
            }
            if let Some(Reason::ConditionFailed(row)) = row {
                if is_ours(row.as_ref(), after) {
                    return Ok(RowAndPageWrite::Landed(landed(before, after)));
                }
                return Ok(RowAndPageWrite::RowChanged(decode_other(after, row)?));
            }
            if let Some(Reason::ConditionFailed(_)) = page {
                return Ok(RowAndPageWrite::TailMoved);
            }
            if writes.len() < 3 {
                return Err(StoreError::Unavailable(
                    "a transaction was refused without a reason".into(),
                ));
            }
            // No code of ours takes a thread from a live run. If it happened, the run must end all the same.
            warn!(run = %after.id, thread = %after.thread, "the thread of a run that ends is not its own");
            writes.truncate(2);
        }
    }

    /// Moves the due time of a row that can't be read, so that it is neither forgotten nor looked at each minute.
    pub async fn postpone_unreadable(&self, id: &RunId, until: Timestamp) -> Result<(), StoreError> {
        let write = Write {
            key: run_key(id)?,
            action: Action::Update {
                set: vec![("due_at".into(), number(until.as_millis()))],
                remove: vec![],
            },
            // Not if it has ended, and never a row where there is none.
            condition: Condition::Has("due_shard"),
        };
        self.write(&write).await.map(|_| ())
    }

    /// What a page names must be there before it. The same parts again are the same bytes.
    pub(super) async fn put_parts(&self, page: &StoredPage) -> Result<(), StoreError> {
        for (key, item) in &page.parts {
            let write = Write {
                key: key.clone(),
                action: Action::Put(item.clone()),
                condition: Condition::Always,
            };
            self.write(&write).await?;
        }
        Ok(())
    }
}

pub(super) fn page_put(page: StoredPage) -> Write {
    Write {
        key: page.key,
        action: Action::Put(page.item),
        condition: Condition::NotExists,
    }
}

/// Whether what stands there is what this write was to put.
pub(super) fn has_landed(put: &Write, stands: Option<&Item>) -> bool {
    match (&put.action, stands) {
        (Action::Put(ours), Some(stands)) => is_same(stands, ours),
        _ => false,
    }
}

pub(super) fn row_update(before: &Run, after: &Run) -> Result<Write, StoreError> {
    if before.id != after.id {
        return Err(StoreError::Rejected(format!(
            "run {} is not run {}",
            after.id, before.id
        )));
    }
    if before.write_id == after.write_id {
        return Err(StoreError::Rejected("a write of a row needs a fresh write id".into()));
    }
    let mut new = encode_run(after)?;
    new.insert("version".into(), number(before.version + 1));
    let (set, remove) = difference(&encode_run(before)?, new);
    Ok(Write {
        key: run_key(&after.id)?,
        action: Action::Update { set, remove },
        condition: Condition::VersionIs(before.version),
    })
}

fn free_thread(run: &Run) -> Result<Write, StoreError> {
    let set = run.expires_at.map(|at| ("expires_at".to_owned(), number(at)));
    Ok(Write {
        key: thread_key(&run.owner, &run.thread)?,
        action: Action::Update {
            set: set.into_iter().collect(),
            remove: vec!["live_run".into()],
        },
        condition: Condition::Is("live_run", run.id.to_string()),
    })
}

pub(super) fn landed(before: &Run, after: &Run) -> Box<Run> {
    Box::new(Run {
        version: before.version + 1,
        ..after.clone()
    })
}

pub(super) fn is_ours(row: Option<&Item>, after: &Run) -> bool {
    row.and_then(|row| text_of(row, "write_id")) == Some(after.write_id.as_str())
}

pub(super) fn decode_other(run: &Run, row: Option<Item>) -> Result<Option<Box<Run>>, StoreError> {
    row.map(|row| decode_run(&run.id, row).map(Box::new)).transpose()
}

/// Of a thread: its live run, and since when that is so by which write.
pub(super) fn take_thread(run: &Run) -> Result<Write, StoreError> {
    Ok(Write {
        key: thread_key(&run.owner, &run.thread)?,
        action: Action::Update {
            set: vec![
                ("owner".into(), text(run.owner.as_str())),
                ("thread".into(), text(run.thread.as_str())),
                ("live_run".into(), text(run.id.as_str())),
                ("write_id".into(), text(run.write_id.as_str())),
                ("schema".into(), number(outlast_core::page::SCHEMA)),
            ],
            // A thread in use doesn't expire.
            remove: vec!["expires_at".into()],
        },
        condition: Condition::Lacks("live_run"),
    })
}
