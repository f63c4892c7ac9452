//! The built-in tools.

mod http_request;
mod put_record;
mod sleep;

pub use http_request::HttpRequest;
pub use put_record::PutRecord;
pub use sleep::Sleep;

use outlast_engine::BodyError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool's input as its own type. The schema was checked before; what still doesn't fit is the caller's error.
fn parse<T: DeserializeOwned>(input: &Value) -> Result<T, BodyError> {
    T::deserialize(input).map_err(|error| BodyError::permanent("bad_input", error.to_string()))
}
