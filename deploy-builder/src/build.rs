//! `cargo lambda build`, a package at a time: built together, the features that one function asks of a library would
//! leak into another.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::elf;
use crate::flags;
use crate::metadata::Workspace;
use crate::plan::{Arch, BOOTSTRAP, Function};
use crate::progress::Progress;
use crate::tools::Tools;

/// Settings of whoever calls that would change what is built: of cargo-lambda, and of the release profile.
const CLEARED: [&str; 2] = ["CARGO_LAMBDA_", "CARGO_PROFILE_"];
/// So would these.
const INCREMENTAL: [&str; 2] = ["CARGO_INCREMENTAL", "CARGO_BUILD_INCREMENTAL"];
/// And flags: a deployment's are always the same.
const FLAGS: [&str; 6] = [
    "RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CFLAGS",
    "CXXFLAGS",
    "TARGET_CFLAGS",
    "TARGET_CXXFLAGS",
];
/// What of them is for one target.
const FLAGS_OF_TARGETS: [&str; 2] = ["CFLAGS_", "CXXFLAGS_"];
/// In the target folder; whoever has locked it builds.
const LOCK: &str = ".deploy-builder.lock";

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{package}` doesn't build ({status}): what cargo said is above. Nothing was written")]
    Failed {
        package: String,
        status: ExitStatus,
        /// All that cargo said.
        output: String,
    },
    #[error("{what} ({path})")]
    Io {
        what: &'static str,
        path: String,
        source: std::io::Error,
    },
    #[error("{path} {problem}")]
    NotOfArch { path: String, problem: String },
}

/// How everything is built.
#[derive(Debug)]
pub struct Builder<'a> {
    pub workspace: &'a Workspace,
    pub tools: &'a Tools,
    /// For every target crate.
    pub rustflags: String,
}

impl Builder<'_> {
    /// The function's program.
    pub fn build(&self, function: &Function, progress: &mut Progress) -> Result<Vec<u8>, BuildError> {
        let folder = self.workspace.target.join("lambda").join(&function.bin);
        clean(&folder)?;
        self.run(function, progress)?;
        let path = folder.join(BOOTSTRAP);
        let program = std::fs::read(&path).map_err(io("cargo-lambda left no program that can be read", &path))?;
        elf::check(&program, function.arch).map_err(|problem| BuildError::NotOfArch {
            path: path.display().to_string(),
            problem,
        })?;
        Ok(program)
    }

    fn run(&self, function: &Function, progress: &mut Progress) -> Result<(), BuildError> {
        let program = &self.tools.cargo_lambda;
        let failed = || io("cargo-lambda can't be run", program);
        let (reader, writer) = std::io::pipe().map_err(failed())?;
        let mut command = self.command(function);
        command.stdout(writer.try_clone().map_err(failed())?).stderr(writer);
        let mut child = command.spawn().map_err(failed())?;
        // It holds the writing ends of the pipe, which would never end.
        drop(command);
        let mut output = String::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(failed())?).into_owned();
            progress.said(&line);
            output.push_str(&line);
            output.push('\n');
        }
        let status = child.wait().map_err(failed())?;
        if status.success() {
            return Ok(());
        }
        Err(BuildError::Failed {
            package: function.name.clone(),
            status,
            output,
        })
    }

    fn command(&self, function: &Function) -> Command {
        let mut command = Command::new(&self.tools.cargo_lambda);
        let arch = match function.arch {
            Arch::X86_64 => "--x86-64",
            Arch::Arm64 => "--arm64",
        };
        command
            .args(["lambda", "build", "--release", "--locked", arch])
            .args(["--package", &function.name, "--bin", &function.bin])
            .current_dir(&self.workspace.root)
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(changes_what_is_built) {
                command.env_remove(name);
            }
        }
        command
            .env("CARGO_TARGET_DIR", &self.workspace.target)
            .env(flags::VARIABLE, &self.rustflags);
        command
    }
}

fn changes_what_is_built(variable: &str) -> bool {
    CLEARED
        .iter()
        .chain(&FLAGS_OF_TARGETS)
        .any(|start| variable.starts_with(start))
        || INCREMENTAL.contains(&variable)
        || FLAGS.contains(&variable)
}

/// The flags of this process that a build doesn't heed: whoever set them should know.
pub fn ignored() -> Vec<&'static str> {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    FLAGS.into_iter().chain([flags::VARIABLE]).filter(set).collect()
}

/// Of this target folder, until what this returns is dropped: cargo's own lock doesn't cover the program that cargo-lambda
/// copies out of it, which another build would replace while it is being read.
pub fn alone(target: &Path) -> Result<File, BuildError> {
    let path = target.join(LOCK);
    let failed = || io("the target folder can't be locked", &path);
    std::fs::create_dir_all(target).map_err(failed())?;
    let lock = File::create(&path).map_err(failed())?;
    match lock.try_lock() {
        Ok(()) => return Ok(lock),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    eprintln!("another deploy-builder builds in {}: waiting for it", target.display());
    lock.lock().map_err(failed())?;
    Ok(lock)
}

/// The folder is by binary, not by processor: what lies there may be for another one.
fn clean(folder: &Path) -> Result<(), BuildError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("what was built before can't be removed", folder)(error))
        }
        _ => Ok(()),
    }
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path: PathBuf = path.to_owned();
    move |source| BuildError::Io {
        what,
        path: path.display().to_string(),
        source,
    }
}
