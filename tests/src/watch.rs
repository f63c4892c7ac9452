//! The real functions under the real `cargo lambda watch`, with Amazon's DynamoDB Local.
//!
//! `cargo lambda watch` serves its APIs only, and the test starts the functions' processes: they are built already, and
//! a test can kill them. It is an emulator, and its differences from Lambda are what these tests are about:
//! `docs/WATCH.md` lists them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use outlast_core::env_vars as vars;
use outlast_core::limits::Timing;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::dev::{free_address, program};
use crate::dynamodb_local::DynamoDbLocal;
use crate::tools;
use crate::wait::wait_until;

const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// How chunks are dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// By a POST to the background function.
    Background,
    /// There is no background function: by a POST of the foreground to itself.
    Chained,
    /// By an asynchronous `Invoke` of the background function, which is synchronous here.
    Invoke,
}

pub struct Watch {
    /// Like `127.0.0.1:9000`.
    address: String,
    dispatch: Dispatch,
    variables: Vec<(&'static str, &'static str)>,
    functions: BTreeMap<&'static str, Child>,
    client: reqwest::Client,
    _emulator: Child,
    database: DynamoDbLocal,
}

impl Watch {
    /// With one process for each function.
    pub async fn start(dispatch: Dispatch, variables: &[(&'static str, &'static str)]) -> Watch {
        let database = DynamoDbLocal::start();
        let address = free_address();
        let emulator = emulate(&address).await;
        let mut watch = Watch {
            address,
            dispatch,
            variables: variables.to_vec(),
            functions: BTreeMap::new(),
            client: reqwest::Client::new(),
            _emulator: emulator,
            database,
        };
        // The second time finds them there.
        for _ in 0..2 {
            let endpoint = watch.database.endpoint();
            watch.outlast(&["tables", "--endpoint", &endpoint]).await;
        }
        watch.start_function("foreground");
        if dispatch != Dispatch::Chained {
            watch.start_function("background");
        }
        watch
    }

    /// The URL of a function. Behind that of the foreground is the public API.
    pub fn url(&self, function: &str) -> String {
        format!("http://{}/lambda-url/{function}", self.address)
    }

    pub fn start_function(&mut self, name: &'static str) {
        let function = Command::new(program(name))
            .env_clear()
            .envs(self.environment(name))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the function starts");
        self.functions.insert(name, function);
    }

    /// SIGKILL, as a reload may do it; returns when the process is gone.
    pub async fn kill_function(&mut self, name: &str) {
        let mut function = self.functions.remove(name).expect("it runs");
        function.kill().await.expect("it can be killed");
    }

    /// Starts a run of a plan; its id.
    pub async fn start_run(&self, plan: &Value) -> String {
        let body = serde_json::json!({ "agent": "plan", "input": plan });
        let request = self.client.post(self.url("foreground") + "/api/v1/runs").json(&body);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 202);
        let answer: Value = answer.json().await.expect("JSON");
        answer["runId"].as_str().expect("a run's id").to_owned()
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = self.client.get(self.url("foreground") + path);
        let answer = request.header("accept", "application/json").send().await;
        answer.expect("an answer").json().await.expect("JSON")
    }

    pub async fn show(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/runs/{run}")).await
    }

    /// Waits until the run has ended; what `show` then says.
    pub async fn ended(&self, run: &str) -> Value {
        let mut shown = Value::Null;
        wait_until(format!("run {run} has ended"), PATIENCE, async || {
            shown = self.show(run).await;
            shown["endedAt"].is_string()
        })
        .await;
        shown
    }

    /// One pass of the schedule: what it says that it did.
    pub async fn sweep(&self) -> String {
        let scheduled = match self.dispatch {
            Dispatch::Background | Dispatch::Invoke => "background",
            Dispatch::Chained => "foreground",
        };
        self.outlast(&["sweep", "--url", &self.url(scheduled)]).await
    }

    /// `cargo lambda invoke` of the foreground with a file of `tests/fixtures`.
    pub async fn invoke(&self, fixture: &str) -> Output {
        let (_, port) = self.address.split_once(':').expect("a port");
        let mut invoke = cargo_lambda();
        invoke
            .args(["invoke", "foreground", "--invoke-address", "127.0.0.1", "-P", port])
            .arg("--data-file")
            .arg(workspace().join("tests/fixtures").join(fixture));
        invoke.output().await.expect("cargo-lambda starts")
    }

    /// What the command line says.
    async fn outlast(&self, arguments: &[&str]) -> String {
        let mut outlast = Command::new(program("outlast"));
        let outlast = outlast.args(arguments).env(vars::DISPATCH_SECRET.name, SECRET);
        let output = outlast.output().await.expect("the command line starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn environment(&self, name: &str) -> Vec<(&'static str, String)> {
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        let timing = Timing::LOCAL;
        let mut variables = vec![
            ("AWS_LAMBDA_RUNTIME_API", format!("http://{}/.rt/{name}", self.address)),
            ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "4096".into()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1".into()),
            // DynamoDB Local keeps separate tables for each of these: as the command line has them.
            ("AWS_REGION", "local".into()),
            ("AWS_ACCESS_KEY_ID", "local".into()),
            ("AWS_SECRET_ACCESS_KEY", "local".into()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.database.endpoint()),
            ("AWS_ENDPOINT_URL_LAMBDA", format!("http://{}", self.address)),
            (vars::DISPATCH_SECRET.name, SECRET.into()),
            (vars::IDENTITY.name, "none".into()),
            (vars::LEASE.name, seconds(timing.lease)),
            (vars::BEAT.name, seconds(timing.beat)),
        ];
        let http = (vars::DISPATCH.name, "http".into());
        variables.extend(match self.dispatch {
            Dispatch::Background => vec![http, (vars::BACKGROUND_URL.name, self.url("background"))],
            Dispatch::Chained => vec![http, (vars::FOREGROUND_URL.name, self.url("foreground"))],
            Dispatch::Invoke => vec![(vars::BACKGROUND_FUNCTION.name, "background".into())],
        });
        variables.extend(self.variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        variables
    }
}

async fn emulate(address: &str) -> Child {
    let (host, port) = address.split_once(':').expect("a host and a port");
    let mut watch = cargo_lambda();
    watch.args(["watch", "--only-lambda-apis", "-A", host, "-P", port, "--disable-cors"]);
    let mut emulator = watch.spawn().expect("cargo-lambda starts");
    wait_until("cargo lambda watch listens", PATIENCE, async || {
        let ended = emulator.try_wait().expect("the state of cargo lambda watch");
        assert!(ended.is_none(), "cargo lambda watch has ended: {ended:?}");
        TcpStream::connect(address).await.is_ok()
    })
    .await;
    emulator
}

/// It knows the functions by the binaries of the workspace that it is started in.
fn cargo_lambda() -> Command {
    let bin = tools::find("OUTLAST_TEST_CARGO_LAMBDA", "cargo-lambda/bin");
    let bin: PathBuf = bin.unwrap_or_else(|lacking| panic!("{lacking}: run `cargo xtask fetch`"));
    let mut command = Command::new(bin.join("cargo-lambda"));
    command
        .arg("lambda")
        .current_dir(workspace())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lies in the workspace")
}
