//! The token of a dispatch: HMAC-SHA-256 over purpose, run, expected epoch, kind of host, expiry and the body's digest. The
//! schedule's call has one of its own purpose, where it comes over plain HTTP; so has a browser that reads one run
//! ([`crate::read_token`]).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::digest::sha256_hex;
use crate::ids::RunId;
use crate::limits::{DISPATCH_TOKEN_LIFE, READ_TOKEN_LIFE};
use crate::time::Timestamp;
use crate::time_budget::HostKind;

/// A secret shorter than this is refused at start-up.
pub const MIN_SECRET_BYTES: usize = 32;

/// What a token is for. One that was made for another purpose is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To carry a run's next chunk.
    Dispatch,
    /// To look at every run that is due.
    Sweep,
    /// To read one run.
    Read,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Purpose::Dispatch => "outlast.dispatch.v1",
            Purpose::Sweep => "outlast.sweep.v1",
            Purpose::Read => "outlast.read.v1",
        }
    }

    /// How long a token of this purpose is good for.
    pub const fn life(self) -> Duration {
        match self {
            Purpose::Dispatch | Purpose::Sweep => DISPATCH_TOKEN_LIFE,
            Purpose::Read => READ_TOKEN_LIFE,
        }
    }
}

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

/// Why a key can't be used: a start-up failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a dispatch secret has {actual} bytes; at least {MIN_SECRET_BYTES} are needed")]
pub struct SecretTooShort {
    pub actual: usize,
}

/// Why a token was refused: for logs. A caller needs to know no more than that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the token is missing or malformed")]
    Malformed,
    #[error("the token was not signed with this deployment's secret, or for something else")]
    BadSignature,
    #[error("the token has expired")]
    Expired,
}

impl DispatchKeys {
    /// Fails if either secret has less than [`MIN_SECRET_BYTES`].
    pub fn new(current: SecretString, previous: Option<SecretString>) -> Result<Self, SecretTooShort> {
        for secret in std::iter::once(&current).chain(&previous) {
            let actual = secret.expose_secret().len();
            if actual < MIN_SECRET_BYTES {
                return Err(SecretTooShort { actual });
            }
        }
        Ok(Self { current, previous })
    }

