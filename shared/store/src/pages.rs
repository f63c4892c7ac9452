//! The items of the table `events`: pages.

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::event::{EventBody, PAYLOAD_FIELDS, wire_json};
use outlast_core::limits::{MAX_EVENT_BYTES, MAX_PAGE_BYTES, MAX_PLAN_BYTES, MAX_RUN_VALUE_BYTES};
use outlast_core::page::SCHEMA;
use outlast_core::run::Totals;
use outlast_core::{Event, Page, RunId, WriteId, Writer};
use serde::Serialize;

use crate::blobs::{self, Collected, Parts, StoredEvent};
use crate::rows::{check_schema, part};
use crate::size::{item_bytes, value_bytes};
use crate::store::StoreError;
use crate::table::{Item, Key, number, number_of, text, text_of};

/// A payload smaller than this stays in its page: what would stand in its place is not much smaller.
const LEAST_APART: usize = 1024;

/// A page, ready to be put.
pub(crate) struct StoredPage {
    pub key: Key,
    /// Without the key.
    pub item: Item,
    /// To be put first.
    pub parts: Vec<(Key, Item)>,
}

/// The partition of a run's pages.
pub(crate) fn partition(run_id: &RunId) -> Result<String, StoreError> {
    part("run", run_id.as_str())
}

pub(crate) fn encode_page(page: &Page) -> Result<StoredPage, StoreError> {
    let key = Key::Page {
        run_id: partition(&page.run_id)?,
        first_seq: page.first_seq(),
    };
    if page.first_seq() == 0 {
        return Err(StoreError::Rejected("a page without events, or before seq 1".into()));
    }
    let mut events = page.events.iter().map(encode_event).collect::<Result<Vec<_>, _>>()?;
    let mut item = Item::from([
        ("last_seq".into(), number(page.last_seq())),
        ("epoch".into(), number(page.epoch)),
        ("writer".into(), attribute(&page.writer)?),
        ("write_id".into(), text(page.write_id.as_str())),
        ("totals".into(), attribute(&page.totals)?),
        ("ended".into(), AttributeValue::Bool(page.is_ended())),
        ("schema".into(), number(SCHEMA)),
        ("expires_at".into(), number(page.expires_at)),
    ]);
    let mut apart = Collected::new(&page.run_id, &page.write_id, page.expires_at)?;
    make_room(&mut events, item_bytes(&item), &mut apart)?;
    let events = events.into_iter().map(AttributeValue::M).collect();
    item.insert("events".into(), AttributeValue::L(events));
    Ok(StoredPage {
        key,
        item,
        parts: apart.parts,
    })
}

fn attribute(value: &impl Serialize) -> Result<AttributeValue, StoreError> {
    serde_dynamo::to_attribute_value(value).map_err(|error| StoreError::Rejected(format!("the page: {error}")))
}

fn encode_event(event: &Event) -> Result<StoredEvent, StoreError> {
    let AttributeValue::M(fields) = attribute(event)? else {
        return Err(StoreError::Rejected("an event that is no map".into()));
    };
    check_size(event, &fields)?;
    Ok(fields)
}

/// An event is refused before anything of it is written.
fn check_size(event: &Event, fields: &StoredEvent) -> Result<(), StoreError> {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum();
    // Most events by far: not worth a look. JSON takes at most six bytes for a byte of text.
    if bytes <= MAX_EVENT_BYTES / 6 {
        return Ok(());
    }
    let limited = |what: &str, payload: usize, most: usize| {
        if payload > most {
            let seq = event.seq;
            return Err(StoreError::TooLarge(format!(
                "{what} of event {seq} has {payload} bytes; at most {most}"
            )));
        }
        Ok(payload)
    };
    let apart = match &event.body {
        EventBody::RunAccepted { input, .. } => limited("the input", input.len(), MAX_RUN_VALUE_BYTES)?,
        EventBody::PlanDeclared { keys } => limited("the plan", keys.len(), MAX_PLAN_BYTES)?,
        EventBody::RunCompleted(outcome)
        | EventBody::RunIncomplete(outcome)
        | EventBody::RunFailed(outcome)
        | EventBody::RunCancelled(outcome) => {
            let value = outcome.value.as_ref().map_or(0, |value| value.len());
            limited("the value", value, MAX_RUN_VALUE_BYTES)?
        }
        _ => 0,
    };
    limited(
        "the JSON",
        wire_json(event).len().saturating_sub(apart),
        MAX_EVENT_BYTES,
    )
    .map(|_| ())
}

