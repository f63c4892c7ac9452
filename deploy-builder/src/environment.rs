//! Which variables a function needs, taken from the list in core.

use outlast_core::env_vars::{self as vars, Variable};
use serde::{Deserialize, Serialize};

use crate::plan::Role;

/// A variable of a function, as whoever deploys it must know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub name: String,
    /// It doesn't start, or doesn't do what it is for, without it.
    pub required: bool,
    /// Its value belongs into no template, no manifest and no log.
    pub secret: bool,
    /// To be set to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What the function assumes without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// To be set to the deployed name of this function of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    pub meaning: String,
}

/// How the background function hands work to its own next invocation. It names itself to the platform, not in a
/// variable: a template can't set a function's variable to the name of that same function.
const CHAINED: &str = "lambda";

/// Of a function of an app, in the order in which core lists them. `background` is the app's background function, if it
/// has one.
pub fn of(role: Role, base_path: &str, background: Option<&str>) -> Vec<Setting> {
    let mut settings = vec![optional(&vars::RUNS_TABLE), optional(&vars::EVENTS_TABLE)];
    if let Some(background) = background {
        settings.push(match role {
            Role::Foreground => Setting {
                function: Some(background.to_owned()),
                ..required(&vars::BACKGROUND_FUNCTION)
            },
            Role::Background => Setting {
                value: Some(CHAINED.to_owned()),
                ..required(&vars::DISPATCH)
            },
        });
        settings.push(required(&vars::DISPATCH_SECRET));
        settings.push(optional(&vars::DISPATCH_SECRET_PREVIOUS));
    }
    settings.push(optional(match role {
        Role::Foreground => &vars::FOREGROUND_SOFT_CAP,
        Role::Background => &vars::BACKGROUND_SOFT_CAP,
    }));
    settings.push(required(&vars::IDENTITY));
    settings.push(match base_path {
        "" => optional(&vars::BASE_PATH),
        base_path => Setting {
            value: Some(base_path.to_owned()),
            ..required(&vars::BASE_PATH)
        },
    });
    settings.push(optional(&vars::LOG));
    settings
}

fn optional(variable: &Variable) -> Setting {
    Setting {
        name: variable.name.to_owned(),
        required: false,
        secret: variable.secret,
        value: None,
        default: variable.default.map(str::to_owned),
        function: None,
        meaning: variable.meaning.to_owned(),
    }
}

fn required(variable: &Variable) -> Setting {
    Setting {
        required: true,
        default: None,
        ..optional(variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_given_or_left_out_on_purpose() {
        // The HTTP dispatcher is for hosts outside of Lambda; the last three are for tests and emulators.
        let left_out = [
            vars::BACKGROUND_URL,
            vars::FOREGROUND_URL,
            vars::LEASE,
            vars::BEAT,
            vars::REDISPATCH_AFTER,
        ];
        let foreground = of(Role::Foreground, "", Some("background"));
        let background = of(Role::Background, "", Some("background"));
        for variable in vars::ALL {
            let given = foreground.iter().chain(&background).any(|s| s.name == variable.name);
            assert_ne!(given, left_out.contains(&variable), "{}", variable.name);
        }
    }

    #[test]
    fn a_secret_has_no_value() {
        let settings = of(Role::Foreground, "/agents", Some("background"));
        for secret in settings.iter().filter(|setting| setting.secret) {
            assert_eq!((&secret.value, &secret.default), (&None, &None));
        }
    }
}
