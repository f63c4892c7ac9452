//! What a caller may do.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// One kind of permission. Each route needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// To start runs, and to carry inline ones on.
    Run,
    /// To look at runs and follow their logs.
    Read,
    /// To stop, pause, resume and retry runs, and to answer them.
    Control,
    /// To be a worker: claim runs and report on them.
    Work,
    /// All of the others.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Scope::Run, Scope::Read, Scope::Control, Scope::Work, Scope::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Run => "run",
            Scope::Read => "read",
            Scope::Control => "control",
            Scope::Work => "work",
            Scope::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no scope {0:?}: the scopes are run, read, control, work and admin")]
pub struct NoScope(String);

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Self, NoScope> {
        let named = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        named.ok_or_else(|| NoScope(text.to_owned()))
    }
}

/// Some scopes; none at first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scopes {
    pub const ALL: Scopes = Scopes(0b1_1111);

    pub const fn only(scope: Scope) -> Self {
        Scopes(scope.bit())
    }

    /// Whether these let their holder do what needs `scope`: they name it, or they name `admin`.
    pub const fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are named, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Scopes(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// `run,read,control`.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Scope::as_str).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_allows_itself_and_admin_allows_all() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
            for other in Scope::ALL {
                let expected = scope == other || scope == Scope::Admin;
                assert_eq!(Scopes::only(scope).allow(other), expected, "{scope} for {other}");
            }
            assert!(Scopes::ALL.allow(scope) && !Scopes::default().allow(scope));
        }
    }

    #[test]
    fn they_are_spelled_in_one_order() {
        let scopes: Scopes = [Scope::Control, Scope::Run, Scope::Control].into_iter().collect();
        assert_eq!(scopes.to_string(), "run,control");
        assert_eq!(Scopes::ALL.to_string(), "run,read,control,work,admin");
        assert!(Scopes::default().is_empty() && Scopes::default().to_string().is_empty());
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        for text in ["", "Run", "run,read", "write"] {
            let error = text.parse::<Scope>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("{text:?}")) && error.contains("control"),
                "{error}"
            );
        }
    }
}
