//! The table that is imported, and the plan that imports it.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

/// ISO 3166-1, one JSON object a line; its source and licence are in the README beside it.
const COUNTRIES: &str = include_str!("../../data/countries.jsonl");

pub const TABLE: &str = "countries";
pub const KEY: &str = "alpha2";

pub fn rows() -> anyhow::Result<Vec<Map<String, Value>>> {
    let rows = COUNTRIES.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    rows.context("the demo's table is no JSON Lines")
}

/// A `put_record` for each row. Its step's key is the row's.
pub fn plan(rows: &[Map<String, Value>], rate: u32) -> Value {
    let steps: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut record = row.clone();
            let key = record.remove(KEY).unwrap_or_default();
            json!({
                "key": key,
                "tool": "put_record",
                "input": {"table": TABLE, "key": {KEY: key}, "record": record},
            })
        })
        .collect();
    json!({ "steps": steps, "rate": rate })
}

/// A row as DynamoDB has it, whose every attribute is text.
pub fn item(row: &Map<String, Value>) -> Value {
    row.iter()
        .map(|(name, value)| (name.clone(), json!({ "S": value })))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_is_that_of_iso_3166() {
        let rows = rows().unwrap();
        let keys: HashSet<_> = rows.iter().map(|row| row[KEY].as_str().unwrap()).collect();
        assert_eq!((rows.len(), keys.len()), (249, 249));
        let plan = plan(&rows, 20);
        assert_eq!(
            plan["steps"][0],
            json!({"key": "AD", "tool": "put_record", "input": {"table": "countries", "key": {"alpha2": "AD"},
                "record": {"alpha3": "AND", "name": "Andorra", "numeric": "020"}}})
        );
        assert_eq!(item(&rows[0])["name"], json!({"S": "Andorra"}));
    }
}
