//! A token with which one run can be read for a while: for a browser's `EventSource`, which can send no header.
//!
//! `<expiry in epoch ms>.<signature>.<owner, base64url>`. The owner is part of what is signed, and so is the run, which
//! the request's path names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::dispatch_token::{DispatchKeys, Purpose, TokenError};
use crate::ids::{Owner, RunId};
use crate::time::Timestamp;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signed<'a> {
    owner: &'a Owner,
    run_id: &'a RunId,
}

/// A token, and until when it is good.
pub fn sign(keys: &DispatchKeys, owner: &Owner, run: &RunId, now: Timestamp) -> (String, Timestamp) {
    let token = keys.sign(Purpose::Read, &signed(owner, run), now);
    let owner = URL_SAFE_NO_PAD.encode(owner.as_str());
    (format!("{token}.{owner}"), now + Purpose::Read.life())
}

/// Whose run it lets its bearer read, if it is good for this one.
pub fn verify(keys: &DispatchKeys, token: &str, run: &RunId, now: Timestamp) -> Result<Owner, TokenError> {
    let (token, owner) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let owner = URL_SAFE_NO_PAD.decode(owner).map_err(|_| TokenError::Malformed)?;
    let owner = Owner::new(String::from_utf8(owner).map_err(|_| TokenError::Malformed)?);
    keys.verify(Purpose::Read, token, &signed(&owner, run), now)?;
    Ok(owner)
}

fn signed(owner: &Owner, run_id: &RunId) -> Vec<u8> {
    let Ok(json) = serde_json::to_vec(&Signed { owner, run_id }) else {
        unreachable!("two texts are JSON")
    };
    json
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::SecretString;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

    fn keys() -> DispatchKeys {
        DispatchKeys::new(SecretString::from("s".repeat(32)), None).unwrap()
    }

    fn names() -> (Owner, RunId) {
        (Owner::new("o/1 é"), RunId::new("0197a8c0-0000-7000-8000-000000000000"))
    }

    #[test]
    fn it_is_good_for_its_run_and_owner_until_it_expires() {
        let (owner, run) = names();
        let (token, until) = sign(&keys(), &owner, &run, NOW);
        assert_eq!(until.since(NOW).as_secs(), 15 * 60);
        let last = Timestamp::from_millis(until.as_millis() - 1);
        assert_eq!(verify(&keys(), &token, &run, last), Ok(owner.clone()));
        assert_eq!(verify(&keys(), &token, &run, until), Err(TokenError::Expired));
        let other = RunId::new("0197a8c0-0000-7000-8000-000000000001");
        assert_eq!(verify(&keys(), &token, &other, NOW), Err(TokenError::BadSignature));
        let (signature, _) = token.rsplit_once('.').unwrap();
        let renamed = format!("{signature}.{}", URL_SAFE_NO_PAD.encode("someone-else"));
        assert_eq!(verify(&keys(), &renamed, &run, NOW), Err(TokenError::BadSignature));
    }

    #[test]
    fn it_needs_no_escaping_in_a_url() {
        let (owner, run) = names();
        let (token, _) = sign(&keys(), &owner, &run, NOW);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(token.chars().all(plain), "{token}");
    }

    #[test]
    fn it_opens_nothing_else_and_nothing_else_opens_a_run() {
        let (owner, run) = names();
        let (token, _) = sign(&keys(), &owner, &run, NOW);
        let (signature, name) = token.rsplit_once('.').unwrap();
        for purpose in [Purpose::Dispatch, Purpose::Sweep] {
            let body = signed(&owner, &run);
            assert!(keys().verify(purpose, signature, &body, NOW).is_err());
            assert!(keys().verify(purpose, &token, &body, NOW).is_err());
            let other = format!("{}.{name}", keys().sign(purpose, &body, NOW));
            assert_eq!(verify(&keys(), &other, &run, NOW), Err(TokenError::BadSignature));
        }
    }

    proptest! {
        #[test]
        fn any_text_as_a_token_is_refused(token in "(\\PC{0,80}|[0-9]{0,20}\\.[A-Za-z0-9_-]{0,50}\\.[A-Za-z0-9_-]{0,20})") {
            prop_assert!(verify(&keys(), &token, &names().1, NOW).is_err());
        }
    }
}
