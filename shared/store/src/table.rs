//! The port: a handful of requests in DynamoDB's own terms. Every outcome that matters is a type.
//!
//! A condition that failed is an answer ([`Written::Refused`], [`Transacted::Refused`]) and carries the item that
//! stands there. What was not done, or perhaps done, is a [`Failure`].

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::meter::Meter;
use crate::schema::{Index, TableId};
use crate::store::StoreError;

/// An item's attributes by their names.
pub type Item = HashMap<String, AttributeValue>;

#[async_trait]
pub trait Table: Send + Sync {
    async fn get(&self, key: &Key, consistent: bool, meter: &Meter) -> Result<Option<Item>, Failure>;
    async fn write(&self, write: &Write, meter: &Meter) -> Result<Written, Failure>;
    /// All of them or none.
    async fn transact(&self, writes: &[Write], meter: &Meter) -> Result<Transacted, Failure>;
    async fn query(&self, query: &Query, meter: &Meter) -> Result<Answer, Failure>;
}

/// An item's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// In `runs`: `pk` and `sk`.
    Row { pk: String, sk: String },
    /// In `events`: `run_id` and `first_seq`.
    Page { run_id: String, first_seq: u64 },
}

impl Key {
    pub fn table(&self) -> TableId {
        match self {
            Key::Row { .. } => TableId::Runs,
            Key::Page { .. } => TableId::Events,
        }
    }

    /// The key's two attributes.
    pub fn attributes(&self) -> [(&'static str, AttributeValue); 2] {
        match self {
            Key::Row { pk, sk } => [
                ("pk", AttributeValue::S(pk.clone())),
                ("sk", AttributeValue::S(sk.clone())),
            ],
            Key::Page { run_id, first_seq } => [
                ("run_id", AttributeValue::S(run_id.clone())),
                ("first_seq", number(*first_seq)),
            ],
        }
    }
}

/// `runs/run#…/meta`, `events/…/7`: for logs and the fault script.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Row { pk, sk } => write!(f, "runs/{pk}/{sk}"),
            Key::Page { run_id, first_seq } => write!(f, "events/{run_id}/{first_seq}"),
        }
    }
}

/// One write. The key's attributes are not repeated in the action.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub key: Key,
    pub action: Action,
    pub condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The whole item, in the place of what stands there.
    Put(Item),
    /// The attributes named; all others stay.
    Update {
        set: Vec<(String, AttributeValue)>,
        remove: Vec<String>,
    },
    /// In a transaction: nothing, if the condition holds.
    Check,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// No item stands there.
    NotExists,
    /// The attribute `version` is this.
    VersionIs(u64),
    /// There is an item with this attribute.
    Has(&'static str),
    /// There is no item, or one without this attribute.
    Lacks(&'static str),
    /// The attribute is this text.
    Is(&'static str, String),
    /// There is no item, or the attribute is at most this number.
    NotExistsOrAtMost(&'static str, i64),
}

/// What one conditional write came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Done,
    /// The condition failed; the item that stands there, if one does.
    Refused(Option<Item>),
}

/// What a transaction came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Transacted {
    Done,
    /// At least one condition failed. A reason a write, in their order.
    Refused(Vec<Reason>),
}

/// Why one write of a transaction kept it from being done.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It did not.
    None,
    ConditionFailed(Option<Item>),
    /// Another transaction had hold of the item.
    Conflict,
    Throttled,
    /// Validation, item sizes.
    Other(String),
}

