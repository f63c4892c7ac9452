//! The programs that a build needs, looked for before it starts. A missing one is said with the command that installs it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::plan::Arch;

/// What was found.
#[derive(Clone, Debug)]
pub struct Tools {
    pub cargo_lambda: PathBuf,
    pub rust: Rust,
}

/// Of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rust {
    pub sysroot: PathBuf,
    pub commit: String,
}

#[derive(Debug, thiserror::Error)]
pub enum MissingTool {
    #[error(
        "cargo-lambda is not installed, or not on PATH. It builds functions, and needs zig to link them. In a Python \
         environment, which brings both:\n  python3 -m venv .venv && . .venv/bin/activate && \
         pip install cargo-lambda==1.9.2 ziglang==0.17.1\nor `cargo install cargo-lambda --locked`, and zig"
    )]
    CargoLambda,
    #[error(
        "zig is not installed: cargo-lambda links functions with it. It is looked for on PATH, and as the Python module \
         `ziglang` of the first python3 on PATH (or of CARGO_ZIGBUILD_PYTHON_PATH):\n  pip install ziglang==0.17.1"
    )]
    Zig,
    #[error("Rust's standard library for {arch} is not installed:\n  rustup target add {triple}")]
    Target { arch: Arch, triple: &'static str },
    #[error("rustc can't be asked where its libraries are: install Rust, such as with rustup ({problem})")]
    Rustc { problem: String },
}

/// In the workspace's folder, where a toolchain file counts.
pub fn find(workspace: &Path, arch: Arch) -> Result<Tools, MissingTool> {
    let cargo_lambda = on_path("cargo-lambda").ok_or(MissingTool::CargoLambda)?;
    if !has_zig() {
        return Err(MissingTool::Zig);
    }
    let rust = rust(workspace)?;
    let triple = triple(arch);
    let libraries = rustc(workspace, &["--print", "target-libdir", "--target", triple])?;
    if !Path::new(&libraries).is_dir() {
        return Err(MissingTool::Target { arch, triple });
    }
    Ok(Tools { cargo_lambda, rust })
}

pub fn triple(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "x86_64-unknown-linux-gnu",
        Arch::Arm64 => "aarch64-unknown-linux-gnu",
    }
}

/// Where cargo finds its subcommands, too.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(crate::flags::cargo_home().map(|home| home.join("bin")));
    folders.map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Where cargo-lambda looks.
fn has_zig() -> bool {
    let named = std::env::var_os("CARGO_ZIGBUILD_ZIG_PATH").is_some_and(|zig| is_program(Path::new(&zig)));
    let python = std::env::var_os("CARGO_ZIGBUILD_PYTHON_PATH").unwrap_or_else(|| "python3".into());
    named || on_path("zig").is_some() || succeeds(&python, &["-m", "ziglang", "version"])
}

fn succeeds(program: &OsStr, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// In the workspace's folder, too.
pub fn rust(workspace: &Path) -> Result<Rust, MissingTool> {
    let version = rustc(workspace, &["-vV"])?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    Ok(Rust {
        sysroot: rustc(workspace, &["--print", "sysroot"])?.into(),
        commit: commit.unwrap_or("unknown").to_owned(),
    })
}

fn rustc(workspace: &Path, args: &[&str]) -> Result<String, MissingTool> {
    let problem = |problem: &dyn std::fmt::Display| MissingTool::Rustc {
        problem: problem.to_string(),
    };
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).args(args).current_dir(workspace).output();
    let output = output.map_err(|error| problem(&error))?;
    if !output.status.success() {
        return Err(problem(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
