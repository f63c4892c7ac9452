//! The embedded DynamoDB-compatible server on a file, as `outlast dev` has it: on a thread and a runtime of its own,
//! because it calls SQLite from its handlers.
//!
//! Every acknowledged write is on the disk. That is SQLite's own default (`synchronous = FULL`), which dynoxide leaves
//! alone unless its bulk loading is switched on or *off*: off means `NORMAL`, which doesn't sync at each commit.

use std::net::Ipv4Addr;
use std::thread;

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use dynoxide::Database;
use outlast_runtime::{local_dynamodb, seams};
use outlast_store::dynamodb::create_tables;
use outlast_store::schema::TableNames;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server with Outlast's two tables. Dropped, it is gone with its file.
pub struct Server {
    pub url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    _folder: TempDir,
}

impl Server {
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("bench.db");
        let database = Database::new(file.to_str().context("a path that is no UTF-8")?)?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("database-worker")
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("database".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    () = dynoxide::server::serve_on(listener, database) => {}
                    _ = stopped => {}
                }
            });
        })?;
        let server = Self {
            url,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        };
        create_tables(&server.client(), &TableNames::default(), &seams::machine()).await?;
        Ok(server)
    }

    /// A client with connections of its own.
    pub fn client(&self) -> Client {
        local_dynamodb::client(&self.url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It fails only if the server has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
