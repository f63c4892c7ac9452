//! Processes of their own, which are gone when the benchmark is.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use outlast_runtime::{Host as Entry, local, wiring};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::host::Host;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// Before the URL, in the one line that a server of ours says when it is ready.
const READY: &str = "ready at ";

/// `outlast dev` on a data folder, to be killed and started again.
pub struct Dev {
    data: TempDir,
    process: Option<Process>,
}

impl Dev {
    pub async fn start() -> anyhow::Result<Dev> {
        let mut dev = Dev {
            data: tempfile::tempdir()?,
            process: None,
        };
        dev.restart().await?;
        Ok(dev)
    }

    /// Returns when it is ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let data = self.data.path().as_os_str();
        let arguments = ["dev", "--listen", "127.0.0.1:0", "--data"].map(OsStr::new);
        let arguments = arguments.into_iter().chain([data]);
        self.process = Some(Process::start(program("outlast")?, arguments).await?);
        Ok(())
    }

    /// SIGKILL; returns when the process is gone.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let mut process = self.process.take().context("it doesn't run")?;
        Ok(process.child.kill().await?)
    }

    pub fn url(&self) -> anyhow::Result<&str> {
        Ok(&self.process.as_ref().context("it doesn't run")?.url)
    }

    /// What starts a run of this plan.
    pub fn post(&self, client: &reqwest::Client, plan: &Value) -> anyhow::Result<reqwest::RequestBuilder> {
        let body = json!({ "agent": "plan", "input": plan });
        Ok(client.post(format!("{}/api/v1/runs", self.url()?)).json(&body))
    }
}

/// A server in a child process, and where it listens.
pub struct Process {
    pub url: String,
    child: Child,
}

impl Process {
    async fn start(program: PathBuf, arguments: impl IntoIterator<Item = &OsStr>) -> anyhow::Result<Process> {
        let mut child = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, url)) = line.split_once(READY) {
                    return Ok(url.to_owned());
                }
            }
            bail!("{} ended before it was ready", program.display())
        };
        let url = tokio::time::timeout(READY_WITHIN, ready)
            .await
            .context("not ready in time")??;
        // Keeps the pipe open and empty: a closed one would end the child at its next line.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Process { url, child })
    }
}

/// The server of readers in a process of its own: this program, started anew.
pub async fn reader_process(dynamodb: &str) -> anyhow::Result<Process> {
    let arguments = ["--serve-reader", dynamodb].map(OsStr::new);
    Process::start(std::env::current_exe()?, arguments).await
}

/// What that process does: an engine and the router, on tables that another process writes.
pub async fn serve_reader(dynamodb: &str) -> anyhow::Result<()> {
    let host = Host::new(dynamodb, [])?;
    let listener = local::listen(([127, 0, 0, 1], 0).into()).await?;
    println!("{READY}http://{}", listener.local_addr()?);
    let api = wiring::api(host.engine.clone(), Entry::foreground(), String::new());
    Ok(local::serve(listener, outlast_http::router(api), std::future::pending()).await?)
}

/// Where `cargo xtask bench` has put the programs, or where cargo puts them beside this one.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os("OUTLAST_TEST_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = std::env::current_exe()?;
            own.ancestors()
                .nth(2)
                .context("benchmarks lie in deps/ beside the programs")?
                .to_owned()
        }
    };
    let path = folder.join(name);
    if !path.exists() {
        bail!("{} is not built: `cargo xtask bench` builds it", path.display());
    }
    Ok(path)
}
