//! The lock file of a checkout that lacks a package: as cargo writes it, and nothing else in it changed.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::side::Side;
use crate::run::passes;

/// Lets cargo take the package out of B's lock file.
pub fn without(package: &str, a: &Side, b: &Side) -> Result<()> {
    let mut update = b.cargo(&["update", "--quiet", "--workspace", "--offline"]);
    ensure!(
        passes(&mut update)?,
        "cargo can't bring the lock file of the checkout without `{package}` up to date (see above)"
    );
    let read = |side: &Side| fs::read_to_string(side.checkout.join("Cargo.lock"));
    let expected = cut(&read(a)?, package).with_context(|| format!("Cargo.lock has no one package `{package}`"))?;
    ensure!(
        read(b)? == expected,
        "without `{package}` more than its entry changes in Cargo.lock"
    );
    Ok(())
}

/// The text without this package's entry. `None` if it hasn't exactly one.
fn cut(lock: &str, package: &str) -> Option<String> {
    const ENTRY: &str = "[[package]]\n";
    let name = format!("name = \"{package}\"\n");
    let (kept, cut): (Vec<&str>, Vec<&str>) = lock.split(ENTRY).partition(|entry| !entry.starts_with(&name));
    let [entry] = cut.as_slice() else { return None };
    let text = kept.join(ENTRY);
    // The last entry has no empty line behind it, and neither has what becomes the last one.
    Some(match entry.ends_with("\n\n") {
        true => text,
        false => text.strip_suffix('\n').unwrap_or(&text).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn one_entry_is_cut_out() {
        let entry = |name: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
        let lock = |names: &[&str]| {
            let entries: Vec<_> = names.iter().map(|name| entry(name)).collect();
            format!("version = 4\n\n{}", entries.join("\n"))
        };
        let all = lock(&["a", "background", "background-job"]);
        assert_eq!(cut(&all, "background"), Some(lock(&["a", "background-job"])));
        assert_eq!(cut(&all, "background-job"), Some(lock(&["a", "background"])));
        assert_eq!(cut(&all, "c"), None);
        assert_eq!(cut(&lock(&["a", "a"]), "a"), None);
    }
}
