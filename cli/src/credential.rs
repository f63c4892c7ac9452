//! The key that the server asks for: into a header, and nowhere else.

use outlast_core::api_key::{ApiKey, KEY_PREFIX};
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};

use crate::exit::{Exit, Problem};

/// The value of `Authorization`, marked as not to be shown. A key that was mistyped is refused without asking anybody; one
/// that doesn't look like ours may be a credential of another kind.
pub fn header(key: Option<&SecretString>) -> Result<Option<HeaderValue>, Problem> {
    let Some(key) = key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty()) else {
        return Ok(None);
    };
    if key.starts_with(KEY_PREFIX)
        && let Err(wrong) = ApiKey::parse(key)
    {
        return Err(unusable(&format!("can't be one: {wrong}")));
    }
    let mut header =
        HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| unusable("holds characters that no header can"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

fn unusable(why: &str) -> Problem {
    Problem::new(
        Exit::Usage,
        format!("the key (--key or OUTLAST_KEY) {why}. Nothing was sent."),
    )
}

/// What to do about a refusal that is about the key.
pub fn advice(status: u16, was_sent: bool) -> Option<&'static str> {
    match (status, was_sent) {
        (401, false) => {
            Some("Set OUTLAST_KEY to a key of this deployment; whoever operates it makes one with `outlast keys add`.")
        }
        (401, true) => Some(
            "The key was sent and is not good there (any more). Whoever operates the deployment sees with `outlast keys ls` \
             which keys there are.",
        ),
        (403, _) => Some(
            "Use a key that has the scope; whoever operates the deployment makes one with `outlast keys add --scopes …`.",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_not_sent_and_not_repeated() {
        let good = ApiKey::from_random([7; 32]);
        for wrong in [
            &good.expose()[..50],
            "ol_hunter2",
            "hunter2\u{7f}",
            &good.expose().replace("Bw", "wB"),
        ] {
            let problem = header(Some(&wrong.into())).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage);
            assert!(
                !problem.text.contains(wrong) && problem.text.contains("--key"),
                "{problem}"
            );
        }
        assert_eq!(header(Some(&"".into())).unwrap(), None);
        assert_eq!(header(None).unwrap(), None);
    }

    #[test]
    fn a_key_is_sent_as_it_is_and_not_shown() {
        let good = ApiKey::from_random([7; 32]);
        // With the line's end that `cat` leaves; and a credential of another kind.
        for right in [format!("{}\n", good.expose()), "eyJ0eXAi.x.y".into()] {
            let sent = header(Some(&right.clone().into())).unwrap().unwrap();
            assert_eq!(sent, format!("Bearer {}", right.trim()));
            assert_eq!(format!("{sent:?}"), "Sensitive");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do_about_the_key() {
        assert!(advice(401, false).unwrap().contains("Set OUTLAST_KEY"));
        assert!(advice(401, true).unwrap().contains("not good there"));
        assert!(advice(403, true).unwrap().contains("--scopes"));
        assert_eq!(advice(409, true), None);
    }
}
