//! API keys as they are stored: an item each, under the hash of the key.
//!
//! The item stands in the index `work` under one well-known name as long as the key is listed, so that all keys are found
//! by a query; and it has no attribute `created_at`, which would put it among its owner's runs in `by_owner`.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::key::key_part;
use outlast_core::page::SCHEMA;
use outlast_core::{Owner, Scopes, Timestamp};

use crate::rows::{check_schema, part, row};
use crate::schema::Index;
use crate::store::StoreError;
use crate::table::{Item, Key, number, number_of, text, text_of};

/// In the index `work`: the list of keys.
pub(crate) const LIST: &str = "keys";
const KEY: &str = "key#";
/// How long the item of a key that is good no more is kept: to see whose it was.
const KEPT_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What is known of a key: all but the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// SHA-256 of the key, in hex.
    pub hash: String,
    pub owner: Owner,
    pub scopes: Scopes,
    pub label: Option<String>,
    /// The key's first characters.
    pub begins: String,
    pub made_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

impl KeyRecord {
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

pub(crate) fn api_key_key(hash: &str) -> Result<Key, StoreError> {
    Ok(row(format!("{KEY}{}", part("key", hash)?)))
}

/// The hash of the key that an index's item points to.
pub(crate) fn hash_of(item: &Item) -> Option<&str> {
    text_of(item, "pk")?.strip_prefix(KEY)
}

pub(crate) fn encode(record: &KeyRecord) -> Result<Item, StoreError> {
    // An owner that could not be part of a key could have no runs.
    part("owner", record.owner.as_str())?;
    let scopes = record.scopes.iter().map(|scope| text(scope.as_str())).collect();
    let [list, rank] = listed();
    let mut item = Item::from([
        ("owner".into(), text(record.owner.as_str())),
        ("scopes".into(), AttributeValue::L(scopes)),
        ("begins".into(), text(&record.begins)),
        ("made_at".into(), number(record.made_at.as_millis())),
        (list.into(), text(LIST)),
        (rank.into(), number(record.made_at.as_millis())),
        ("schema".into(), number(SCHEMA)),
    ]);
    item.extend(record.label.as_ref().map(|label| ("label".into(), text(label))));
    if let Some(at) = record.expires_at {
        item.insert("good_until".into(), number(at.as_millis()));
        item.insert("expires_at".into(), number((at + KEPT_AFTER).as_ttl_seconds()));
    }
    Ok(item)
}

const REMOVED: &str = "removed_at";

/// `None`: it was removed.
pub(crate) fn decode(hash: &str, item: &Item) -> Result<Option<KeyRecord>, StoreError> {
    let begins = text_of(item, "begins").unwrap_or_default();
    let what = || format!("the item of key {begins}…");
    check_schema(item, what)?;
    if item.contains_key(REMOVED) {
        return Ok(None);
    }
    let corrupt = || StoreError::Corrupt(what());
    let owner = text_of(item, "owner").filter(|owner| key_part(owner).is_ok());
    let scopes = item.get("scopes").and_then(|scopes| scopes.as_l().ok());
    // A scope that this code doesn't know lets nobody do anything that it knows.
    let known = |scope: &AttributeValue| scope.as_s().ok()?.parse().ok();
    let expires_at = match item.get("good_until") {
        Some(_) => Some(number_of(item, "good_until").ok_or_else(corrupt)?),
        None => None,
    };
    Ok(Some(KeyRecord {
        hash: hash.to_owned(),
        owner: Owner::new(owner.ok_or_else(corrupt)?),
        scopes: scopes.ok_or_else(corrupt)?.iter().filter_map(known).collect(),
        label: text_of(item, "label").map(str::to_owned),
        begins: begins.to_owned(),
        made_at: Timestamp::from_millis(number_of(item, "made_at").ok_or_else(corrupt)?),
        expires_at: expires_at.map(Timestamp::from_millis),
    }))
}

/// What a removal changes: the item stays for a while, off the list.
pub(crate) fn removal(now: Timestamp) -> (Vec<(String, AttributeValue)>, Vec<String>) {
    let set = vec![
        (REMOVED.into(), number(now.as_millis())),
        ("expires_at".into(), number((now + KEPT_AFTER).as_ttl_seconds())),
    ];
    (set, listed().map(String::from).into())
}

/// Whether what stands there is what that removal made.
pub(crate) fn was_removed_at(item: &Item, now: Timestamp) -> bool {
    number_of(item, REMOVED) == Some(now.as_millis())
}

/// The attributes that put an item into the list.
fn listed() -> [&'static str; 2] {
    let keys = Index::Work.keys();
    [keys.hash.name, keys.range.name]
}
