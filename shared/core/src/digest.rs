//! Digests over canonical JSON: a map's order and white space are not input.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::payload::Payload;

/// The first 16 bytes of SHA-256 in hex: enough to tell two inputs of one step apart, short enough for every event.
pub fn input_digest(input: &Payload) -> String {
    short(canonical(input).as_bytes())
}

/// The whole SHA-256 in hex, of raw bytes.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// JSON with the keys of every map sorted and no white space (`serde_json` sorts maps as it parses them).
fn canonical(input: &Payload) -> String {
    // A payload is valid JSON by construction; a number too large for serde_json is compared as text.
    match serde_json::from_str::<Value>(input.as_str()) {
        Ok(value) => value.to_string(),
        Err(_) => input.as_str().to_owned(),
    }
}

fn short(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..16])
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_map_is_not_input() {
        let one = Payload::parse(r#"{"a":1,"b":[1,2]}"#).unwrap();
        let other = Payload::parse(r#"{ "b" : [1, 2], "a": 1 }"#).unwrap();
        let different = Payload::parse(r#"{"a":1,"b":[2,1]}"#).unwrap();
        assert_eq!(input_digest(&one), input_digest(&other));
        assert_ne!(input_digest(&one), input_digest(&different));
    }
}
