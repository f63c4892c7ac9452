//! What PyPI carries and we need, each in a virtual environment of its own.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::fetch::run;

/// What to say where it fails.
pub const NEEDS: &str = "python3 with venv (Debian: apt-get install python3-venv) must be there and reach PyPI";

/// Makes `folder` a virtual environment with these packages, each as `name==version`.
///
/// It may be moved afterwards: its `python3` finds itself. Only scripts of packages don't, and nobody calls those.
pub fn venv(folder: &Path, packages: &[&str]) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(folder.join("bin/python3"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run(install.args(packages))
}
