//! Answers. Whoever settles a question, a caller from outside or the holder for whom its time has passed, puts the same
//! item: the first that lands is the answer, whether or not it is in the log yet.

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::outcome::ErrorInfo;
use outlast_core::page::SCHEMA;
use outlast_core::{Page, Payload, Run, RunId, StepKey, Timestamp, WriteId};

use super::runs::{decode_other, is_ours, landed, page_put, row_update};
use super::{AnswerRecord, AnswerWrite, Store, StoreError};
use crate::pages::encode_page;
use crate::rows::{answer_key, check_schema, evidence_key};
use crate::table::{Action, Condition, Item, Reason, Transacted, Write, number, number_of, text, text_of};

impl Store {
    /// One transaction: the row as [`Store::write_run`], the answer where none is, and the page, if there is one to write, where
    /// nothing stands.
    pub async fn write_answer(
        &self,
        before: &Run,
        after: &Run,
        record: &AnswerRecord,
        page: Option<&Page>,
    ) -> Result<AnswerWrite, StoreError> {
        let mut writes = vec![row_update(before, after)?, answer_put(after, record)?];
        if let Some(page) = page {
            let page = encode_page(page)?;
            self.put_parts(&page).await?;
            writes.push(page_put(page));
        }
        let reasons = match self.transact(&writes).await? {
            Transacted::Done => return Ok(AnswerWrite::Landed(landed(before, after))),
            Transacted::Refused(reasons) => reasons,
        };
        let mut reasons = reasons.into_iter();
        let (row, answer, page) = (reasons.next(), reasons.next(), reasons.next());
        // The answer never changes: it tells even if the row went on since.
        if let Some(Reason::ConditionFailed(stands)) = &answer
            && is_ours(stands.as_ref(), after)
        {
            return Ok(AnswerWrite::Landed(landed(before, after)));
        }
        if let Some(Reason::ConditionFailed(row)) = row {
            return Ok(AnswerWrite::RowChanged(decode_other(after, row)?));
        }
        if let Some(Reason::ConditionFailed(_)) = answer {
            return Ok(AnswerWrite::Taken);
        }
        match page {
            Some(Reason::ConditionFailed(_)) => Ok(AnswerWrite::TailMoved),
            _ => Err(StoreError::Unavailable(
                "a transaction was refused without a reason".into(),
            )),
        }
    }

    /// Consistent: the answer to this question, if it is stored.
    pub async fn stored_answer(&self, id: &RunId, key: &StepKey) -> Result<Option<AnswerRecord>, StoreError> {
        let item = self.get(&answer_key(id, key)?, true).await?;
        item.map(|item| decode_answer(id, key, &item)).transpose()
    }

    /// Keeps an answer that came too late: it changes nothing.
    pub async fn keep_evidence(&self, run: &Run, record: &AnswerRecord, write_id: &WriteId) -> Result<(), StoreError> {
        let write = Write {
            key: evidence_key(&run.id, &record.key, write_id)?,
            action: Action::Put(encode_answer(run, record, write_id)?),
            condition: Condition::Always,
        };
        self.write(&write).await.map(|_| ())
    }
}

fn answer_put(run: &Run, record: &AnswerRecord) -> Result<Write, StoreError> {
    Ok(Write {
        key: answer_key(&run.id, &record.key)?,
        action: Action::Put(encode_answer(run, record, &run.write_id)?),
        condition: Condition::NotExists,
    })
}

fn encode_answer(run: &Run, record: &AnswerRecord, write_id: &WriteId) -> Result<Item, StoreError> {
    let mut item = Item::from([
        ("owner".into(), text(run.owner.as_str())),
        ("expired".into(), AttributeValue::Bool(record.expired)),
        ("at".into(), number(record.at.as_millis())),
        ("write_id".into(), text(write_id.as_str())),
        ("schema".into(), number(SCHEMA)),
        // As long as the pages of its run.
        (
            "expires_at".into(),
            number((run.ends_at + outlast_core::limits::RETENTION).as_ttl_seconds()),
        ),
    ]);
    if let Some(value) = &record.value {
        item.insert("value".into(), text(value.as_str()));
    }
    if let Some(error) = &record.error {
        let error = serde_dynamo::to_attribute_value(error)
            .map_err(|error| StoreError::Rejected(format!("the answer: {error}")))?;
        item.insert("error".into(), error);
    }
    Ok(item)
}

fn decode_answer(id: &RunId, key: &StepKey, item: &Item) -> Result<AnswerRecord, StoreError> {
    let place = || format!("the answer to {key} of run {id}");
    check_schema(item, place)?;
    let corrupt = |what: String| StoreError::Corrupt(format!("{}: {what}", place()));
    let value = text_of(item, "value").map(Payload::parse).transpose();
    let error = item
        .get("error")
        .cloned()
        .map(serde_dynamo::from_attribute_value::<_, ErrorInfo>);
    Ok(AnswerRecord {
        key: key.clone(),
        value: value.map_err(|error| corrupt(error.to_string()))?,
        error: error.transpose().map_err(|error| corrupt(error.to_string()))?,
        expired: item.get("expired") == Some(&AttributeValue::Bool(true)),
        at: number_of(item, "at")
            .map(Timestamp::from_millis)
            .ok_or_else(|| corrupt("no time".into()))?,
    })
}
