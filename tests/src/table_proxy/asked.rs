//! A request to DynamoDB, as far as tests look into it.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::HeaderMap;
use outlast_store::schema::TableNames;
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Asked {
    /// As in `PutItem`.
    pub operation: String,
    pub tables: BTreeSet<String>,
    pub index: Option<String>,
    pub consistent: bool,
    /// The JSON as it was sent.
    pub text: String,
}

impl Asked {
    pub(super) fn of(headers: &HeaderMap, body: &Bytes) -> Self {
        let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.rsplit('.').next()).unwrap_or_default();
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut tables = BTreeSet::new();
        name_tables(&json, &mut tables);
        Self {
            operation: operation.to_owned(),
            tables,
            index: json["IndexName"].as_str().map(str::to_owned),
            consistent: json["ConsistentRead"] == true,
            text: String::from_utf8_lossy(body).into_owned(),
        }
    }

    pub fn is_of(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// Of Outlast's own tables only. A user's table is the world, which may see a repeated request.
    pub(super) fn is_ours(&self) -> bool {
        let TableNames { runs, events } = TableNames::default();
        !self.tables.is_empty() && self.tables.iter().all(|table| *table == runs || *table == events)
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self.operation.as_str(), "GetItem" | "Query")
    }
}

/// Wherever in a request a table is named: a transaction names one an item.
fn name_tables(json: &Value, tables: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(table) if name == "TableName" => {
                        tables.insert(table.clone());
                    }
                    value => name_tables(value, tables),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| name_tables(value, tables)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_tells_its_operation_and_its_tables() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-amz-target",
            "DynamoDB_20120810.TransactWriteItems".parse().expect("a value"),
        );
        let body =
            r#"{"TransactItems":[{"Put":{"TableName":"outlast-events"}},{"Update":{"TableName":"outlast-runs"}}]}"#;
        let asked = Asked::of(&headers, &body.into());
        assert_eq!(asked.operation, "TransactWriteItems");
        assert!(asked.is_of("outlast-runs") && asked.is_of("outlast-events"));
        assert!(asked.is_ours() && asked.is_write() && !asked.consistent);
        let body = r#"{"TableName":"things","ConsistentRead":true}"#;
        let asked = Asked::of(&HeaderMap::new(), &body.into());
        assert!(!asked.is_ours() && asked.consistent);
    }
}
