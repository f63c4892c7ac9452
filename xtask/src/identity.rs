//! `cargo xtask identity`: the splitter's promise, on real builds.
//!
//! A is this checkout, built with the flag unset. B is what there would be if there were no splitter: a checkout without
//! the background function, and a `deploy-builder` without the module that reads the flag; at another path, with another
//! CARGO_HOME and in another time zone, too. Both put out the same bytes, and nothing but a build under the flag changes
//! A's.
//!
//! - [`copies`]: the two checkouts, which keep their target folders from run to run;
//! - [`lock`]: the lock file of the second one; [`cargo_home`]: its CARGO_HOME, for which nothing is fetched again;
//! - [`side`]: one of the two, and what can be built there;
//! - [`checks`]: what is compared with what, after the two builds;
//! - [`additions`]: a manifest that only grew; [`difference`]: where bytes differ, and what stands there;
//! - [`report`]: how far it is, and the table at its end.

mod additions;
mod cargo_home;
mod checks;
mod copies;
mod difference;
mod lock;
mod report;
mod side;

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{
    cargo_lambda, fetch,
    run::{cargo, passes, target_folder, workspace},
};
use report::{Progress, Report};
use side::{Output, Side};

/// What asks for background functions, and only `deploy-builder` may read.
pub const FLAG: &str = "DURABLE_BACKGROUND";
/// What the second checkout lacks: the package and its folder.
const BACKGROUND: &str = "background";
const BACKGROUND_FOLDER: &str = "functions/background";

#[derive(Args)]
pub struct Options {
    /// Forget what earlier runs built
    #[arg(long)]
    cold: bool,
    /// Build A and B one after the other: slower, and takes half the memory
    #[arg(long)]
    one_by_one: bool,
}

/// Whether everything is as promised.
pub fn identity(options: &Options) -> Result<bool> {
    let progress = Progress::new();
    let target = target_folder()?;
    let folder = target.join("identity");
    fs::create_dir_all(&folder)?;
    let folder = fs::canonicalize(folder)?;
    // Held until this function returns: two runs never write into the same copies.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;

    let path = cargo_lambda::path_with(&cargo_lambda_folder(&target)?)?;
    if options.cold {
        progress.say("removing what earlier runs built");
        for side in ["a", "b"] {
            copies::remove_folder(&folder.join(side))?;
        }
    }
    let (a, b) = sides(&folder, &path)?;
    progress.say("copying the checkout, for B without its background function");
    prepare(&a, &b)?;
    progress.say("building deploy-builder, for B without its feature `split`");
    deploy_builder(&a.builder, &[], &target)?;
    deploy_builder(&b.builder, &["--no-default-features"], &target)?;

    let (of_a, of_b) = built(&a, &b, options, &progress)?;
    let mut report = Report::default();
    checks::same(&mut report, "A and B", &a, (&of_a, &of_b))?;
    checks::words(&mut report, &a, &b)?;
    checks::everything_else(&mut report, &progress, &a, &of_a)?;
    progress.say("done");
    Ok(report.print())
}

/// What `cargo xtask fetch` gets, unless a test runner says where it is.
fn cargo_lambda_folder(target: &Path) -> Result<PathBuf> {
    match env::var_os("OUTLAST_TEST_CARGO_LAMBDA") {
        Some(folder) => Ok(folder.into()),
        None => fetch::cargo_lambda(target),
    }
}

fn sides(folder: &Path, path: &OsString) -> Result<(Side, Side)> {
    let home = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let home = home
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")));
    let home = home.context("neither CARGO_HOME nor a home folder is known")?;
    let (a, b) = (folder.join("a"), folder.join("b"));
    let of_a = Side {
        name: "A",
        checkout: a.join("outlast"),
        // Where cargo puts it by itself.
        target: a.join("outlast/target"),
        cargo_home: std::path::absolute(home)?,
        time_zone: "UTC",
        // Given anew with each command.
        flag: None,
        builder: a.join("deploy-builder"),
        out: a.join("out"),
        path: path.clone(),
    };
    let of_b = Side {
        name: "B",
        checkout: b.join("another place/outlast"),
        target: b.join("another target"),
        cargo_home: b.join("another home"),
        time_zone: "Pacific/Kiritimati",
        // Set, and nobody there knows what it means.
        flag: Some("1"),
        builder: b.join("deploy-builder"),
        out: b.join("out"),
        path: path.clone(),
    };
    Ok((of_a, of_b))
}

/// All that the two builds read, so that neither fetches anything.
fn prepare(a: &Side, b: &Side) -> Result<()> {
    let files = copies::files(workspace())?;
    copies::sync(workspace(), &a.checkout, &files)?;
    let without: Vec<_> = files
        .into_iter()
        .filter(|file| !file.starts_with(BACKGROUND_FOLDER))
        .collect();
    copies::sync(workspace(), &b.checkout, &without)?;

    // Nothing is fetched where the stages before have fetched it.
    let mut fetch = a.cargo(&["fetch", "--quiet", "--locked", "--target", &side::triple()]);
    ensure!(
        passes(&mut fetch)?,
        "the packages can't be fetched (see above), or Cargo.lock is not up to date"
    );
    cargo_home::second(&a.cargo_home, &b.cargo_home).context("the second CARGO_HOME can't be made")?;
    lock::without(BACKGROUND, a, b)
}

/// In the usual target folder, where most of it is built already. It comes to the same as in the copies: their
/// `deploy-builder` is this one.
fn deploy_builder(to: &Path, features: &[&str], target: &Path) -> Result<()> {
    let mut build = cargo(&["build", "--quiet", "--locked", "--package", "deploy-builder"]);
    if !passes(build.args(features))? {
        bail!("deploy-builder doesn't build");
    }
    let built = target.join("debug/deploy-builder");
    fs::copy(&built, to).with_context(|| format!("could not copy {}", built.display()))?;
    Ok(())
}

/// Side by side: the end of each build, in which the linker optimises, knows only one thread.
fn built(a: &Side, b: &Side, options: &Options, progress: &Progress) -> Result<(Output, Output)> {
    let build = |side: &Side| {
        progress.say(&format!("{}: building", side.name));
        let output = side.build("off", None, progress);
        progress.say(&format!("{}: has ended", side.name));
        output
    };
    if options.one_by_one {
        return Ok((build(a)?, build(b)?));
    }
    let (of_a, of_b) = thread::scope(|scope| {
        let of_a = scope.spawn(|| build(a));
        let of_b = build(b);
        (of_a.join(), of_b)
    });
    Ok((of_a.expect("building doesn't panic")?, of_b?))
}

/// What a program says on stdout; its stderr is ours.
fn said(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("{program} does not start"))?;
    ensure!(output.status.success(), "{program} failed ({})", output.status);
    Ok(output.stdout)
}
