//! Parts of keys: percent-encoded so that no part can forge a separator, and bounded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;

/// The longest part of a key, in bytes before encoding.
pub const MAX_KEY_PART_BYTES: usize = 256;

/// Everything but letters, digits, and these four is encoded; so `#`, `/` and `%` always are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("it is empty")]
    Empty,
    #[error("it has {0} bytes; at most {MAX_KEY_PART_BYTES} are allowed")]
    TooLong(usize),
}

/// One part of a key, encoded.
pub fn key_part(text: &str) -> Result<String, KeyError> {
    match text.len() {
        0 => Err(KeyError::Empty),
        length if length > MAX_KEY_PART_BYTES => Err(KeyError::TooLong(length)),
        _ => Ok(utf8_percent_encode(text, ENCODED).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_cannot_forge_a_separator() {
        assert_eq!(key_part("a#b/c%d e").unwrap(), "a%23b%2Fc%25d%20e");
        assert_eq!(key_part("AF-1_x.y~").unwrap(), "AF-1_x.y~");
    }

    #[test]
    fn bounds() {
        assert_eq!(key_part(""), Err(KeyError::Empty));
        assert!(key_part(&"x".repeat(256)).is_ok());
        assert_eq!(key_part(&"é".repeat(129)), Err(KeyError::TooLong(258)));
    }
}
