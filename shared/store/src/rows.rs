//! The items of the table `runs`: a run's row, a thread, a turn.
//!
//! Attributes are native, one for each field, so that a person can read a row in the console, and so that a write
//! names only those that changed: what code of a later version added stays. The parts of `dispatch`, `counters`,
//! `totals` and `cost` are attributes too, for the same reason.

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::key::key_part;
use outlast_core::page::SCHEMA;
use outlast_core::{Owner, Run, RunId, StepKey, ThreadKey, Timestamp, TurnKey, WriteId};

use crate::schema::DUE_SHARDS;
use crate::store::{StoreError, Turn, TurnRecord};
use crate::table::{Item, Key, number, number_of, text, text_of};

const META: &str = "meta";
const RUN: &str = "run#";
/// Fields of a row that are structs: the prefix that their parts get as attributes, and those parts.
const FLATTENED: [(&str, &str, &[&str]); 4] = [
    ("dispatch", "dispatch_", &["stage", "attempts", "first_at", "error"]),
    (
        "counters",
        "",
        &["chunks", "crashes", "crashes_in_a_row", "committed_at_crash", "stalled"],
    ),
    ("totals", "", &["planned", "committed", "failed", "unknown", "released"]),
    (
        "cost",
        "",
        &["write_requests", "read_requests", "write_deci_units", "read_deci_units"],
    ),
];

pub(crate) fn run_key(id: &RunId) -> Result<Key, StoreError> {
    Ok(row(run_partition(id)?))
}

/// A question's answer: the first that is stored is the answer.
pub(crate) fn answer_key(id: &RunId, key: &StepKey) -> Result<Key, StoreError> {
    beside_run(id, format!("answer#{key}"))
}

/// An answer that came too late.
pub(crate) fn evidence_key(id: &RunId, key: &StepKey, write_id: &WriteId) -> Result<Key, StoreError> {
    beside_run(id, format!("evidence#{key}#{write_id}"))
}

fn beside_run(id: &RunId, sk: String) -> Result<Key, StoreError> {
    Ok(Key::Row {
        pk: run_partition(id)?,
        sk,
    })
}

/// A run's row and what stands beside it.
fn run_partition(id: &RunId) -> Result<String, StoreError> {
    Ok(format!("{RUN}{}", part("run", id.as_str())?))
}

pub(crate) fn thread_key(owner: &Owner, thread: &ThreadKey) -> Result<Key, StoreError> {
    let (owner, thread) = (part("owner", owner.as_str())?, part("thread", thread.as_str())?);
    Ok(row(format!("thread#{owner}#{thread}")))
}

pub(crate) fn turn_key(owner: &Owner, turn: &TurnKey) -> Result<Key, StoreError> {
    let (owner, turn) = (part("owner", owner.as_str())?, part("turn", turn.as_str())?);
    Ok(row(format!("turn#{owner}#{turn}")))
}

pub(crate) fn row(pk: String) -> Key {
    Key::Row { pk, sk: META.into() }
}

pub(crate) fn part(what: &str, name: &str) -> Result<String, StoreError> {
    key_part(name).map_err(|error| StoreError::Rejected(format!("the name of the {what} can't be a key: {error}")))
}

/// The run that an index's item points to.
pub(crate) fn run_id_of(item: &Item) -> Option<RunId> {
    RunId::parse(text_of(item, "pk")?.strip_prefix(RUN)?)
}

/// The due index's partition of a run: always the same one.
pub(crate) fn due_shard(id: &RunId) -> u8 {
    // FNV-1a: short, and the same in every version of everything.
    let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % u64::from(DUE_SHARDS)) as u8
}

pub(crate) fn due_shard_name(shard: u8) -> String {
    format!("due#{shard}")
}

/// A row as it is stored, without its key. What is `None` is absent.
pub(crate) fn encode_run(run: &Run) -> Result<Item, StoreError> {
    let fields: Item = serde_dynamo::to_item(run).map_err(|error| StoreError::Rejected(format!("the row: {error}")))?;
    let mut item = Item::with_capacity(fields.len() + 20);
    for (name, value) in fields {
        match value {
            AttributeValue::Null(_) => {}
            AttributeValue::M(parts) => {
                let flattened = FLATTENED.iter().find(|(field, ..)| *field == name);
                let prefix = flattened.map_or("", |(_, prefix, _)| prefix);
                let parts = parts.into_iter().filter(|(_, value)| !value.is_null());
                item.extend(parts.map(|(part, value)| (format!("{prefix}{part}"), value)));
            }
            value => {
                item.insert(name, value);
            }
        }
    }
    item.insert("schema".into(), number(SCHEMA));
    if run.due_at.is_some() {
        item.insert("due_shard".into(), text(due_shard_name(due_shard(&run.id))));
    }
    Ok(item)
}

