//! `cargo xtask watch`: both functions under `cargo lambda watch`, and what they need besides.

use std::{
    env,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use outlast_core::env_vars as vars;

use crate::{
    cargo_lambda,
    fetch::{self, Tools},
    parts::Parts,
    run::{cargo, passes, target_folder, workspace},
};

const TABLES_WITHIN: Duration = Duration::from_secs(60);
const SWEEP_EVERY: &str = "3s";
/// A holder that a reload has killed is found out in seconds, as in `outlast dev`. Whoever sets a variable is heard.
const SHORT_LEASES: [(vars::Variable, &str); 2] = [(vars::LEASE, "3"), (vars::BEAT, "0.5")];
/// What could lead the SDK elsewhere than to the tables on this machine.
const MISLEADING: [&str; 4] = [
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
];

#[derive(Args)]
pub struct Options {
    /// Where the functions are served, on 127.0.0.1
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// Where DynamoDB Local listens; on every interface of the machine, because it has no setting for it
    #[arg(long, default_value_t = 8000)]
    dynamodb_port: u16,
    /// Run this plan, with `outlast run`, and end: does all of it work here?
    #[arg(long, value_name = "PLAN")]
    run: Option<PathBuf>,
}

/// Runs until Ctrl-C; with a plan, until that has run.
pub fn watch(options: &Options) -> Result<bool> {
    is_free(options.port, "--port")?;
    is_free(options.dynamodb_port, "--dynamodb-port")?;
    let target = target_folder()?;
    let tools = fetch::tools(&target)?;
    // As `cargo lambda watch` builds them, so that it finds them built.
    if !passes(&mut cargo(&[
        "build",
        "--bin=foreground",
        "--bin=background",
        "--bin=outlast",
    ]))? {
        return Ok(false);
    }
    let stack = Stack {
        options,
        tools,
        outlast: target.join("debug/outlast"),
        logs: target.join("watch"),
        secret: secret()?,
    };
    fs::create_dir_all(&stack.logs)?;
    let mut parts = Parts::none_yet()?;
    let ended = stack.run(&mut parts);
    eprintln!("xtask: ending all parts");
    ended
}

struct Stack<'a> {
    options: &'a Options,
    tools: Tools,
    outlast: PathBuf,
    logs: PathBuf,
    secret: String,
}

