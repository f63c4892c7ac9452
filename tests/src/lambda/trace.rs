//! What Lambda counts hops by. An invocation comes with a trace header; the runtime puts that into its process's
//! environment, the SDK there sends it along with each request, and Lambda reads it back: how often has this function been
//! invoked in this chain?
//!
//! The layout is the documented one, `Root=…;Parent=…;Sampled=0;Lineage=<function>:<times>|…`. AWS says "approximately"
//! sixteen; here it is sixteen.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_core::digest::sha256_hex;

/// The invocation of one function in one chain that Lambda stops, unless it is told not to.
const STOPPED: u64 = 17;

/// Whether a function may be invoked again and again in one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecursiveLoop {
    Allow,
    /// What AWS assumes.
    #[default]
    Terminate,
}

/// A chain of invocations, and who is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub root: String,
    /// Functions, each with how often it was invoked.
    lineage: Vec<(String, u64)>,
}

impl Trace {
    /// For whatever comes from outside: a caller of a URL, the schedule.
    pub fn begun() -> Self {
        static BEGUN: AtomicU64 = AtomicU64::new(1);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        Self {
            root: format!("1-00000000-{number:024x}"),
            lineage: Vec::new(),
        }
    }

    /// `None` if it isn't one of ours.
    pub(super) fn read(header: &str) -> Option<Self> {
        let part = |name: &str| header.split(';').find_map(|part| part.strip_prefix(name));
        let entry = |entry: &str| {
            let (function, times) = entry.split_once(':')?;
            Some((function.to_owned(), times.parse().ok()?))
        };
        let lineage = part("Lineage=").map_or(Some(Vec::new()), |lineage| lineage.split('|').map(entry).collect());
        Some(Self {
            root: part("Root=")?.to_owned(),
            lineage: lineage?,
        })
    }

    /// How often this function has been invoked in it.
    pub fn times(&self, function: &str) -> u64 {
        let name = hashed(function);
        self.lineage
            .iter()
            .find(|(function, _)| *function == name)
            .map_or(0, |(_, times)| *times)
    }

    /// As the function is told when it is invoked once more.
    pub(super) fn invoking(&self, function: &str) -> Self {
        let name = hashed(function);
        let mut trace = self.clone();
        match trace.lineage.iter_mut().find(|(function, _)| *function == name) {
            Some((_, times)) => *times += 1,
            None => trace.lineage.push((name, 1)),
        }
        trace
    }

    pub(super) fn is_stopped_at(&self, function: &str) -> bool {
        self.times(function) + 1 >= STOPPED
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root={};Parent=53995c3f42cd8ad8;Sampled=0", self.root)?;
        for (index, (function, times)) in self.lineage.iter().enumerate() {
            let before = if index == 0 { ";Lineage=" } else { "|" };
            write!(f, "{before}{function}:{times}")?;
        }
        Ok(())
    }
}

fn hashed(function: &str) -> String {
    sha256_hex(function.as_bytes())[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_counted_by_function_and_stopped_at_the_seventeenth() {
        let mut trace = Trace::begun().invoking("foreground");
        for times in 0..16 {
            assert!(!trace.is_stopped_at("background"), "{times}");
            trace = Trace::read(&trace.invoking("background").to_string()).expect("its own header");
        }
        assert_eq!((trace.times("foreground"), trace.times("background")), (1, 16));
        assert!(trace.is_stopped_at("background") && !trace.is_stopped_at("foreground"));
        assert_ne!(Trace::begun().root, trace.root);
    }

    #[test]
    fn what_has_no_lineage_yet_has_none_and_nonsense_is_none() {
        let trace = Trace::begun();
        assert_eq!(Trace::read(&trace.to_string()), Some(trace));
        for nonsense in ["", "Sampled=0", "Root=1;Lineage=x", "Root=1;Lineage=a:b"] {
            assert_eq!(Trace::read(nonsense), None, "{nonsense}");
        }
    }
}
