//! A user's value (an input, a result): JSON text, kept byte for byte from the first write on.

use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// JSON text. It is stored, compared and handed back as these bytes: a number or the order of a map's keys is never
/// rewritten on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Checks that `text` is one JSON value.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        serde_json::from_str::<serde::de::IgnoredAny>(&text)?;
        Ok(Self(text))
    }

    /// The JSON of a value. Fails where serde_json does: a map with keys that aren't text, a type that refuses.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    pub fn null() -> Self {
        Self("null".into())
    }

    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As stored: a string that holds the text.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Payload::parse(text).map_err(|error| D::Error::custom(format!("a payload that isn't JSON: {error}")))
    }
}
