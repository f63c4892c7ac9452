//! The cargo commands behind each task.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use crate::fetch::{self, Tools};

/// The packages whose binaries tests and benchmarks start as processes.
const STARTED: [&str; 3] = ["foreground", "background", "outlast-cli"];

pub fn fetch() -> Result<bool> {
    let tools = fetch::tools(&target_folder()?)?;
    eprintln!("DynamoDB Local: {}", tools.dynamodb_local.display());
    eprintln!("Java:           {}", tools.java.display());
    eprintln!("cargo-lambda:   {}", tools.cargo_lambda.display());
    Ok(true)
}

/// Runs the tests. The test runner comes last, so that its summary is the end of the output.
pub fn test(args: &[String]) -> Result<bool> {
    let target = target_folder()?;
    let tools = fetch::tools(&target)?;
    if !build_started(&[])? {
        return Ok(false);
    }
    let bins = target.join("debug");

    let docs_passed = if args.is_empty() {
        passes(&mut cargo(&["test", "--doc", "--workspace"]))?
    } else {
        eprintln!("xtask: running only the tests chosen by the arguments, and no doc tests");
        true
    };

    let runner: &[&str] = if has_nextest() {
        &["nextest", "run"]
    } else {
        eprintln!("xtask: cargo-nextest is lacking (`cargo install cargo-nextest --locked`), so `cargo test` runs");
        &["test", "--tests"]
    };
    let mut tests = cargo(runner);
    if !args
        .iter()
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
    {
        tests.arg("--workspace");
    }
    let tests_passed = passes(with_tools(tests.args(args), &tools, &bins))?;
    if !docs_passed {
        eprintln!("xtask: doc tests failed, see above");
    }
    Ok(docs_passed && tests_passed)
}

pub fn bench(args: &[String]) -> Result<bool> {
    if !build_started(&["--release"])? {
        return Ok(false);
    }
    let bins = target_folder()?.join("release");
    let mut bench = cargo(&["bench", "--package", "outlast-benches", "--bench", "figures", "--"]);
    passes(bench.args(args).env("OUTLAST_TEST_BIN_DIR", bins))
}

/// Built without the rest of the workspace, so that they lack what only tests switch on in their dependencies.
fn build_started(options: &[&str]) -> Result<bool> {
    let mut build = cargo(&["build"]);
    build
        .args(options)
        .args(STARTED.map(|package| format!("--package={package}")));
    passes(&mut build)
}

fn with_tools<'a>(command: &'a mut Command, tools: &Tools, bins: &Path) -> &'a mut Command {
    command
        .env("OUTLAST_TEST_DYNAMODB_LOCAL", &tools.dynamodb_local)
        .env("OUTLAST_TEST_JAVA", &tools.java)
        .env("OUTLAST_TEST_CARGO_LAMBDA", &tools.cargo_lambda)
        .env("OUTLAST_TEST_BIN_DIR", bins)
}

fn has_nextest() -> bool {
    let mut ask = cargo(&["nextest", "--version"]);
    ask.stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace());
    command
}

pub fn passes(command: &mut Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("could not start {:?}", command.get_program()))?;
    Ok(status.success())
}

/// Where cargo puts what it builds, and this program what it fetches.
pub fn target_folder() -> Result<PathBuf> {
    match env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => std::path::absolute(folder).context("CARGO_TARGET_DIR is not a path"),
        None => Ok(workspace().join("target")),
    }
}

pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}