/// Takes payloads out until the page fits, the largest first.
fn make_room(events: &mut [StoredEvent], beside: usize, apart: &mut Collected) -> Result<(), StoreError> {
    // The list and its maps: as `value_bytes` counts them; and the key.
    let mut bytes = beside
        + 128
        + events
            .iter()
            .map(|event| 8 + item_bytes(event) + event.len())
            .sum::<usize>();
    if bytes <= MAX_PAGE_BYTES {
        return Ok(());
    }
    let mut payloads: Vec<(usize, usize, &str)> = vec![];
    for (index, event) in events.iter().enumerate() {
        for field in PAYLOAD_FIELDS {
            if let Some(AttributeValue::S(payload)) = event.get(field) {
                payloads.push((payload.len(), index, field));
            }
        }
    }
    payloads.sort_unstable_by(|one, other| other.cmp(one));
    for (length, index, field) in payloads {
        if bytes <= MAX_PAGE_BYTES || length < LEAST_APART {
            break;
        }
        let Some(AttributeValue::S(payload)) = events[index].remove(field) else {
            continue;
        };
        let named = apart.take(&payload);
        bytes = bytes - length + value_bytes(&named);
        events[index].insert(field.into(), named);
    }
    if bytes > MAX_PAGE_BYTES {
        return Err(StoreError::TooLarge(format!(
            "a page of {bytes} bytes; at most {MAX_PAGE_BYTES}"
        )));
    }
    Ok(())
}

/// The same page as was to be put: by its write id, and to the byte.
pub(crate) fn is_same(stored: &Item, ours: &Item) -> bool {
    ["write_id", "last_seq", "epoch", "totals", "events"]
        .iter()
        .all(|name| stored.get(*name) == ours.get(*name))
}

/// Whether reading this page takes the parts beside it, and those of which write.
pub(crate) fn parts_of(item: &Item) -> Option<&str> {
    let AttributeValue::L(events) = item.get("events")? else {
        return None;
    };
    let apart = |event: &AttributeValue| event.as_m().is_ok_and(blobs::is_apart);
    events.iter().any(apart).then(|| text_of(item, "write_id"))?
}

/// No seq comes near it; what is stored may be anything.
const LARGEST_SEQ: u64 = 1 << 53;

pub(crate) fn first_seq_of(item: &Item) -> Option<u64> {
    number_of(item, "first_seq").filter(|first| *first <= LARGEST_SEQ)
}

/// As the page says it, if it can be: an event takes some bytes of a page.
pub(crate) fn last_seq_of(item: &Item) -> Option<u64> {
    let first = first_seq_of(item)?;
    let most = first + MAX_PAGE_BYTES as u64;
    number_of(item, "last_seq").filter(|last| (first..most).contains(last))
}

pub(crate) fn decode_page(run_id: &RunId, mut item: Item, parts: &Parts) -> Result<Page, StoreError> {
    let first_seq = first_seq_of(&item).unwrap_or_default();
    let place = || format!("the page of run {run_id} at seq {first_seq}");
    check_schema(&item, place)?;
    decode(run_id, first_seq, &mut item, parts).map_err(|what| StoreError::Corrupt(format!("{}: {what}", place())))
}

fn decode(run_id: &RunId, first_seq: u64, item: &mut Item, parts: &Parts) -> Result<Page, String> {
    let Some(AttributeValue::L(stored)) = item.remove("events") else {
        return Err("no list of events".into());
    };
    let mut events = Vec::with_capacity(stored.len());
    for (event, seq) in stored.into_iter().zip(first_seq..) {
        events.push(decode_event(event, seq, parts).map_err(|what| format!("event {seq}: {what}"))?);
    }
    let page = Page {
        run_id: run_id.clone(),
        epoch: number_of(item, "epoch").ok_or("no epoch")?,
        writer: take::<Writer>(item, "writer")?,
        write_id: WriteId::new(text_of(item, "write_id").ok_or("no write id")?),
        events,
        totals: take::<Totals>(item, "totals")?,
        expires_at: number_of(item, "expires_at").ok_or("no time to expire")?,
    };
    if page.events.is_empty() {
        return Err("no events".into());
    }
    if number_of(item, "last_seq") != Some(page.last_seq()) {
        return Err(format!("its last event is not {}", page.last_seq()));
    }
    if item.get("ended") != Some(&AttributeValue::Bool(page.is_ended())) {
        return Err("it doesn't say rightly whether it ends the run".into());
    }
    Ok(page)
}

fn decode_event(event: AttributeValue, seq: u64, parts: &Parts) -> Result<Event, String> {
    let AttributeValue::M(mut fields) = event else {
        return Err("it is no map".into());
    };
    blobs::restore(&mut fields, parts)?;
    let event: Event = serde_dynamo::from_item(fields).map_err(|error| error.to_string())?;
    if event.seq != seq {
        return Err(format!("it says that it is event {}", event.seq));
    }
    Ok(event)
}

fn take<T: serde::de::DeserializeOwned>(item: &mut Item, name: &str) -> Result<T, String> {
    let value = item.remove(name).ok_or_else(|| format!("no {name}"))?;
    serde_dynamo::from_attribute_value(value).map_err(|error| format!("{name}: {error}"))
}
