//! Conditions and updates of one item.

use crate::table::{Action, Condition, Item, Write, number_of, text_of};

pub(super) fn holds(condition: &Condition, stands: Option<&Item>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::NotExists => stands.is_none(),
        Condition::VersionIs(version) => stands.and_then(|item| number_of(item, "version")) == Some(*version),
        Condition::Has(name) => stands.is_some_and(|item| item.contains_key(*name)),
        Condition::Lacks(name) => stands.is_none_or(|item| !item.contains_key(*name)),
        Condition::Is(name, text) => stands.and_then(|item| text_of(item, name)) == Some(text.as_str()),
        Condition::NotExistsOrAtMost(name, most) => stands.is_none_or(|item| {
            let found: Option<i64> = number_of(item, name);
            found.is_some_and(|found| found <= *most)
        }),
    }
}

/// The item after a write; `None` if it changes nothing.
pub(super) fn apply(write: &Write, stands: Option<&Item>) -> Option<Item> {
    let mut item = match &write.action {
        Action::Check => return None,
        Action::Put(item) => item.clone(),
        Action::Update { set, remove } => {
            let mut item = stands.cloned().unwrap_or_default();
            for name in remove {
                item.remove(name);
            }
            item.extend(set.iter().cloned());
            item
        }
    };
    item.extend(write.key.attributes().map(|(name, value)| (name.to_owned(), value)));
    Some(item)
}