impl Stack<'_> {
    fn run(&self, parts: &mut Parts) -> Result<bool> {
        eprintln!("xtask: starting DynamoDB Local, {}", self.endpoint());
        parts.start("DynamoDB Local", &mut self.dynamodb_local()?)?;
        let waiting = Instant::now();
        let tables = parts.wait_for(|| {
            if self.makes_tables()? {
                return Ok(Some(()));
            }
            ensure!(
                waiting.elapsed() < TABLES_WITHIN,
                "DynamoDB Local makes no tables, see {}",
                self.logs.display()
            );
            Ok(None)
        })?;
        if tables.is_none() {
            return Ok(true);
        }

        eprintln!("xtask: starting cargo lambda watch");
        parts.start("cargo lambda watch", &mut self.cargo_lambda_watch()?)?;
        if parts.wait_for(|| Ok(self.connect().ok()))?.is_none() {
            return Ok(true);
        }
        parts.start("the schedule", &mut self.schedule())?;
        let asked = self.ask();
        let status = parts.wait_for(|| match asked.try_recv() {
            Ok(status) => status.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the foreground function was not asked"),
        })?;
        match status.as_deref() {
            None => return Ok(true),
            Some("200") => {}
            Some(status) => bail!("the foreground function answers {status}: see above"),
        }
        self.say_ready();
        if let Some(plan) = &self.options.run {
            let foreground = self.url("foreground");
            let mut run = Command::new(&self.outlast);
            return passes(run.args(["run", "--url", &foreground]).arg(plan).stdout(io::stderr()));
        }
        parts.wait_for(|| Ok(None::<()>))?;
        Ok(true)
    }

    fn url(&self, function: &str) -> String {
        format!("http://127.0.0.1:{}/lambda-url/{function}", self.options.port)
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.options.dynamodb_port)
    }

    fn dynamodb_local(&self) -> Result<Command> {
        let log = File::create(self.logs.join("dynamodb-local.log"))?;
        let mut java = Command::new(&self.tools.java);
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .args(["-Djava.library.path=DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"])
            // Shared: otherwise each access key and each region would have tables of its own.
            .args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port"])
            .arg(self.options.dynamodb_port.to_string())
            .current_dir(&self.tools.dynamodb_local)
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(java)
    }

    /// Whether the database answers and has them.
    fn makes_tables(&self) -> Result<bool> {
        let log = File::create(self.logs.join("tables.log"))?;
        let mut tables = Command::new(&self.outlast);
        tables.args(["tables", "--endpoint", &self.endpoint()]);
        passes(tables.stdout(log.try_clone()?).stderr(log))
    }

    fn cargo_lambda_watch(&self) -> Result<Command> {
        let bin = &self.tools.cargo_lambda;
        let mut watch = Command::new(bin.join("cargo-lambda"));
        watch
            .args(["lambda", "watch"])
            .args(self.watch_options())
            .current_dir(workspace())
            .env("PATH", cargo_lambda::path_with(bin)?)
            .envs(self.environment())
            // Our stdout has one line, for whoever waits for it.
            .stdout(io::stderr());
        for misleading in MISLEADING {
            watch.env_remove(misleading);
        }
        Ok(watch)
    }

    fn watch_options(&self) -> [String; 5] {
        let port = self.options.port.to_string();
        ["-A", "127.0.0.1", "-P", &port, "--disable-cors"].map(String::from)
    }

    /// What `cargo lambda watch` hands on to the functions.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            (vars::DISPATCH.name, "http".into()),
            (vars::BACKGROUND_URL.name, self.url("background")),
            (vars::DISPATCH_SECRET.name, self.secret.clone()),
            (vars::IDENTITY.name, "none".into()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint()),
            ("AWS_REGION", "local".into()),
            ("AWS_ACCESS_KEY_ID", "local".into()),
            ("AWS_SECRET_ACCESS_KEY", "local".into()),
        ];
        for (variable, short) in SHORT_LEASES {
            let value = env::var(variable.name).unwrap_or_else(|_| short.into());
            variables.push((variable.name, value));
        }
        variables
    }

    fn schedule(&self) -> Command {
        let mut sweep = Command::new(&self.outlast);
        sweep
            .args(["sweep", "--url", &self.url("background"), "--every", SWEEP_EVERY])
            .env(vars::DISPATCH_SECRET.name, &self.secret)
            .stdout(io::stderr());
        sweep
    }

    fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.options.port))
    }

    /// Asks the foreground for its runs: the first request starts it. The answer's status, once it comes.
    fn ask(&self) -> mpsc::Receiver<Result<String>> {
        let (answer, asked) = mpsc::channel();
        let connection = self.connect();
        thread::spawn(move || {
            let ask = || -> Result<String> {
                let mut connection = connection?;
                connection.write_all(
                    b"GET /lambda-url/foreground/api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                )?;
                let mut answer = String::new();
                connection.read_to_string(&mut answer)?;
                let status = answer
                    .split(' ')
                    .nth(1)
                    .context("the foreground function's answer is no HTTP")?;
                Ok(status.into())
            };
            // Nobody hears it where all has ended meanwhile.
            let _ = answer.send(ask());
        });
        asked
    }

    fn say_ready(&self) {
        let (foreground, background, endpoint) = (self.url("foreground"), self.url("background"), self.endpoint());
        let outlast = self.outlast.display();
        let variables: Vec<_> = self
            .environment()
            .into_iter()
            .map(|(name, value)| match name == vars::DISPATCH_SECRET.name {
                true => format!("{name}=$(openssl rand -hex 32)"),
                false => format!("{name}={value}"),
            })
            .collect();
        eprintln!(
            "
  foreground  {foreground}
  background  {background}, where the foreground dispatches to
  tables      {endpoint}, DynamoDB Local in memory: gone when this ends. It listens on every interface.
  schedule    outlast sweep, {SWEEP_EVERY} after each pass
  code        after a change both functions are built anew, and their runs go on
  by hand     {} \\
                cargo lambda watch {}
",
            variables.join(" \\\n                "),
            self.watch_options().join(" "),
        );
        println!("outlast watch ready at {foreground}. Try: {outlast} run --url {foreground} PLAN");
    }
}

fn is_free(port: u16, option: &str) -> Result<()> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    bound
        .map(drop)
        .with_context(|| format!("port {port} can't be had: choose another with {option}"))
}

fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    File::open(Path::new("/dev/urandom"))?.read_exact(&mut bytes)?;
    Ok(bytes.map(|byte| format!("{byte:02x}")).concat())
}
