//! `outlast dev` as a child process, to be killed and started again on the same data and port.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::import;

const READY_WITHIN: Duration = Duration::from_secs(60);
/// How much of its log is shown when something went wrong.
const LOG_LINES: usize = 20;

pub struct Server {
    folder: PathBuf,
    cap_seconds: u32,
    child: Child,
    url: String,
}

impl Server {
    pub async fn start(folder: &Path, cap_seconds: u32) -> anyhow::Result<Self> {
        let (child, url) = spawn(folder, cap_seconds, "127.0.0.1:0").await?;
        Ok(Self {
            folder: folder.to_owned(),
            cap_seconds,
            child,
            url,
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The process's number, or 0 for one that has ended.
    pub fn process(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// SIGKILL; returns when the process is gone.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("the server can't be killed")
    }

    /// At the address that it had.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let address = self.url.trim_start_matches("http://");
        let (child, _) = spawn(&self.folder, self.cap_seconds, address).await?;
        self.child = child;
        Ok(())
    }

    pub fn show_log(&self) {
        show_log(&self.folder);
    }
}

async fn spawn(folder: &Path, cap_seconds: u32, address: &str) -> anyhow::Result<(Child, String)> {
    let log = File::options().create(true).append(true).open(log_path(folder));
    let cap = cap_seconds.to_string();
    let mut child = Command::new(std::env::current_exe().context("this program can't find itself")?)
        .args([
            "dev",
            "--listen",
            address,
            "--foreground-cap",
            &cap,
            "--background-cap",
            &cap,
        ])
        .args([
            "--table",
            &format!("{}:{}", import::TABLE, import::KEY),
            "--end-with-stdin",
        ])
        .arg("--data")
        .arg(folder.join("data"))
        // Held by this process: should it be killed itself, the child ends too.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log.context("no log file in the temporary folder")?)
        .kill_on_drop(true)
        .spawn()
        .context("the server can't be started")?;
    let stdout = child.stdout.take().context("the server has no stdout")?;
    let mut lines = BufReader::new(stdout).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            if let Some((_, url)) = line.split_once("ready at ") {
                return Ok(url.trim().to_owned());
            }
        }
        bail!("the server ended before it was ready")
    };
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(Ok(url)) => Ok((child, url)),
        Ok(Err(error)) => {
            show_log(folder);
            Err(error)
        }
        Err(_) => {
            show_log(folder);
            bail!("the server was not ready within {} s", READY_WITHIN.as_secs())
        }
    }
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn show_log(folder: &Path) {
    let log = std::fs::read_to_string(log_path(folder)).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    for line in &lines[from..] {
        eprintln!("server: {line}");
    }
}
