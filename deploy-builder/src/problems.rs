//! Everything that is wrong, not the first thing only.

use std::fmt;

/// What was looked at, and a line for each thing that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    of: String,
    pub lines: Vec<String>,
}

impl Problems {
    /// `Ok` if there are none.
    pub fn unless_empty(of: impl Into<String>, lines: Vec<String>) -> Result<(), Problems> {
        if lines.is_empty() {
            return Ok(());
        }
        Err(Problems { of: of.into(), lines })
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.of)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
