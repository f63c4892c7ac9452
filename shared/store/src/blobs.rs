//! Payloads that don't fit into their page: stored in parts before it, named by it, put back when it is read.
//!
//! In the place of the payload's text the page has a map: the SHA-256 of the text, its size, and which parts of
//! `<run>#blob#<write id>` hold it. Payloads leave their page only if it would be too large with them, the largest
//! first: a page that fits costs one request to write and one to read.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::digest::sha256_hex;
use outlast_core::event::PAYLOAD_FIELDS;
use outlast_core::limits::BLOB_PART_BYTES;
use outlast_core::page::SCHEMA;
use outlast_core::{RunId, WriteId};

use crate::rows::part;
use crate::store::StoreError;
use crate::table::{Item, Key, number, number_of, text, text_of};

/// An event as a page holds it.
pub(crate) type StoredEvent = HashMap<String, AttributeValue>;
/// The texts of a page's parts, by their number from 1.
pub(crate) type Parts = BTreeMap<u64, String>;

/// The partition of a page's parts.
pub(crate) fn partition(run_id: &RunId, write_id: &str) -> Result<String, StoreError> {
    Ok(format!(
        "{}#blob#{}",
        part("run", run_id.as_str())?,
        part("write", write_id)?
    ))
}

/// A part's item, without its key.
fn part_item(content: &str, expires_at: i64) -> Item {
    Item::from([
        ("text".into(), text(content)),
        ("expires_at".into(), number(expires_at)),
        ("schema".into(), number(SCHEMA)),
    ])
}

/// The parts of one page, as they are collected.
pub(crate) struct Collected {
    partition: String,
    expires_at: i64,
    pub parts: Vec<(Key, Item)>,
}

impl Collected {
    pub fn new(run_id: &RunId, write_id: &WriteId, expires_at: i64) -> Result<Self, StoreError> {
        Ok(Self {
            partition: partition(run_id, write_id.as_str())?,
            expires_at,
            parts: vec![],
        })
    }

    /// Cuts a payload into parts; gives what the page holds in its place.
    pub fn take(&mut self, payload: &str) -> AttributeValue {
        let first = self.parts.len() as u64 + 1;
        for content in cut(payload, BLOB_PART_BYTES) {
            let key = Key::Page {
                run_id: self.partition.clone(),
                first_seq: self.parts.len() as u64 + 1,
            };
            self.parts.push((key, part_item(content, self.expires_at)));
        }
        AttributeValue::M(HashMap::from([
            ("digest".into(), text(sha256_hex(payload.as_bytes()))),
            ("bytes".into(), number(payload.len() as u64)),
            ("first_part".into(), number(first)),
            ("parts".into(), number(self.parts.len() as u64 + 1 - first)),
        ]))
    }
}

/// Pieces of at most `most` bytes, between characters.
fn cut(mut content: &str, most: usize) -> Vec<&str> {
    let mut pieces = vec![];
    while content.len() > most {
        let end = (0..=most)
            .rev()
            .find(|at| content.is_char_boundary(*at))
            .unwrap_or(most);
        let (piece, rest) = content.split_at(end);
        pieces.push(piece);
        content = rest;
    }
    pieces.push(content);
    pieces
}

/// Whether this event's payloads are stored apart.
pub(crate) fn is_apart(event: &StoredEvent) -> bool {
    PAYLOAD_FIELDS
        .iter()
        .any(|field| matches!(event.get(*field), Some(AttributeValue::M(_))))
}

/// Collects what a query of a partition of parts brought.
pub(crate) fn collect(items: Vec<Item>, parts: &mut Parts) {
    for mut item in items {
        let number = number_of(&item, "first_seq");
        if let (Some(number), Some(AttributeValue::S(content))) = (number, item.remove("text")) {
            parts.insert(number, content);
        }
    }
}

/// Puts an event's payloads back into it. Says what is wrong if they can't be what was taken out.
pub(crate) fn restore(event: &mut StoredEvent, parts: &Parts) -> Result<(), String> {
    for field in PAYLOAD_FIELDS {
        let Some(AttributeValue::M(named)) = event.get(field) else {
            continue;
        };
        let payload = assemble(named, parts).map_err(|what| format!("{field}: {what}"))?;
        event.insert(field.into(), AttributeValue::S(payload));
    }
    Ok(())
}

fn assemble(named: &Item, parts: &Parts) -> Result<String, String> {
    let expected = |name: &str| number_of::<u64>(named, name).ok_or_else(|| format!("no {name} is named"));
    let (first, count, bytes) = (expected("first_part")?, expected("parts")?, expected("bytes")?);
    let digest = text_of(named, "digest").ok_or("no digest is named")?;
    let found: Vec<&str> = parts
        .range(first..first.saturating_add(count))
        .map(|(_, content)| content.as_str())
        .collect();
    if found.len() as u64 != count {
        return Err(format!("{} of {count} parts are there", found.len()));
    }
    let payload = found.concat();
    if payload.len() as u64 != bytes {
        return Err(format!("the parts have {} bytes, not {bytes}", payload.len()));
    }
    if sha256_hex(payload.as_bytes()) != digest {
        return Err("the parts don't have the digest that the page names".into());
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_between_characters() {
        let content = "🙂".repeat(10);
        for most in 4..41 {
            let pieces = cut(&content, most);
            assert_eq!(pieces.concat(), content);
            assert!(pieces.iter().all(|piece| piece.len() <= most), "{most}");
        }
        assert_eq!(cut("abc", 3), ["abc"]);
        assert_eq!(cut("", 3), [""]);
    }
}
