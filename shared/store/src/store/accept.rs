//! A run's beginning: thread, turn, row and first page in one transaction.

use outlast_core::{Owner, RunId, ThreadKey, Timestamp, TurnKey};

use super::runs::{has_landed, page_put, take_thread};
use super::{Acceptance, Accepted, Store, StoreError, Turn, TurnRecord};
use crate::pages::encode_page;
use crate::rows::{
    STOPPED, TAKEN_UNTIL, check_owner, check_schema, decode_turn, encode_run, encode_stopped_turn, encode_turn,
    run_key, thread_key, turn_key,
};
use crate::table::{Action, Condition, Item, Reason, Transacted, Write, Written, text_of};

impl Store {
    /// All of it in one transaction, or nothing. The same acceptance again has landed.
    pub async fn accept(&self, acceptance: &Acceptance, now: Timestamp) -> Result<Accepted, StoreError> {
        let run = &acceptance.run;
        let page = encode_page(&acceptance.page)?;
        self.put_parts(&page).await?;
        let row = Write {
            key: run_key(&run.id)?,
            action: Action::Put(encode_run(run)?),
            condition: Condition::NotExists,
        };
        let is_live = !run.status.is_terminal();
        let mut writes = vec![row, page_put(page)];
        if is_live {
            writes.push(take_thread(run)?);
        }
        let turn_at = writes.len();
        if let Some(record) = &acceptance.turn {
            writes.push(turn_put(record, is_live, now)?);
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
        if has_landed(&writes[1], stands(1))
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
            let turn = match stands(turn_at) {
                Some(item) => Some(decode_turn(&record.owner, &record.turn, item)?.0),
                None => self.turn(&record.owner, &record.turn, now).await?,
            };
            match turn {
                Some(Turn::Taken(taken)) => return Ok(Accepted::TurnTaken(taken)),
                Some(Turn::Stopped) if is_live => return Ok(Accepted::TurnStopped),
                Some(Turn::Stopped) | None => {}
            }
        }
        let thread = is_live.then(|| stands(2)).flatten();
        match self.thread_holder(&run.owner, &run.thread, thread).await? {
            Some(live_run) if is_live => Ok(Accepted::ThreadBusy(live_run)),
            // It was, and is free again by now; or the turn has been given back in between.
            Some(_) | None => Err(StoreError::Unavailable(
                "the thread or the turn changed meanwhile; try again".into(),
            )),
        }
    }

    /// Consistent. What has expired is not there.
    pub async fn turn(&self, owner: &Owner, turn: &TurnKey, now: Timestamp) -> Result<Option<Turn>, StoreError> {
        let Some(item) = self.get(&turn_key(owner, turn)?, true).await? else {
            return Ok(None);
        };
        let (turn, expires_at) = decode_turn(owner, turn, &item)?;
        Ok((expires_at > now).then_some(turn))
    }

    /// Stops a turn that no request has taken. `Some`: one has, and this is it.
    pub async fn stop_turn(
        &self,
        owner: &Owner,
        turn: &TurnKey,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let write = Write {
            key: turn_key(owner, turn)?,
            action: Action::Put(encode_stopped_turn(owner, turn, until)),
            condition: Condition::NotExistsOrAtMost(TAKEN_UNTIL, now.as_millis()),
        };
        let stands = match self.write(&write).await? {
            Written::Done => return Ok(None),
            Written::Refused(stands) => stands,
        };
        // It stands there; if the table doesn't show it, it has gone meanwhile and the caller asks again.
        let item = stands.ok_or_else(|| StoreError::Unavailable("the turn changed meanwhile; try again".into()))?;
        match decode_turn(owner, turn, &item)?.0 {
            Turn::Taken(record) => Ok(Some(record)),
            Turn::Stopped => Ok(None),
        }
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

fn turn_put(record: &TurnRecord, is_live: bool, now: Timestamp) -> Result<Write, StoreError> {
    Ok(Write {
        key: turn_key(&record.owner, &record.turn)?,
        action: Action::Put(encode_turn(record)),
        condition: match is_live {
            // TTL removes it days later: what has expired is free.
            true => Condition::NotExistsOrAtMost(TAKEN_UNTIL, now.as_millis()),
            false => Condition::Has(STOPPED),
        },
    })
}
