//! API keys: `ol_` and 48 characters of base64url, which are 32 random bytes and a checksum of four.
//!
//! The prefix is what scanners of repositories and logs look for. The checksum tells a key from what merely looks like
//! one, and a mistyped one from one that was removed, without asking anybody. What is stored of a key is its SHA-256,
//! unsalted and not stretched: nobody guesses 256 random bits.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::digest::sha256_hex;

pub const KEY_PREFIX: &str = "ol_";
pub const KEY_RANDOM_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
/// 36 bytes are 48 characters without padding and without bits to spare: each key has one spelling.
const CHARACTERS: usize = (KEY_RANDOM_BYTES + CHECKSUM_BYTES) / 3 * 4;
const WHOLE: usize = KEY_PREFIX.len() + CHARACTERS;
/// So much of a key is shown, for people to tell keys apart. What stays secret are 208 random bits.
const SHOWN: usize = KEY_PREFIX.len() + 8;

/// A whole key. Shown by [`ApiKey::expose`] only.
#[derive(Clone)]
pub struct ApiKey(SecretString);

/// Why a text is no key. It doesn't repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoKey {
    #[error("it doesn't begin with {KEY_PREFIX}")]
    Prefix,
    #[error("a key has {WHOLE} characters, and this has {0}")]
    Length(usize),
    #[error("its checksum is wrong: a character was mistyped")]
    Checksum,
}

impl ApiKey {
    pub fn from_random(random: [u8; KEY_RANDOM_BYTES]) -> Self {
        let bytes = [&random[..], &checksum(&random)].concat();
        Self(format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    pub fn parse(text: &str) -> Result<Self, NoKey> {
        let characters = text.strip_prefix(KEY_PREFIX).ok_or(NoKey::Prefix)?;
        if characters.len() != CHARACTERS {
            return Err(NoKey::Length(text.chars().count()));
        }
        let bytes = URL_SAFE_NO_PAD.decode(characters).map_err(|_| NoKey::Checksum)?;
        // Of a secret only its holder knows both sides: there is nothing to learn from how long this takes.
        match bytes.split_first_chunk::<KEY_RANDOM_BYTES>() {
            Some((random, sum)) if *sum == checksum(random) => Ok(Self(text.into())),
            _ => Err(NoKey::Checksum),
        }
    }

    /// The key itself: for whoever it was made for, once.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// SHA-256 in hex: the name under which it is stored. It lets nobody in.
    pub fn hash(&self) -> String {
        sha256_hex(self.expose().as_bytes())
    }

    /// Its first characters.
    pub fn begins(&self) -> &str {
        &self.expose()[..SHOWN]
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.begins())
    }
}

fn checksum(random: &[u8; KEY_RANDOM_BYTES]) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha256::new()
        .chain_update(b"outlast.key.v1\n")
        .chain_update(random)
        .finalize();
    std::array::from_fn(|index| digest[index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_looks_like_this() {
        let key = ApiKey::from_random([7; 32]);
        assert_eq!(key.expose().len(), 51);
        assert!(key.expose().starts_with("ol_BwcHBwcH"), "{}", key.expose());
        assert_eq!(key.begins(), "ol_BwcHBwcH");
        assert_eq!(key.hash(), sha256_hex(key.expose().as_bytes()));
        assert_eq!(ApiKey::parse(key.expose()).map(|parsed| parsed.hash()), Ok(key.hash()));
    }

    #[test]
    fn a_mistyped_key_is_recognised_without_asking_anybody() {
        let key = ApiKey::from_random([7; 32]);
        let check = |text: &str, expected: NoKey| assert_eq!(ApiKey::parse(text).map(drop), Err(expected));
        check("", NoKey::Prefix);
        check("ol-", NoKey::Prefix);
        check(&key.expose()[3..], NoKey::Prefix);
        check("ol_", NoKey::Length(3));
        check(&key.expose()[..50], NoKey::Length(50));
        check(&format!("{}=", key.expose()), NoKey::Length(52));
        check(&format!(" {}", key.expose()), NoKey::Prefix);
        check(&key.expose().replacen("Bw", "wB", 1), NoKey::Checksum);
        check(&format!("ol_{}", "é".repeat(24)), NoKey::Checksum);
        check(&format!("ol_{}", "+".repeat(48)), NoKey::Checksum);
    }

    #[test]
    fn it_is_not_shown_by_accident() {
        let key = ApiKey::from_random([7; 32]);
        let shown = format!("{key:?}");
        assert_eq!(shown, "ApiKey(ol_BwcHBwcH…)");
        let error = ApiKey::parse(&key.expose()[..50]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("BwcH"));
    }

    proptest! {
        #[test]
        fn every_key_is_one_and_none_with_another_character(random: [u8; 32], at in 0usize..51, to in "[A-Za-z0-9_-]") {
            let key = ApiKey::from_random(random);
            prop_assert!(ApiKey::parse(key.expose()).is_ok());
            let mut changed = key.expose().to_owned();
            changed.replace_range(at..at + 1, &to);
            prop_assert_eq!(ApiKey::parse(&changed).is_ok(), changed == key.expose());
        }

        #[test]
        fn any_text_is_refused_without_a_panic(text in "\\PC*") {
            prop_assert!(ApiKey::parse(&text).is_err());
            let with_prefix = [KEY_PREFIX, &text].concat();
            prop_assert!(ApiKey::parse(&with_prefix).is_err());
        }
    }
}
