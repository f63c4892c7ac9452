use async_trait::async_trait;
use outlast_agent::Resources;
use outlast_agent::tool::{Repeat, Tool, ToolCall};
use outlast_engine::BodyError;
use outlast_store::StoreError;
use serde_json::{Map, Value, json};

/// Keeps a note. The same note twice is one note: to repeat it does no harm.
pub struct KeepNote;

#[async_trait]
impl Tool for KeepNote {
    fn name(&self) -> &'static str {
        "keep_note"
    }

    fn description(&self) -> &'static str {
        "Keeps one note in the table `notes`."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1}, "text": {"type": "string"}},
            "required": ["id", "text"],
            "additionalProperties": false,
        })
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let note = call.input.as_object().cloned().unwrap_or_default();
        call.resources.records.put("notes", &note).await.map_err(no_table)?;
        Ok(json!({"kept": call.input["id"]}))
    }

    /// At the end of the run: is it there, and as it was written?
    async fn verify(&self, input: &Value, resources: &Resources) -> Option<Result<bool, BodyError>> {
        let key = Map::from_iter([("id".to_owned(), input["id"].clone())]);
        let found = resources.records.get("notes", &key).await.map_err(no_table);
        Some(found.map(|found| found.as_ref() == input.as_object()))
    }
}

/// What may pass is tried again; what won't is this step's final failure.
fn no_table(error: StoreError) -> BodyError {
    match error {
        StoreError::Unavailable(_) => BodyError::retryable("notes", error.to_string()),
        _ => BodyError::permanent("notes", error.to_string()),
    }
}
