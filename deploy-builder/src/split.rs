//! The flag that asks for background functions: read when a deployment is built, here and nowhere else. The functions
//! themselves don't know of it.

use std::ffi::{OsStr, OsString};

use crate::plan::Role;

/// The variable, in the environment of the builder.
pub const FLAG: &str = "DURABLE_BACKGROUND";

pub const HELP: &str = "\
Environment:
  DURABLE_BACKGROUND  `1`, `true`, `on` or `yes`: each app gets a background function too.
                      `0`, `false`, `off`, `no`, empty or not set: it doesn't

";

const OFF: [&str; 4] = ["0", "false", "off", "no"];
const ON: [&str; 4] = ["1", "true", "on", "yes"];

/// The flag is neither on nor off: nothing is guessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{FLAG} is {value:?}, which is neither on nor off: on is `{}`; off is `{}`, empty or not set",
    ON.join("`, `"),
    OFF.join("`, `")
)]
pub struct WrongFlag {
    pub value: OsString,
}

/// The roles that this process's environment asks for.
pub fn roles() -> Result<&'static [Role], WrongFlag> {
    let value = std::env::var_os(FLAG);
    Ok(match is_on(value.as_deref())? {
        true => &[Role::Foreground, Role::Background],
        false => &[Role::Foreground],
    })
}

/// Case and white space around the word don't count: CI systems write `True`, and files end in a newline.
pub fn is_on(value: Option<&OsStr>) -> Result<bool, WrongFlag> {
    let Some(value) = value else { return Ok(false) };
    let wrong = || WrongFlag {
        value: value.to_owned(),
    };
    let word = value.to_str().ok_or_else(wrong)?.trim().to_ascii_lowercase();
    match word.as_str() {
        "" => Ok(false),
        word if OFF.contains(&word) => Ok(false),
        word if ON.contains(&word) => Ok(true),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<bool, WrongFlag> {
        is_on(Some(OsStr::new(value)))
    }

    #[test]
    fn each_spelling() {
        for word in ["", " ", "\n", "0", "false", "off", "no", "FALSE", "Off", " no\n"] {
            assert_eq!(read(word), Ok(false), "{word:?}");
        }
        for word in ["1", "true", "on", "yes", "True", "ON", "YES\n"] {
            assert_eq!(read(word), Ok(true), "{word:?}");
        }
        assert_eq!(is_on(None), Ok(false));
    }

    #[test]
    fn anything_else_is_an_error_that_lists_what_is_accepted() {
        for word in ["2", "t", "y", "enabled", "on off", "'1'", "-1", "nein", "0x0", "00"] {
            let text = read(word).unwrap_err().to_string();
            assert!(text.contains(&format!("{word:?}")), "{text}");
            for accepted in OFF.iter().chain(&ON) {
                assert!(text.contains(&format!("`{accepted}`")), "{text}");
            }
        }
    }

    #[test]
    fn the_help_names_the_flag_and_every_spelling() {
        for word in OFF.iter().chain(&ON) {
            assert!(HELP.contains(&format!("`{word}`")), "{word}");
        }
        assert!(HELP.contains(FLAG));
    }

    #[test]
    fn what_is_no_text_is_no_answer() {
        use std::os::unix::ffi::OsStrExt as _;
        assert!(is_on(Some(OsStr::from_bytes(b"\xff"))).is_err());
    }
}
