//! A run's beginning: thread, turn, row and first page in one transaction.

use outlast_core::{Owner, RunId, ThreadKey, Timestamp, TurnKey};

use super::runs::{is_put_by, page_put, take_thread};
use super::{Acceptance, Accepted, Store, StoreError, TurnRecord};
use crate::pages::encode_page;
use crate::rows::{
    TAKEN_UNTIL, check_owner, check_schema, decode_turn, encode_run, encode_turn, run_key, thread_key, turn_key,
};
use crate::table::{Action, Condition, Item, Reason, Transacted, Write, text_of};

impl Store {
    pub async fn accept(&self, acceptance: &Acceptance, now: Timestamp) -> Result<Accepted, StoreError> {
        let run = &acceptance.run;
        let page = encode_page(&acceptance.page)?;
        self.put_parts(&page).await?;
        let page = page_put(page);
        let row = Write {
            key: run_key(&run.id)?,
            action: Action::Put(encode_run(run)?),
            condition: Condition::NotExists,
        };
        let mut writes = vec![row, page, take_thread(run)?];
        if let Some(record) = &acceptance.turn {
            writes.push(turn_put(record, now)?);
        }
        let reasons = match self.transact(&writes).await? {
            Transacted::Done => return Ok(Accepted::Landed),
            Transacted::Refused(reasons) => reasons,
        };
        let refused = |index: usize| matches!(reasons.get(index), Some(Reason::ConditionFailed(_)));
        let stands = |index: usize| match reasons.get(index) {
            Some(Reason::ConditionFailed(item)) => item.as_ref(),
            _ => None,
        };
        // The first page never changes: it tells even if the run went on since.
        if stands(1).is_some_and(|stands| is_put_by(stands, &writes[1]))
            || stands(0).and_then(|row| text_of(row, "write_id")) == Some(run.write_id.as_str())
        {
            return Ok(Accepted::Landed);
        }
        if refused(0) || refused(1) {
            return Err(StoreError::Rejected(format!("there is a run {} already", run.id)));
        }
        // The turn decides: a repeated request must find its run although that one keeps the thread busy. If the
        // transaction didn't say (it met another on the turn), the turn itself does.
        if let Some(record) = &acceptance.turn {
            let taken = match stands(3) {
                Some(item) => Some(decode_turn(&record.owner, &record.turn, item)?),
                None => self.turn(&record.owner, &record.turn, now).await?,
            };
            if let Some(taken) = taken {
                return Ok(Accepted::TurnTaken(taken));
            }
        }
        match self.thread_holder(&run.owner, &run.thread, stands(2)).await? {
            Some(live_run) => Ok(Accepted::ThreadBusy(live_run)),
            // It was, and is free again by now; or the turn has been given back in between.
            None => Err(StoreError::Unavailable(
                "the thread or the turn changed meanwhile; try again".into(),
            )),
        }
    }

    /// Consistent. What has expired is not there.
    pub async fn turn(&self, owner: &Owner, turn: &TurnKey, now: Timestamp) -> Result<Option<TurnRecord>, StoreError> {
        let Some(item) = self.get(&turn_key(owner, turn)?, true).await? else {
            return Ok(None);
        };
        let record = decode_turn(owner, turn, &item)?;
        Ok((record.expires_at > now).then_some(record))
    }

    /// The thread's live run; consistent.
    pub async fn active_run(&self, owner: &Owner, thread: &ThreadKey) -> Result<Option<RunId>, StoreError> {
        self.thread_holder(owner, thread, None).await
    }

    async fn thread_holder(
        &self,
        owner: &Owner,
        thread: &ThreadKey,
        known: Option<&Item>,
    ) -> Result<Option<RunId>, StoreError> {
        let read = match known {
            Some(_) => None,
            None => self.get(&thread_key(owner, thread)?, true).await?,
        };
        let Some(item) = known.or(read.as_ref()) else {
            return Ok(None);
        };
        let what = format!("thread {thread}");
        check_schema(item, || what.clone())?;
        check_owner(owner, item, &what)?;
        Ok(text_of(item, "live_run").map(RunId::new))
    }
}

fn turn_put(record: &TurnRecord, now: Timestamp) -> Result<Write, StoreError> {
    Ok(Write {
        key: turn_key(&record.owner, &record.turn)?,
        action: Action::Put(encode_turn(record)),
        // TTL removes it days later: what has expired is free.
        condition: Condition::NotExistsOrAtMost(TAKEN_UNTIL, now.as_millis()),
    })
}
