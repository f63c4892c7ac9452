//! A workspace to build, and programs to build it with.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outlast_core::digest::sha256_hex;
use tempfile::TempDir;

pub const FLAG: &str = "DURABLE_BACKGROUND";

/// A package of a fixture.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: &'static str,
    pub folder: String,
    /// The lines of its table.
    pub keys: String,
    pub bins: Vec<&'static str>,
}

/// In a folder of its own name.
pub fn package(name: &'static str, keys: &str) -> Package {
    Package {
        name,
        folder: format!("functions/{name}"),
        keys: keys.to_owned(),
        bins: vec![name],
    }
}

pub fn foreground() -> Package {
    package("foreground", "app = 'assistant'\nrole = 'foreground'")
}

pub fn background() -> Package {
    package("background", "app = 'assistant'\nrole = 'background'")
}

/// With a second app.
pub fn two_apps() -> Vec<Package> {
    vec![
        foreground(),
        background(),
        package(
            "admin",
            "app = 'admin'\nrole = 'foreground'\nbase-path = '/admin'\nmemory-mb = 128",
        ),
        package(
            "admin-jobs",
            "app = 'admin'\nrole = 'background'\ntimeout-seconds = 600",
        ),
    ]
}

/// What a tree holds: a hash a file.
pub type Tree = BTreeMap<String, String>;

pub struct Fixture {
    folder: TempDir,
    stubs: PathBuf,
}

impl Fixture {
    pub fn new(packages: &[Package]) -> Self {
        let folder = tempfile::Builder::new().prefix("a workspace ").tempdir().unwrap();
        let stubs = folder.path().join("stubs");
        let fixture = Fixture { folder, stubs };
        for made in [&fixture.stubs, &fixture.record(), &fixture.path("ws")] {
            fs::create_dir(made).unwrap();
        }
        fixture.stub("cargo-lambda");
        fixture.stub("zig");
        fixture.workspace(packages);
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn record(&self) -> PathBuf {
        self.path("record")
    }

    /// How cargo-lambda was called, a line a call.
    pub fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.record().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// Puts it on PATH. A link: a program that was only just written can't always be run, while other tests fork.
    pub fn stub(&self, name: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/builds/stubs")
            .join(name);
        std::os::unix::fs::symlink(script, self.stubs.join(name)).unwrap();
    }

    pub fn without(&self, stub: &str) {
        fs::remove_file(self.stubs.join(stub)).unwrap();
    }

    /// The members in this order, and a library that is no function.
    fn workspace(&self, packages: &[Package]) {
        let root = self.path("ws");
        let folders: Vec<_> = packages.iter().map(|package| format!("'{}'", package.folder)).collect();
        let members = folders.join(", ");
        let lock: String = packages
            .iter()
            .map(|package| package.name)
            .chain(["library"])
            .map(|name| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n"))
            .collect();
        write(
            &root.join("Cargo.toml"),
            &format!("[workspace]\nresolver = '3'\nmembers = ['library', {members}]\n"),
        );
        write(&root.join("Cargo.lock"), &format!("version = 4\n{lock}"));
        write(
            &root.join("library/Cargo.toml"),
            "[package]\nname = 'library'\nversion = '0.1.0'\nedition = '2024'\n",
        );
        write(&root.join("library/src/lib.rs"), "");
        for package in packages {
            let folder = root.join(&package.folder);
            let mut text = format!(
                "[package]\nname = '{}'\nversion = '0.1.0'\nedition = '2024'\n\n[package.metadata.outlast]\n{}\n",
                package.name, package.keys
            );
            for bin in &package.bins {
                text += &format!("\n[[bin]]\nname = '{bin}'\npath = 'src/{bin}.rs'\n");
                write(&folder.join(format!("src/{bin}.rs")), "fn main() {}\n");
            }
            // One without a binary is a library.
            write(&folder.join("src/lib.rs"), "");
            write(&folder.join("Cargo.toml"), &text);
        }
    }

    /// `deploy-builder build` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("build").args(args);
        command
    }

    /// `deploy-builder`, in the workspace; nothing of our own environment decides.
    pub fn program(&self) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.stubs.clone()].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new(env!("CARGO_BIN_EXE_deploy-builder"));
        for (name, _) in std::env::vars_os() {
            let decides = |name: &str| name.contains("RUSTFLAGS") || name.starts_with("CARGO_LAMBDA_");
            if name.to_str().is_some_and(decides) {
                command.env_remove(name);
            }
        }
        for name in [FLAG, "CARGO_TARGET_DIR", "RUSTC"] {
            command.env_remove(name);
        }
        command
            .current_dir(self.path("ws"))
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("STUB_RECORD", self.record());
        command
    }

    /// Only the stubs are on PATH, and cargo has nothing installed.
    pub fn bare_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("PATH", &self.stubs).env("CARGO_HOME", self.path("no-home"));
        command.env("CARGO_ZIGBUILD_PYTHON_PATH", self.path("no-python"));
        command.env_remove("CARGO_ZIGBUILD_ZIG_PATH");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    /// What a build under this flag puts out.
    pub fn built(&self, flag: Option<&str>) -> Tree {
        self.built_with(flag, &[])
    }

    pub fn built_with(&self, flag: Option<&str>, variables: &[(&str, &str)]) -> Tree {
        let mut command = self.command(&["--out", "../out"]);
        command
            .envs(flag.map(|flag| (FLAG, flag)))
            .envs(variables.iter().copied());
        let ran = ran(&mut command);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        tree(&self.path("out"))
    }

    pub fn manifest(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.path("out/manifest.json")).unwrap()).unwrap()
    }

    /// The names beside the workspace, hidden ones included.
    pub fn beside(&self) -> Vec<String> {
        names(self.folder.path())
    }
}

/// How it ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

pub fn tree(folder: &Path) -> Tree {
    let names = names(folder).into_iter();
    names
        .map(|name| {
            let hash = sha256_hex(&fs::read(folder.join(&name)).unwrap());
            (name, hash)
        })
        .collect()
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    let mut names: Vec<_> = names
        .iter()
        .map(|name| OsStr::to_str(name).unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}
