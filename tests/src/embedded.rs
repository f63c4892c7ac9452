//! The embedded DynamoDB-compatible server that `outlast dev` runs, here in memory: one for a test, gone after it.

use std::{net::Ipv4Addr, thread};

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Config, Credentials, Region},
};
use dynoxide::Database;
use tokio::{net::TcpListener, sync::oneshot};

/// A running server with no tables. Dropped, it is gone.
///
/// It has a thread and a runtime of its own: it calls SQLite from its handlers, which would hold up a test's tasks.
#[derive(Debug)]
pub struct Embedded {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    server: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let port = listener.local_addr().expect("the address of a bound listener").port();
        let (stop, stopped) = oneshot::channel();
        let server = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
            let database = Database::memory().expect("a database in memory");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = dynoxide::server::serve_on(listener, database) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            port,
            stop: Some(stop),
            server: Some(server),
        }
    }

    /// Its URL, for an SDK's `endpoint_url`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(self.endpoint())
            .build();
        Client::from_conf(config)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It fails only if the server has ended already.
            let _ = stop.send(());
        }
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}