/// What a cancelled transaction means: a failed condition is a refusal, whatever else happened beside it; conflicts
/// and throttles alone say nothing of the conditions, and are to be tried again.
pub fn judge(reasons: Vec<Reason>) -> Result<Transacted, Failure> {
    let of = |wanted: fn(&Reason) -> bool| reasons.iter().any(wanted);
    if of(|reason| matches!(reason, Reason::ConditionFailed(_))) {
        return Ok(Transacted::Refused(reasons));
    }
    if let Some(Reason::Other(what)) = reasons.iter().find(|reason| matches!(reason, Reason::Other(_))) {
        return Err(Failure::Rejected(what.clone()));
    }
    if of(|reason| matches!(reason, Reason::Throttled)) {
        return Err(Failure::Throttled("a transaction was throttled".into()));
    }
    if of(|reason| matches!(reason, Reason::Conflict)) {
        return Err(Failure::Conflict("a transaction met another".into()));
    }
    Err(Failure::Unavailable(
        "a transaction was cancelled without a reason".into(),
    ))
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not done: too much at once.
    Throttled(String),
    /// Not done: another transaction had hold of an item. Says nothing of the condition.
    Conflict(String),
    /// Perhaps done: a timeout, a lost connection, a 5xx.
    Unavailable(String),
    /// Not done, and never will be as it is: validation, permission, a missing table.
    Rejected(String),
}

impl Failure {
    /// Whether the same request may go well later.
    pub fn may_pass(&self) -> bool {
        match self {
            Failure::Throttled(_) | Failure::Conflict(_) | Failure::Unavailable(_) => true,
            Failure::Rejected(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, what) = match self {
            Failure::Throttled(what) => ("throttled", what),
            Failure::Conflict(what) => ("conflict", what),
            Failure::Unavailable(what) => ("unavailable", what),
            Failure::Rejected(what) => ("rejected", what),
        };
        write!(f, "{kind}: {what}")
    }
}

/// For requests that nobody tries again here.
impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(what) => StoreError::Rejected(what),
            passing => StoreError::Unavailable(passing.to_string()),
        }
    }
}

/// Items of one partition of a table or an index, in the order of their range key.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub table: TableId,
    pub index: Option<Index>,
    pub hash: String,
    pub range: Range,
    pub reverse: bool,
    /// At most this many items.
    pub limit: Option<u32>,
    /// An index has no consistent reads.
    pub consistent: bool,
    /// The [`Answer::last_key`] of the query before.
    pub start: Option<Item>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    All,
    AtLeast(i64),
    AtMost(i64),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub items: Vec<Item>,
    /// There may be more, after this.
    pub last_key: Option<Item>,
}

/// The number of a number attribute.
pub fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A text attribute of an item.
pub fn text_of<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// A number attribute of an item, if it is a whole number that fits.
pub fn number_of<N: std::str::FromStr>(item: &Item, name: &str) -> Option<N> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r31_only_a_failed_condition_is_a_refusal() {
        use Reason::{ConditionFailed, Conflict, None as Fine, Other, Throttled};
        let refused = |reasons: Vec<Reason>| matches!(judge(reasons), Ok(Transacted::Refused(_)));
        assert!(refused(vec![ConditionFailed(None)]));
        assert!(refused(vec![Fine, ConditionFailed(Some(Item::new()))]));
        assert!(refused(vec![Conflict, ConditionFailed(None)]));
        assert!(refused(vec![ConditionFailed(None), Throttled, Conflict]));
        assert!(refused(vec![Other("x".into()), ConditionFailed(None)]));

        let failed = |reasons: Vec<Reason>| judge(reasons).unwrap_err();
        assert!(matches!(failed(vec![Fine, Conflict]), Failure::Conflict(_)));
        assert!(matches!(failed(vec![Throttled]), Failure::Throttled(_)));
        assert!(matches!(failed(vec![Conflict, Throttled]), Failure::Throttled(_)));
        assert!(matches!(failed(vec![Fine, Other("size".into())]), Failure::Rejected(_)));
        assert!(matches!(failed(vec![Fine, Fine]), Failure::Unavailable(_)));
        assert!(matches!(failed(vec![]), Failure::Unavailable(_)));
        assert!(failed(vec![Fine, Conflict]).may_pass() && failed(vec![Throttled]).may_pass());
        assert!(!failed(vec![Other("size".into())]).may_pass());
    }
}
