//! Amazon's DynamoDB Local as a reference: what it accepts and refuses comes closest to the real service.
//!
//! `cargo xtask fetch` gets the jar and a Java runtime. It takes about 1.2 seconds to start on an idle machine, so a
//! test should start one and use it for all that it checks. Tests that share one keep apart by their access keys:
//! the server keeps separate tables for each.
//!
//! The server listens on every interface of the machine, and has no setting for it. It holds nothing but test data,
//! in memory, and lives for the length of a test.

use std::{
    fs::File,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Config, Credentials, Region},
};
use tempfile::TempDir;

use crate::tools;
use crate::wait::wait_until_blocking;

/// Generous, for a machine on which everything else runs too.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const TRIES: usize = 3;

/// A running DynamoDB Local with no tables. Dropped, it is gone.
#[derive(Debug)]
pub struct DynamoDbLocal {
    process: Child,
    port: u16,
    output: TempDir,
}

impl DynamoDbLocal {
    /// Starts one and waits until it answers. It blocks: nothing else can go on in a test before that anyway.
    ///
    /// # Panics
    ///
    /// If DynamoDB Local was not fetched, or does not start; the message says what to do.
    pub fn start() -> Self {
        let tools = Tools::find().unwrap_or_else(|lacking| panic!("{lacking}: run `cargo xtask fetch`"));
        let mut said = String::new();
        // The port was free when it was chosen. Rarely somebody else takes it before Java does.
        for _ in 0..TRIES {
            let mut server = Self::spawn(&tools);
            match server.wait_until_it_answers() {
                Ok(()) => return server,
                Err(output) => said = output,
            }
        }
        panic!("DynamoDB Local ended {TRIES} times before it answered; at last it said:\n{said}");
    }

    /// Its URL, for an SDK's `endpoint_url`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A client with made-up credentials. Each `access_key` (letters and digits only) sees its own tables.
    pub fn client(&self, access_key: &str) -> Client {
        let credentials = Credentials::builder()
            .access_key_id(access_key)
            .secret_access_key("test")
            .provider_name("tests")
            .build();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(credentials)
            .endpoint_url(self.endpoint())
            .build();
        Client::from_conf(config)
    }

    fn spawn(tools: &Tools) -> Self {
        let output = TempDir::new().expect("a folder for DynamoDB Local's output");
        let log = File::create(output.path().join("log")).expect("a file for DynamoDB Local's output");
        let port = free_port();
        let process = Command::new(&tools.java)
            // It lives for a test: quick to start and small beats fast at its peak.
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"])
            .args(["-Djava.library.path=DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"])
            .args(["-inMemory", "-disableTelemetry", "-port", &port.to_string()])
            .current_dir(&tools.dynamodb_local)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the output"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", tools.java.display()));
        Self { process, port, output }
    }

    /// Fails with what the process said if it ended instead.
    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let mut ended = false;
        wait_until_blocking("DynamoDB Local answers", STARTS_WITHIN, || {
            ended = self.process.try_wait().expect("DynamoDB Local's state").is_some();
            ended || answers(self.port)
        });
        if ended {
            Err(std::fs::read_to_string(self.output.path().join("log")).unwrap_or_default())
        } else {
            Ok(())
        }
    }
}

impl Drop for DynamoDbLocal {
    fn drop(&mut self) {
        // It fails only if the process has ended already, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether there is a DynamoDB behind the port: it lists its tables. An open port alone could be anybody's.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\
              Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n\
              Authorization: AWS4-HMAC-SHA256 Credential=ready/20240101/us-east-1/dynamodb/aws4_request, \
              SignedHeaders=host, Signature=none\r\n\r\n{}",
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"TableNames\""))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("the address of a bound listener").port()
}

struct Tools {
    dynamodb_local: PathBuf,
    java: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let dynamodb_local = tools::find("OUTLAST_TEST_DYNAMODB_LOCAL", "dynamodb-local")?;
        let java = tools::find("OUTLAST_TEST_JAVA", "java")?;
        if !dynamodb_local.join("DynamoDBLocal.jar").is_file() {
            return Err(format!("there is no DynamoDBLocal.jar in {}", dynamodb_local.display()));
        }
        Ok(Self { dynamodb_local, java })
    }
}