    /// `<expiry in epoch ms>.<signature, base64url without padding>`; good for its purpose's [`Purpose::life`] from `now` on.
    pub fn sign(&self, purpose: Purpose, body: &[u8], now: Timestamp) -> String {
        let expires_at = (now + purpose.life()).as_millis();
        let signature = mac(&self.current, purpose, expires_at, body).finalize().into_bytes();
        format!("{expires_at}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Checks a token against its purpose and the body's bytes (decoded, if they came as base64), in constant time. A good signature is looked
    /// for before the expiry: only who holds the key learns that a token has expired.
    pub fn verify(&self, purpose: Purpose, token: &str, body: &[u8], now: Timestamp) -> Result<(), TokenError> {
        let (expires_at, signature) = token.split_once('.').ok_or(TokenError::Malformed)?;
        let expires_at: i64 = expires_at.parse().map_err(|_| TokenError::Malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        let is_signed = std::iter::once(&self.current)
            .chain(&self.previous)
            .any(|key| mac(key, purpose, expires_at, body).verify_slice(&signature).is_ok());
        if !is_signed {
            return Err(TokenError::BadSignature);
        }
        if expires_at <= now.as_millis() {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

fn mac(key: &SecretString, purpose: Purpose, expires_at: i64, body: &[u8]) -> Hmac<Sha256> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()) else {
        unreachable!("HMAC takes a key of any length")
    };
    // The body holds run, epoch and host; each part ends with a byte that can't stand in it.
    for part in [purpose.as_str(), &expires_at.to_string(), &sha256_hex(body)] {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

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
        let token = keys.sign(Purpose::Dispatch, &body("r1", 1), NOW);
        assert_eq!(keys.verify(Purpose::Dispatch, &token, &body("r1", 1), NOW), Ok(()));
        assert_eq!(
            keys.verify(Purpose::Dispatch, &token, &body("r2", 1), NOW),
            Err(TokenError::BadSignature)
        );
        assert_eq!(
            keys.verify(Purpose::Dispatch, &token, &body("r1", 2), NOW),
            Err(TokenError::BadSignature)
        );
    }

    #[test]
    fn it_expires_and_its_expiry_cannot_be_rewritten() {
        let keys = keys('a', None);
        let token = keys.sign(Purpose::Dispatch, &body("r1", 1), NOW);
        let later = NOW + DISPATCH_TOKEN_LIFE;
        assert_eq!(
            keys.verify(Purpose::Dispatch, &token, &body("r1", 1), later),
            Err(TokenError::Expired)
        );
        let (_, signature) = token.split_once('.').unwrap();
        let rewritten = format!("{}.{signature}", later.as_millis() + 1);
        assert_eq!(
            keys.verify(Purpose::Dispatch, &rewritten, &body("r1", 1), later),
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
            assert!(
                keys.verify(Purpose::Dispatch, token, &body("r1", 1), NOW).is_err(),
                "{token:?}"
            );
        }
        let short = DispatchKeys::new(SecretString::from("x".repeat(31)), None);
        assert_eq!(short.unwrap_err(), SecretTooShort { actual: 31 });
    }

    #[test]
    fn the_previous_key_is_taken_while_keys_rotate() {
        let token = keys('a', None).sign(Purpose::Dispatch, &body("r1", 1), NOW);
        assert_eq!(
            keys('b', Some('a')).verify(Purpose::Dispatch, &token, &body("r1", 1), NOW),
            Ok(())
        );
        assert_eq!(
            keys('b', None).verify(Purpose::Dispatch, &token, &body("r1", 1), NOW),
            Err(TokenError::BadSignature)
        );
    }

    #[test]
    fn r40_a_token_is_taken_in_the_one_spelling_it_is_given_out_in() {
        let keys = keys('a', None);
        let body = body("r1", 1);
        let token = keys.sign(Purpose::Dispatch, &body, NOW);
        let (expires_at, signature) = token.split_once('.').unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let truncated = URL_SAFE_NO_PAD.encode(&bytes[..31]);
        let longer = URL_SAFE_NO_PAD.encode([&bytes[..], b"x"].concat());
        for (what, other, error) in [
            (
                "padded",
                format!("{expires_at}.{}", URL_SAFE.encode(&bytes)),
                TokenError::Malformed,
            ),
            (
                "standard alphabet, padded",
                format!("{expires_at}.{}", STANDARD.encode(&bytes)),
                TokenError::Malformed,
            ),
            ("no expiry", signature.to_owned(), TokenError::Malformed),
            ("empty expiry", format!(".{signature}"), TokenError::Malformed),
            (
                "expiry in words",
                format!("tomorrow.{signature}"),
                TokenError::Malformed,
            ),
            ("two signatures", format!("{token}.{signature}"), TokenError::Malformed),
            ("white space before", format!(" {token}"), TokenError::Malformed),
            ("white space after", format!("{token}\n"), TokenError::Malformed),
            ("no signature", format!("{expires_at}."), TokenError::BadSignature),
            (
                "truncated",
                format!("{expires_at}.{truncated}"),
                TokenError::BadSignature,
            ),
            ("longer", format!("{expires_at}.{longer}"), TokenError::BadSignature),
            ("negative expiry", format!("-{token}"), TokenError::BadSignature),
        ] {
            assert_eq!(keys.verify(Purpose::Dispatch, &other, &body, NOW), Err(error), "{what}");
        }
        assert_eq!(keys.verify(Purpose::Dispatch, &token, &body, NOW), Ok(()));
    }

    #[test]
    fn r40_a_signers_clock_may_be_ahead_or_behind() {
        let keys = keys('a', None);
        let body = body("r1", 1);
        let two_seconds = std::time::Duration::from_secs(2);
        assert_eq!(
            keys.verify(
                Purpose::Dispatch,
                &keys.sign(Purpose::Dispatch, &body, NOW + two_seconds),
                &body,
                NOW
            ),
            Ok(())
        );
        assert_eq!(
            keys.verify(
                Purpose::Dispatch,
                &keys.sign(Purpose::Dispatch, &body, NOW - two_seconds),
                &body,
                NOW
            ),
            Ok(())
        );
        let last = NOW + DISPATCH_TOKEN_LIFE - std::time::Duration::from_millis(1);
        assert_eq!(
            keys.verify(
                Purpose::Dispatch,
                &keys.sign(Purpose::Dispatch, &body, NOW),
                &body,
                last
            ),
            Ok(())
        );
    }

    #[test]
    fn r40_the_body_counts_byte_for_byte() {
        let keys = keys('a', None);
        let body = body("r1", 1);
        let token = keys.sign(Purpose::Dispatch, &body, NOW);
        let encoded = STANDARD.encode(&body).into_bytes();
        let spaced = [&body[..], b"\n"].concat();
        for other in [&encoded[..], &spaced, b"", &body[1..]] {
            assert_eq!(
                keys.verify(Purpose::Dispatch, &token, other, NOW),
                Err(TokenError::BadSignature)
            );
        }
        assert_eq!(
            keys.verify(Purpose::Dispatch, &keys.sign(Purpose::Dispatch, b"", NOW), b"", NOW),
            Ok(())
        );
    }

    #[test]
    fn a_token_is_good_for_its_own_purpose_only() {
        let keys = keys('a', None);
        let body = body("r1", 1);
        for (made_for, used_for) in [(Purpose::Dispatch, Purpose::Sweep), (Purpose::Sweep, Purpose::Dispatch)] {
            let token = keys.sign(made_for, &body, NOW);
            assert_eq!(keys.verify(made_for, &token, &body, NOW), Ok(()));
            assert_eq!(keys.verify(used_for, &token, &body, NOW), Err(TokenError::BadSignature));
        }
    }

    #[test]
    fn a_token_is_good_for_its_own_kind_of_host_only() {
        let keys = keys('a', None);
        let of = |host| {
            let body = DispatchBody {
                run_id: RunId::new("r1"),
                expected_epoch: 1,
                host,
            };
            serde_json::to_vec(&body).unwrap()
        };
        let token = keys.sign(Purpose::Dispatch, &of(HostKind::Background), NOW);
        assert_eq!(
            keys.verify(Purpose::Dispatch, &token, &of(HostKind::Foreground), NOW),
            Err(TokenError::BadSignature)
        );
    }

    #[test]
    fn r29_a_dispatch_is_small_and_says_nothing_else() {
        let body = body("0190f5c2-7a53-7cc3-98c4-dc0c0c07398f", u64::MAX);
        assert!(body.len() < 150);
        let more = br#"{"runId":"r1","expectedEpoch":1,"host":"background","input":"x"}"#;
        assert!(serde_json::from_slice::<DispatchBody>(more).is_err());
    }

    #[test]
    fn r40_each_secret_is_long_enough_and_none_is_shown() {
        let long = || secret('a');
        let check = |bytes: usize| {
            let short = || SecretString::from("x".repeat(bytes));
            let refused = Err(SecretTooShort { actual: bytes });
            assert_eq!(DispatchKeys::new(short(), None).map(drop), refused);
            assert_eq!(
                DispatchKeys::new(long(), Some(short())).map(drop),
                refused,
                "the previous one too"
            );
        };
        check(0);
        check(31);
        // Bytes count, not characters.
        assert!(DispatchKeys::new(SecretString::from("é".repeat(16)), None).is_ok());
        let shown = format!("{:?}", DispatchKeys::new(long(), Some(long())));
        assert!(!shown.contains("aaa"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_bytes_as_a_token_are_refused_and_nothing_panics(
            token in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..90).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
                "-?[0-9]{0,20}\\.[A-Za-z0-9_=-]{0,50}",
            ],
            body in proptest::collection::vec(any::<u8>(), 0..50),
            now in any::<i64>(),
        ) {
            let keys = keys('a', Some('b'));
            prop_assert!(keys.verify(Purpose::Dispatch, &token, &body, Timestamp::from_millis(now)).is_err());
        }

        #[test]
        fn a_token_with_any_one_character_changed_is_refused(at in 0usize..57, to in "[A-Za-z0-9_.-]") {
            let keys = keys('a', None);
            let body = body("r1", 1);
            let token = keys.sign(Purpose::Dispatch, &body, NOW);
            let mut changed = token.clone();
            changed.replace_range(at..at + 1, &to);
            prop_assert_eq!(keys.verify(Purpose::Dispatch, &changed, &body, NOW).is_ok(), changed == token);
        }
    }
}
