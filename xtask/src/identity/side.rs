//! A or B: a checkout with all that surrounds a build in it.

use std::{
    collections::BTreeMap,
    env::{self, consts::ARCH},
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{FLAG, copies::remove_folder, report::Progress, said};

/// What was put out.
pub struct Output {
    /// What to call it.
    pub name: String,
    pub folder: PathBuf,
    /// The bytes of each file.
    pub files: BTreeMap<String, Vec<u8>>,
}

pub struct Side {
    pub name: &'static str,
    pub checkout: PathBuf,
    pub target: PathBuf,
    pub cargo_home: PathBuf,
    pub time_zone: &'static str,
    /// Its value in every command.
    pub flag: Option<&'static str>,
    /// Its `deploy-builder`.
    pub builder: PathBuf,
    /// What it puts out, a folder a build.
    pub out: PathBuf,
    /// With cargo-lambda.
    pub path: OsString,
}

impl Side {
    /// In the checkout, and with nothing of our environment that says how to build.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(says_how_to_build) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.checkout)
            .env("PATH", &self.path)
            .env("CARGO_HOME", &self.cargo_home)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("TZ", self.time_zone)
            .env_remove(FLAG)
            .envs(self.flag.map(|flag| (FLAG, flag)))
            .stdin(Stdio::null());
        command
    }

    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(args);
        command
    }

    /// `deploy-builder build` under this flag, into a folder of this name.
    pub fn build(&self, folder: &str, flag: Option<&str>, progress: &Progress) -> Result<Output> {
        let out = self.out.join(folder);
        // What is read afterwards was written now.
        remove_folder(&out)?;
        let mut build = self.command(&self.builder);
        build
            .args(["build", "--arch", arch(), "--out"])
            .arg(&out)
            // Whatever isn't here by now would be fetched into one CARGO_HOME only.
            .env("CARGO_NET_OFFLINE", "true")
            .envs(flag.map(|flag| (FLAG, flag)));
        self.run(&mut build, progress)?;
        Ok(Output {
            name: format!("{} ({folder})", self.name),
            files: files(&out)?,
            folder: out,
        })
    }

    /// Whether `deploy-builder build --verify` is content, and what it says.
    pub fn verifies(&self, folder: &str, flag: Option<&str>) -> Result<(bool, String)> {
        let mut verify = self.command(&self.builder);
        verify.args(["build", "--verify"]).arg(self.out.join(folder));
        let output = verify.envs(flag.map(|flag| (FLAG, flag))).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&said).trim().to_owned(),
        ))
    }

    /// A plain `cargo lambda build`, under deploy-builder's flags, with the splitter's flag set. What it made.
    pub fn plain(&self, package: &str, progress: &Progress) -> Result<Vec<u8>> {
        let mut ask = self.command(&self.builder);
        let flags = said(ask.args(["flags", "--arch", arch()]))?;
        let flags = String::from_utf8(flags).context("the compiler's flags are no text")?;
        let flags: Vec<_> = flags.lines().collect();
        let made = self.target.join("lambda").join(package);
        remove_folder(&made)?;
        let mut build = self.cargo(&["lambda", "build", "--release", "--locked"]);
        build
            .args(["--package", package, "--bin", package])
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env("CARGO_NET_OFFLINE", "true")
            .env(FLAG, "1");
        self.run(&mut build, progress)?;
        let made = made.join("bootstrap");
        fs::read(&made).with_context(|| format!("could not read {}", made.display()))
    }

    /// The program in a zip that was put out. Python can read those, and cargo-lambda's environment has it.
    pub fn bootstrap(&self, output: &Output, file: &str) -> Result<Vec<u8>> {
        let read = "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read('bootstrap'))";
        let mut python = self.command("python3");
        said(python.args(["-c", read]).arg(output.folder.join(file)))
    }

    /// Says what it says, with our name before each line.
    fn run(&self, command: &mut Command, progress: &Progress) -> Result<()> {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} does not start", command.get_program().display()))?;
        // The command holds the writing ends of the pipe, which would never end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(reader).split(b'\n') {
            let line = line?;
            progress.say(&format!("{}: {}", self.name, String::from_utf8_lossy(&line).trim_end()));
        }
        let status = child.wait()?;
        ensure!(
            status.success(),
            "{}: the build failed ({status}), see above",
            self.name
        );
        Ok(())
    }
}

/// This machine's: the one for which Rust's libraries are there.
pub fn triple() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

fn arch() -> &'static str {
    match ARCH {
        "aarch64" => "arm64",
        _ => "x86_64",
    }
}

/// What deploy-builder takes out of the environment too, and what cargo told us of ourselves when it started us.
fn says_how_to_build(variable: &str) -> bool {
    let starts = ["CARGO_LAMBDA_", "CARGO_PROFILE_", "CARGO_PKG_", "CARGO_MANIFEST_"];
    let names = [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_BUILD_INCREMENTAL",
        "CFLAGS",
        "CXXFLAGS",
        "TARGET_CFLAGS",
        "TARGET_CXXFLAGS",
        "CARGO_INCREMENTAL",
    ];
    starts.iter().any(|start| variable.starts_with(start)) || names.contains(&variable)
}

fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    entries
        .map(|entry| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, fs::read(path)?))
        })
        .collect()
}
