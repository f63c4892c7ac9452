//! cargo-lambda, with the Zig that it cross-compiles with, as PyPI carries both.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    fetch::{once, run},
    python,
};

const PACKAGES: [&str; 2] = ["cargo-lambda==1.9.2", "ziglang==0.17.1"];
const FOLDER: &str = "cargo-lambda-1.9.2-ziglang-0.17.1";

/// The virtual environment that holds them.
pub fn fetched(folder: &Path) -> Result<PathBuf> {
    let venv = once(folder, FOLDER, |aside| {
        let specs = PACKAGES.join(" and ");
        eprintln!("xtask: fetching cargo-lambda (PyPI packages {specs}, 100 MB)");
        python::venv(aside, &PACKAGES)?;
        run(Command::new(aside.join("bin/cargo-lambda")).args(["lambda", "--version"]))
    });
    venv.with_context(|| format!("cargo-lambda is lacking; {}", python::NEEDS))
}

/// A PATH on which `bin` comes first: cargo finds cargo-lambda there, and cargo-lambda asks the first `python3` for Zig.
pub fn path_with(bin: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [bin.to_owned()].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).with_context(|| format!("{} can't stand on PATH", bin.display()))
}
