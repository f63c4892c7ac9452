//! `outlast dev` as a child process that a test may kill at any moment and start again on the same data.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Where `cargo` put the programs that tests start.
pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("OUTLAST_TEST_BIN_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            let test = std::env::current_exe().expect("a test knows its own path");
            test.ancestors()
                .nth(2)
                .expect("tests lie in deps/ beside the programs")
                .to_owned()
        });
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is not built: `cargo build --workspace --bins`",
        path.display()
    );
    path
}

/// A data folder and the arguments of the `dev` that serves it.
pub struct Dev {
    program: PathBuf,
    arguments: Vec<String>,
    data: tempfile::TempDir,
    address: String,
    child: Option<Child>,
}

impl Dev {
    pub async fn start(arguments: &[&str]) -> Dev {
        Dev::start_program("outlast", &["dev"], arguments).await
    }

    /// The same with another program that serves another app the same way.
    pub async fn start_program(name: &str, leading: &[&str], arguments: &[&str]) -> Dev {
        let address = free_address();
        let data = tempfile::tempdir().expect("a temporary folder");
        let all = leading.iter().chain(arguments).map(|argument| (*argument).to_owned());
        let mut dev = Dev {
            program: program(name),
            arguments: all.collect(),
            data,
            address,
            child: None,
        };
        dev.restart().await;
        dev
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts it again on the same data and address; returns when it says that it is ready.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(["--listen", &self.address, "--data"])
            .arg(self.data.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.expect("readable output") {
                if line.contains("ready") {
                    return;
                }
            }
            panic!("dev ended before it was ready");
        };
        tokio::time::timeout(Duration::from_secs(30), ready)
            .await
            .expect("dev is ready within 30 s");
        // Keeps the pipe open and empty: a closed one would end the child at its next line.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.child = Some(child);
    }

    /// SIGKILL; returns when the process is gone.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().await.expect("it can be killed");
    }

    /// Whether the process has ended by itself, as one that aborts does; then it can be restarted.
    pub fn has_died(&mut self) -> bool {
        let died = self
            .child
            .as_mut()
            .is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
        if died {
            self.child = None;
        }
        died
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = reqwest::get(format!("{}{path}", self.url()))
            .await
            .expect("dev answers");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json().await.expect("JSON")
    }

    /// Posts JSON; the status and the body.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url())).json(body);
        let response = request.send().await.expect("dev answers");
        let status = response.status().as_u16();
        (status, response.json().await.expect("JSON"))
    }

    /// Starts a plan; the run's id.
    pub async fn start_plan(&self, plan: &Value) -> String {
        let (status, body) = self
            .post("/api/v1/runs", &serde_json::json!({ "agent": "plan", "input": plan }))
            .await;
        assert_eq!(status, 202, "{body}");
        body["runId"].as_str().expect("a run id").to_owned()
    }

    pub async fn show(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/runs/{run}")).await
    }

    /// All events of a run so far.
    pub async fn events(&self, run: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let after = events
                .last()
                .map_or(0, |event: &Value| event["seq"].as_u64().expect("a seq"));
            let mut page = self.get(&format!("/api/v1/runs/{run}/events?after={after}")).await;
            let more = std::mem::take(page["events"].as_array_mut().expect("events"));
            if more.is_empty() {
                return events;
            }
            events.extend(more);
        }
    }

    /// Waits for the run's end; what `show` then says.
    pub async fn ended(&self, run: &str, timeout: Duration) -> Value {
        let mut shown = Value::Null;
        crate::wait::wait_until(format!("run {run} has ended"), timeout, async || {
            shown = self.show(run).await;
            !shown["endedAt"].is_null()
        })
        .await;
        shown
    }
}

/// A port on loopback that was free a moment ago.
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}