pub(crate) fn decode_run(id: &RunId, mut item: Item) -> Result<Run, StoreError> {
    check_schema(&item, || format!("the row of run {id}"))?;
    for (field, prefix, parts) in FLATTENED {
        let parts = parts
            .iter()
            .filter_map(|part| Some((String::from(*part), item.remove(&format!("{prefix}{part}"))?)));
        let parts = parts.collect();
        item.insert(field.into(), AttributeValue::M(parts));
    }
    let run: Run =
        serde_dynamo::from_item(item).map_err(|error| StoreError::Corrupt(format!("the row of run {id}: {error}")))?;
    if run.id != *id {
        return Err(StoreError::Corrupt(format!(
            "the row of run {id} says that it is run {}",
            run.id
        )));
    }
    if !counts_on(&run) {
        let what = format!("the row of run {id} has a number that can't be");
        return Err(StoreError::Corrupt(what));
    }
    Ok(run)
}

/// No number that is counted on from is near the end of its type.
fn counts_on(run: &Run) -> bool {
    let (counters, cost) = (&run.counters, &run.cost);
    let counts = [
        run.version,
        run.epoch,
        run.dispatch.attempts,
        counters.chunks,
        counters.crashes,
        counters.crashes_in_a_row,
        counters.committed_at_crash,
        counters.stalled,
        run.answers,
        cost.write_requests,
        cost.read_requests,
        cost.write_deci_units,
        cost.read_deci_units,
    ];
    counts.iter().all(|count| *count <= u64::MAX / 2) && run.expires_at.is_none_or(|at| at.checked_mul(1000).is_some())
}

/// What code of a later schema wrote is left alone; what names no schema was not written by us.
pub(crate) fn check_schema(item: &Item, what: impl Fn() -> String) -> Result<(), StoreError> {
    match number_of::<u64>(item, "schema") {
        Some(schema) if schema > SCHEMA => Err(StoreError::UnknownSchema(schema)),
        Some(_) => Ok(()),
        None => Err(StoreError::Corrupt(format!("{} names no schema", what()))),
    }
}

/// What differs between two stored forms of a row.
pub(crate) fn difference(before: &Item, mut after: Item) -> (Vec<(String, AttributeValue)>, Vec<String>) {
    let remove = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .cloned()
        .collect();
    after.retain(|name, value| before.get(name) != Some(value));
    (after.into_iter().collect(), remove)
}

pub(crate) fn encode_turn(record: &TurnRecord) -> Item {
    Item::from([
        ("owner".into(), text(record.owner.as_str())),
        ("turn".into(), text(record.turn.as_str())),
        ("run_id".into(), text(record.run_id.as_str())),
        ("fingerprint".into(), text(&record.fingerprint)),
        (TAKEN_UNTIL.into(), number(record.expires_at.as_millis())),
        ("expires_at".into(), number(record.expires_at.as_ttl_seconds())),
        ("schema".into(), number(SCHEMA)),
    ])
}

/// A stop that came before any request.
pub(crate) fn encode_stopped_turn(owner: &Owner, turn: &TurnKey, taken_until: Timestamp) -> Item {
    Item::from([
        ("owner".into(), text(owner.as_str())),
        ("turn".into(), text(turn.as_str())),
        (STOPPED.into(), number(1)),
        (TAKEN_UNTIL.into(), number(taken_until.as_millis())),
        ("expires_at".into(), number(taken_until.as_ttl_seconds())),
        ("schema".into(), number(SCHEMA)),
    ])
}

/// Only a stopped turn has it.
pub(crate) const STOPPED: &str = "stopped";

/// Until when a turn is taken, in milliseconds; beside it TTL's seconds, which free nothing.
pub(crate) const TAKEN_UNTIL: &str = "taken_until";

/// And until when that is so.
pub(crate) fn decode_turn(owner: &Owner, turn: &TurnKey, item: &Item) -> Result<(Turn, Timestamp), StoreError> {
    check_schema(item, || format!("turn {turn}"))?;
    let corrupt = || StoreError::Corrupt(format!("the item of turn {turn}"));
    check_owner(owner, item, &format!("turn {turn}"))?;
    let expires_at = number_of(item, TAKEN_UNTIL).map(Timestamp::from_millis);
    let expires_at = expires_at.ok_or_else(corrupt)?;
    if item.contains_key(STOPPED) {
        return Ok((Turn::Stopped, expires_at));
    }
    let record = TurnRecord {
        owner: owner.clone(),
        turn: turn.clone(),
        run_id: RunId::new(text_of(item, "run_id").ok_or_else(corrupt)?),
        fingerprint: text_of(item, "fingerprint").ok_or_else(corrupt)?.to_owned(),
        expires_at,
    };
    Ok((Turn::Taken(record), expires_at))
}

pub(crate) fn check_owner(owner: &Owner, item: &Item, what: &str) -> Result<(), StoreError> {
    match text_of(item, "owner") {
        Some(stored) if stored == owner.as_str() => Ok(()),
        _ => Err(StoreError::Corrupt(format!(
            "{what} belongs to someone else than its key says"
        ))),
    }
}
