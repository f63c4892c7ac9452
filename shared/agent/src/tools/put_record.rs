//! `put_record`: one item of a DynamoDB table of the user's, written whole, and read again for the proof.

use async_trait::async_trait;
use outlast_engine::BodyError;
use outlast_store::StoreError;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

use crate::app::Resources;
use crate::tool::{Repeat, Tool, ToolCall};
use crate::tools::parse;

/// One whole item of a DynamoDB table, at most 400 KB as DynamoDB counts; verified by a consistent read of all of it.
pub struct PutRecord;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The table's name. The function's role must allow `PutItem` and `GetItem` on it.
    #[schemars(length(min = 1))]
    table: String,
    /// The key attributes: all of them, and nothing else.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 2))]
    key: Map<String, Value>,
    /// The other attributes. What the item had besides them is replaced.
    #[serde(default)]
    record: Map<String, Value>,
}

impl Input {
    fn item(&self) -> Map<String, Value> {
        let mut item = self.record.clone();
        item.extend(self.key.clone());
        item
    }
}

#[async_trait]
impl Tool for PutRecord {
    fn name(&self) -> &'static str {
        "put_record"
    }

    fn description(&self) -> &'static str {
        "Writes one whole item to a DynamoDB table, replacing what has the same key."
    }

    fn input_schema(&self) -> Value {
        schema_for!(Input).into()
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let input: Input = parse(call.input)?;
        call.resources
            .records
            .put(&input.table, &input.item())
            .await
            .map_err(body_error)?;
        Ok(json!({ "written": input.key }))
    }

    async fn verify(&self, input: &Value, resources: &Resources) -> Option<Result<bool, BodyError>> {
        Some(is_there(input, resources).await)
    }
}

async fn is_there(input: &Value, resources: &Resources) -> Result<bool, BodyError> {
    let input: Input = parse(input)?;
    let found = resources
        .records
        .get(&input.table, &input.key)
        .await
        .map_err(body_error)?;
    Ok(found.is_some_and(|found| is_same(&Value::Object(found), &Value::Object(input.item()))))
}

fn body_error(error: StoreError) -> BodyError {
    match error {
        StoreError::Unavailable(_) => BodyError::retryable("table_unavailable", error.to_string()),
        StoreError::Rejected(_) | StoreError::Corrupt(_) | StoreError::UnknownSchema(_) | StoreError::TooLarge(_) => {
            BodyError::permanent("table_refused", error.to_string())
        }
    }
}

/// Whether two values are the same to DynamoDB, which knows numbers and no spellings of them: 1.0 comes back as 1.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
        }
        (one, other) => one == other,
    }
}

fn is_same_number(one: &Number, other: &Number) -> bool {
    one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers_and_everything_else_as_it_is() {
        let same = [
            (json!(1.0), json!(1)),
            (json!({"a": [1, 2.0]}), json!({"a": [1.0, 2]})),
            (json!("x"), json!("x")),
        ];
        for (one, other) in same {
            assert!(is_same(&one, &other), "{one} {other}");
        }
        let different = [
            (json!(1), json!("1")),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
            (json!({"a": 1}), json!({"a": 1, "b": 2})),
            (json!([1, 2]), json!([2, 1])),
            (json!(null), json!(false)),
        ];
        for (one, other) in different {
            assert!(!is_same(&one, &other), "{one} {other}");
        }
    }
}
