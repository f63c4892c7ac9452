//! Queries of a table or an index.

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;

use super::Items;
use crate::schema::{Keys, TableId};
use crate::size::item_bytes;
use crate::table::{Answer, Item, Key, Query, Range, number_of, text_of};

/// Where an item stands in a query's order: its range key, then its table's key.
type Place = (i64, Key);

/// The answer, and the bytes that were read for it.
pub(super) fn answer(items: &Items, query: &Query, page_bytes: usize) -> (Answer, usize) {
    let keys = query.index.map_or(query.table.keys(), |index| index.keys());
    let mut found: Vec<(Place, &Arc<Item>)> = candidates(items, query)
        .filter(|(_, item)| text_of(item, keys.hash.name) == Some(&query.hash))
        .filter_map(|(key, item)| Some(((number_of(item, keys.range.name)?, key.clone()), item)))
        .filter(|((range, _), _)| match query.range {
            Range::All => true,
            Range::AtLeast(bound) => *range >= bound,
            Range::AtMost(bound) => *range <= bound,
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    if query.reverse {
        found.reverse();
    }
    if let Some(start) = query.start.as_ref().and_then(|start| place(start, query, keys)) {
        let is_past = |place: &Place| if query.reverse { *place < start } else { *place > start };
        found.retain(|(place, _)| is_past(place));
    }
    let (mut answer, mut bytes) = (Answer::default(), 0);
    for ((_, key), item) in found {
        let item = match query.index {
            Some(_) => only_keys(key.attributes(), item, keys),
            None => Item::clone(item),
        };
        let size = item_bytes(&item);
        let is_full = bytes + size > page_bytes && !answer.items.is_empty();
        if is_full {
            answer.last_key = answer.items.last().map(|last| last_key(last, query, keys));
            break;
        }
        bytes += size;
        answer.items.push(item);
        // As DynamoDB does: at the limit it doesn't look whether there is more.
        if query.limit.is_some_and(|limit| answer.items.len() >= limit as usize) {
            answer.last_key = answer.items.last().map(|last| last_key(last, query, keys));
            break;
        }
    }
    (answer, bytes)
}

/// A table's partition; for an index everything in the table.
fn candidates<'a>(items: &'a Items, query: &Query) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Item>)> + 'a> {
    let hash = query.hash.clone();
    match (query.index, query.table) {
        (None, TableId::Events) => {
            let first = Key::Page {
                run_id: hash.clone(),
                first_seq: 0,
            };
            let is_in = move |key: &Key| matches!(key, Key::Page { run_id, .. } if *run_id == hash);
            Box::new(items.range(first..).take_while(move |(key, _)| is_in(key)))
        }
        (_, table) => Box::new(items.iter().filter(move |(key, _)| key.table() == table)),
    }
}

fn place(start: &Item, query: &Query, keys: Keys) -> Option<Place> {
    let key = match query.table {
        TableId::Runs => Key::Row {
            pk: text_of(start, "pk")?.into(),
            sk: text_of(start, "sk")?.into(),
        },
        TableId::Events => Key::Page {
            run_id: text_of(start, "run_id")?.into(),
            first_seq: number_of(start, "first_seq")?,
        },
    };
    Some((number_of(start, keys.range.name)?, key))
}

fn last_key(item: &Item, query: &Query, keys: Keys) -> Item {
    let table = query.table.keys();
    let names = [table.hash.name, table.range.name, keys.hash.name, keys.range.name];
    let named = names
        .iter()
        .filter_map(|name| Some((String::from(*name), item.get(*name)?.clone())));
    named.collect()
}

fn only_keys(key: [(&str, AttributeValue); 2], item: &Item, keys: Keys) -> Item {
    let mut projected: Item = key.map(|(name, value)| (name.to_owned(), value)).into();
    for name in [keys.hash.name, keys.range.name] {
        projected.extend(item.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    projected
}
