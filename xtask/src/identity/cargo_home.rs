//! A second CARGO_HOME, for which nothing is fetched again.

use std::{fs, path::Path};

use anyhow::Result;

use super::copies::{below, update};

/// What cargo has downloaded. It unpacks it anew.
const ARCHIVES: &str = "registry/cache";
/// What it knows of the packages of a registry. It may write there.
const INDEX: &str = "registry/index";
/// Where the registry is, if a mirror stands in for it. The newer name comes last: cargo prefers the older one.
const CONFIGURATION: [&str; 2] = ["config", "config.toml"];

pub fn second(first: &Path, second: &Path) -> Result<()> {
    fs::create_dir_all(second)?;
    for name in CONFIGURATION {
        match first.join(name).is_file() {
            true => update(&first.join(name), &second.join(name))?,
            false if second.join(name).exists() => fs::remove_file(second.join(name))?,
            false => {}
        }
    }
    each(first, second, INDEX, update)?;
    each(first, second, ARCHIVES, link)
}

/// Nothing, where the registry is a folder.
fn each(first: &Path, second: &Path, inner: &str, put: impl Fn(&Path, &Path) -> Result<()>) -> Result<()> {
    if !first.join(inner).is_dir() {
        return Ok(());
    }
    for file in below(first, Path::new(inner))? {
        put(&first.join(&file), &second.join(&file))?;
    }
    Ok(())
}

/// An archive's name has its version: what is there under this name is this.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // On another file system it is a copy.
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to)?;
    }
    Ok(())
}
