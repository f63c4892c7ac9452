//! The token of a dispatch: HMAC-SHA-256 over purpose, run, expected epoch, kind of host, expiry and the body's digest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::digest::sha256_hex;
use crate::ids::RunId;
use crate::limits::DISPATCH_TOKEN_LIFE;
use crate::time::Timestamp;
use crate::time_budget::HostKind;

/// A secret shorter than this is refused at start-up.
pub const MIN_SECRET_BYTES: usize = 32;
const PURPOSE: &str = "outlast.dispatch.v1";

/// What a dispatch says: ids, never content. It is the dispatch's body; the token goes beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchBody {
    pub run_id: RunId,
    /// The run's epoch when it was dispatched: the claim must find it unchanged.
    pub expected_epoch: u64,
    pub host: HostKind,
}

/// Signs with the current key; takes the previous one too, while keys are being rotated.
#[derive(Clone, Debug)]
pub struct DispatchKeys {
    current: SecretString,
    previous: Option<SecretString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a dispatch secret has {actual} bytes; at least {MIN_SECRET_BYTES} are needed")]
pub struct SecretTooShort {
    pub actual: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the dispatch token is missing or malformed")]
    Malformed,
    #[error("the dispatch token was not signed with this deployment's secret, or for another body")]
    BadSignature,
    #[error("the dispatch token has expired")]
    Expired,
}

impl DispatchKeys {
    pub fn new(current: SecretString, previous: Option<SecretString>) -> Result<Self, SecretTooShort> {
        for secret in std::iter::once(&current).chain(&previous) {
            let actual = secret.expose_secret().len();
            if actual < MIN_SECRET_BYTES {
                return Err(SecretTooShort { actual });
            }
        }
        Ok(Self { current, previous })
    }

    /// `<expiry in epoch ms>.<signature>`
    pub fn sign(&self, body: &[u8], now: Timestamp) -> String {
        let expires_at = (now + DISPATCH_TOKEN_LIFE).as_millis();
        let signature = mac(&self.current, expires_at, body).finalize().into_bytes();
        format!("{expires_at}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Checks a token against the body as it arrived, in constant time.
    pub fn verify(&self, token: &str, body: &[u8], now: Timestamp) -> Result<(), TokenError> {
        let (expires_at, signature) = token.split_once('.').ok_or(TokenError::Malformed)?;
        let expires_at: i64 = expires_at.parse().map_err(|_| TokenError::Malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        let is_signed = std::iter::once(&self.current)
            .chain(&self.previous)
            .any(|key| mac(key, expires_at, body).verify_slice(&signature).is_ok());
        if !is_signed {
            return Err(TokenError::BadSignature);
        }
        if expires_at <= now.as_millis() {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

fn mac(key: &SecretString, expires_at: i64, body: &[u8]) -> Hmac<Sha256> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()) else {
        unreachable!("HMAC takes a key of any length")
    };
    // The body holds run, epoch and host; each part ends with a byte that can't stand in it.
    for part in [PURPOSE, &expires_at.to_string(), &sha256_hex(body)] {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

    fn secret(fill: char) -> SecretString {
        SecretString::from(String::from(fill).repeat(32))
    }

    fn keys(current: char, previous: Option<char>) -> DispatchKeys {
        DispatchKeys::new(secret(current), previous.map(secret)).unwrap()
    }

    fn body(run: &str, epoch: u64) -> Vec<u8> {
        let body = DispatchBody {
            run_id: RunId::new(run),
            expected_epoch: epoch,
            host: HostKind::Background,
        };
        serde_json::to_vec(&body).unwrap()
    }

    #[test]
    fn a_token_is_good_for_its_own_body_only() {
        let keys = keys('a', None);
        let token = keys.sign(&body("r1", 1), NOW);
        assert_eq!(keys.verify(&token, &body("r1", 1), NOW), Ok(()));
        assert_eq!(keys.verify(&token, &body("r2", 1), NOW), Err(TokenError::BadSignature));
        assert_eq!(keys.verify(&token, &body("r1", 2), NOW), Err(TokenError::BadSignature));
    }

    #[test]
    fn it_expires_and_its_expiry_cannot_be_rewritten() {
        let keys = keys('a', None);
        let token = keys.sign(&body("r1", 1), NOW);
        let later = NOW + DISPATCH_TOKEN_LIFE;
        assert_eq!(keys.verify(&token, &body("r1", 1), later), Err(TokenError::Expired));
        let (_, signature) = token.split_once('.').unwrap();
        let rewritten = format!("{}.{signature}", later.as_millis() + 1);
        assert_eq!(
            keys.verify(&rewritten, &body("r1", 1), later),
            Err(TokenError::BadSignature)
        );
    }

    #[test]
    fn malformed_tokens_and_short_secrets_are_refused() {
        let keys = keys('a', None);
        for token in [
            "",
            ".",
            "1",
            "x.y",
            "1780000000000.",
            "1780000000000.***",
            "99999999999999999999.AA",
        ] {
            assert!(keys.verify(token, &body("r1", 1), NOW).is_err(), "{token:?}");
        }
        let short = DispatchKeys::new(SecretString::from("x".repeat(31)), None);
        assert_eq!(short.unwrap_err(), SecretTooShort { actual: 31 });
    }

    #[test]
    fn the_previous_key_is_taken_while_keys_rotate() {
        let token = keys('a', None).sign(&body("r1", 1), NOW);
        assert_eq!(keys('b', Some('a')).verify(&token, &body("r1", 1), NOW), Ok(()));
        assert_eq!(
            keys('b', None).verify(&token, &body("r1", 1), NOW),
            Err(TokenError::BadSignature)
        );
    }
}
