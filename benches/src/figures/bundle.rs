//! What `deploy-builder` puts out: how large it is, and how fast and how lean a function starts.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use outlast_core::env_vars as vars;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::options::Options;
use crate::samples::{Aim, Figure};

/// What a function asks its platform for when it is ready.
const POLL: &[u8] = b"GET /2018-06-01/runtime/invocation/next ";
const WITHIN: Duration = Duration::from_secs(20);

/// The size of the largest zip. There is no floor to it.
pub async fn bundle_size(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let aim = Aim::Megabytes(6.0);
    let mut figure = Figure::sizes("the largest zip", "", aim);
    let sizes = zips(options)?.into_iter().map(|zip| Ok(zip.metadata()?.len()));
    let largest = sizes.collect::<std::io::Result<Vec<_>>>()?.into_iter().max();
    figure.ours.extend(largest.map(megabytes));
    Ok(vec![figure])
}

/// From the start of a function's process to its first poll of the runtime's API, and the most memory that it had by
/// then. The floors: a process that does nothing, from its start to its end; none for memory.
pub async fn cold_start(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let aim = Aim::Milliseconds {
        median: 60.0,
        p99: None,
    };
    let mut time = Figure::times("process start to first poll", "a process that does nothing", aim);
    let mut memory = Figure::sizes("resident memory at the first poll", "", Aim::Megabytes(30.0));
    let folder = tempfile::tempdir()?;
    let programs = zips(options)?
        .iter()
        .map(|zip| unpacked(zip, folder.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..options.samples(40, 3) {
        for program in &programs {
            let (took, resident) = started(program).await?;
            time.took(took);
            memory.ours.push(megabytes(resident));
            let from = Instant::now();
            Command::new("true").status().await?;
            time.floor_took(from.elapsed());
        }
    }
    Ok(vec![time, memory])
}

fn zips(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    let folder = options.bundle.as_deref().context(
        "it needs a bundle: `cargo run -p deploy-builder -- build --out dist`, then `cargo xtask bench --bundle dist`",
    )?;
    let entries = std::fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    let mut zips: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    zips.retain(|path| path.extension().is_some_and(|extension| extension == "zip"));
    zips.sort();
    anyhow::ensure!(!zips.is_empty(), "{} holds no zip", folder.display());
    Ok(zips)
}

fn unpacked(zip: &Path, into: &Path) -> anyhow::Result<PathBuf> {
    let mut archive = zip::ZipArchive::new(File::open(zip)?)?;
    let mut program = Vec::new();
    archive.by_name("bootstrap")?.read_to_end(&mut program)?;
    let name = zip.file_stem().context("a zip without a name")?;
    let path = into.join(name);
    let mut file = File::create(&path)?;
    file.write_all(&program)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// A start, to its first poll; the process is killed then.
async fn started(program: &Path) -> anyhow::Result<(Duration, u64)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(environment(&listener.local_addr()?.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let from = Instant::now();
    let child = command.spawn()?;
    let polled = async {
        let (mut connection, _) = listener.accept().await?;
        let mut said = vec![0; POLL.len()];
        connection.read_exact(&mut said).await?;
        let took = from.elapsed();
        anyhow::ensure!(said == POLL, "it asked for something else first");
        Ok(took)
    };
    let took = tokio::time::timeout(WITHIN, polled)
        .await
        .with_context(|| format!("{} polls nothing", program.display()))??;
    let pid = child.id().context("it has ended")?;
    Ok((took, peak_memory(pid)?))
}

/// In bytes.
fn peak_memory(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kilobytes.context("no VmHWM in the process's status")? * 1024)
}

/// What Lambda tells a function, and a deployment.
fn environment(runtime_api: &str) -> Vec<(&'static str, String)> {
    let fixed = [
        ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "bench"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "bench"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "bench"),
        ("AWS_SECRET_ACCESS_KEY", "bench"),
        // Nobody is there, and at its start a function asks for nothing.
        ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9"),
        (vars::DISPATCH.name, "lambda"),
        (vars::DISPATCH_SECRET.name, "0123456789abcdef0123456789abcdef"),
        (vars::IDENTITY.name, "none"),
    ];
    let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
    fixed
        .into_iter()
        .chain([("AWS_LAMBDA_RUNTIME_API", runtime_api.to_owned())])
        .collect()
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
