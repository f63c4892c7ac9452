//! Conditions, updates and key conditions as DynamoDB's expressions. Every name and value is a placeholder, so that
//! no attribute's name can meet a reserved word.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::schema::Keys;
use crate::table::{Condition, Item, Query, Range, number};

/// Placeholders, as they are handed out.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    pub names: HashMap<String, String>,
    pub values: HashMap<String, AttributeValue>,
}

impl Placeholders {
    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#n{}", self.names.len());
        self.names.insert(placeholder.clone(), name.into());
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// `None` where DynamoDB wants none.
    pub fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    pub fn values(&self) -> Option<Item> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}

pub(super) fn condition(condition: &Condition, hash: &str, with: &mut Placeholders) -> Option<String> {
    Some(match condition {
        Condition::Always => return None,
        Condition::NotExists => format!("attribute_not_exists({})", with.name(hash)),
        Condition::VersionIs(version) => format!("{} = {}", with.name("version"), with.value(number(*version))),
        Condition::Has(name) => format!("attribute_exists({})", with.name(name)),
        Condition::Lacks(name) => format!("attribute_not_exists({})", with.name(name)),
        Condition::Is(name, text) => {
            format!("{} = {}", with.name(name), with.value(AttributeValue::S(text.clone())))
        }
        Condition::NotExistsOrAtMost(name, most) => format!(
            "attribute_not_exists({}) OR {} <= {}",
            with.name(hash),
            with.name(name),
            with.value(number(*most))
        ),
    })
}

pub(super) fn update(set: &[(String, AttributeValue)], remove: &[String], with: &mut Placeholders) -> String {
    let assign = |(name, value): &(String, AttributeValue)| {
        let name = with.name(name);
        format!("{name} = {}", with.value(value.clone()))
    };
    let set: Vec<String> = set.iter().map(assign).collect();
    let remove: Vec<String> = remove.iter().map(|name| with.name(name)).collect();
    let clauses = [("SET", set), ("REMOVE", remove)];
    let clauses = clauses.iter().filter(|(_, parts)| !parts.is_empty());
    let clauses: Vec<String> = clauses
        .map(|(word, parts)| format!("{word} {}", parts.join(", ")))
        .collect();
    clauses.join(" ")
}

pub(super) fn key_condition(query: &Query, keys: Keys, with: &mut Placeholders) -> String {
    let hash = format!(
        "{} = {}",
        with.name(keys.hash.name),
        with.value(AttributeValue::S(query.hash.clone()))
    );
    let (operator, bound) = match query.range {
        Range::All => return hash,
        Range::AtLeast(bound) => (">=", bound),
        Range::AtMost(bound) => ("<=", bound),
    };
    format!(
        "{hash} AND {} {operator} {}",
        with.name(keys.range.name),
        with.value(number(bound))
    )
}
