//! The log for readers: from what is stored, without knowing every kind of event. What can't be read becomes one
//! event that says so, and does not keep the rest from its readers.

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::RunId;
use outlast_core::event::wire_object;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::log::{at_most, pages_from};
use super::{CORRUPT, Store, StoreError, WireEvent, WireSlice};
use crate::blobs::{self, Parts};
use crate::pages::{first_seq_of, last_seq_of};
use crate::rows::check_schema;
use crate::table::{Item, Range, number_of};

impl Store {
    /// One request's worth of events of pages whose first seq is at least `first_seq`, in order.
    pub async fn read_wire_events(
        &self,
        id: &RunId,
        first_seq: u64,
        consistent: bool,
    ) -> Result<WireSlice, StoreError> {
        let answer = self.query(&pages_from(id, first_seq, consistent)?).await?;
        let starts: Vec<Option<u64>> = answer.items.iter().map(first_seq_of).collect();
        let mut events = Vec::with_capacity(answer.items.len());
        for (index, item) in answer.items.into_iter().enumerate() {
            if let Err(newer @ StoreError::UnknownSchema(_)) = check_schema(&item, String::new) {
                return Err(newer);
            }
            let parts = match self.parts_of_page(id, &item).await {
                Ok(parts) => parts,
                Err(StoreError::Rejected(_)) => Parts::new(),
                Err(error) => return Err(error),
            };
            let before_next = starts
                .get(index + 1)
                .copied()
                .flatten()
                .map(|next| next.saturating_sub(1));
            let from = events.len();
            page_events(item, &parts, before_next, consistent, &mut events);
            for event in events[from..].iter().filter(|event| event.kind == CORRUPT) {
                warn!(run = %id, event = event.json, "a part of a log can't be read");
            }
        }
        let next = answer
            .last_key
            .and_then(|last| events.last().map(|event| event.seq).or(first_seq_of(&last)));
        Ok(WireSlice {
            events,
            next: next.map(|seq| seq + 1),
        })
    }

    /// Where the page begins that holds `seq`: the greatest first seq at or before it. The page itself may be
    /// unreadable.
    pub async fn page_start(&self, id: &RunId, seq: u64, consistent: bool) -> Result<Option<u64>, StoreError> {
        let item = self.last_item(id, at_most(seq), consistent).await?;
        Ok(item.as_ref().and_then(first_seq_of))
    }

    /// Consistent: the log's last seq, 0 if there is no page. The last page itself may be unreadable.
    pub async fn last_seq(&self, id: &RunId) -> Result<u64, StoreError> {
        let item = self.last_item(id, Range::All, true).await?;
        Ok(item.map_or(0, |item| last_seq_of(&item).or(first_seq_of(&item)).unwrap_or_default()))
    }
}

/// The events of a page. `before_next` is the seq before the next page that was read, if one was.
fn page_events(mut item: Item, parts: &Parts, before_next: Option<u64>, consistent: bool, events: &mut Vec<WireEvent>) {
    let first_seq = first_seq_of(&item).unwrap_or_default();
    let ended = item.get("ended") == Some(&AttributeValue::Bool(true));
    let said_last = last_seq_of(&item).map(|last| before_next.map_or(last, |before| last.min(before)));
    let stored = match item.remove("events") {
        Some(AttributeValue::L(stored)) if !stored.is_empty() => stored,
        _ => {
            // If it doesn't say how far it goes: to the next page, unless one between may be unseen as yet.
            let last = said_last.or(before_next.filter(|_| consistent)).unwrap_or(first_seq);
            events.push(placeholder(first_seq, last, ended, "a page without a list of events"));
            return;
        }
    };
    let stored_last = first_seq + stored.len() as u64 - 1;
    let lacking = said_last.filter(|last| *last > stored_last);
    for (event, seq) in stored.into_iter().zip(first_seq..) {
        let ends = ended && seq == stored_last && lacking.is_none();
        let event = wire_event(event, seq, ends, parts);
        events.push(event.unwrap_or_else(|what| placeholder(seq, seq, ends, &what)));
    }
    if let Some(last) = lacking {
        events.push(placeholder(stored_last + 1, last, ended, "a page that lacks events"));
    }
}

fn wire_event(event: AttributeValue, seq: u64, ends: bool, parts: &Parts) -> Result<WireEvent, String> {
    let AttributeValue::M(mut stored) = event else {
        return Err("it is no map".into());
    };
    if number_of(&stored, "seq") != Some(seq) {
        return Err("it has another seq than its place".into());
    }
    blobs::restore(&mut stored, parts)?;
    let mut fields = Map::new();
    for (name, value) in stored {
        fields.insert(name, plain(value)?);
    }
    let kind = fields
        .get("type")
        .and_then(Value::as_str)
        .ok_or("it has no type")?
        .to_owned();
    Ok(WireEvent {
        first_seq: seq,
        seq,
        terminal: ends || is_terminal(&kind),
        json: wire_object(&fields)?,
        kind,
    })
}

fn is_terminal(kind: &str) -> bool {
    matches!(
        kind,
        "run.completed" | "run.incomplete" | "run.failed" | "run.cancelled"
    )
}

fn plain(value: AttributeValue) -> Result<Value, String> {
    Ok(match value {
        AttributeValue::S(text) => Value::String(text),
        AttributeValue::N(number) => Value::Number(number.parse().map_err(|_| format!("a number {number}"))?),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(values) => Value::Array(values.into_iter().map(plain).collect::<Result<_, _>>()?),
        AttributeValue::M(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Ok((name, plain(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => return Err(format!("a value that no event has: {other:?}")),
    })
}

fn placeholder(first: u64, last: u64, ends: bool, what: &str) -> WireEvent {
    let json = json!({"type": CORRUPT, "seq": last, "first_seq": first, "last_seq": last, "message": what});
    WireEvent {
        first_seq: first,
        seq: last,
        kind: CORRUPT.into(),
        terminal: ends,
        json: json.to_string(),
    }
}
