//! A DynamoDB-compatible server in this process: dynoxide, SQLite behind DynamoDB's own interface.
//!
//! It has a thread and a tokio runtime of its own, because its handlers call SQLite synchronously and would hold up
//! everyone who shares a runtime with them. Production code talks to it through the AWS SDK, over a loopback port.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use dynoxide::Database;
use dynoxide::errors::DynoxideError;
use serde_json::{Value, json};

use super::options::UserTable;
use crate::exit::{Exit, Problem};

const DATABASE: &str = "outlast.db";
const LOCK: &str = "outlast.lock";

/// The server, for as long as the process lives.
pub struct Embedded {
    pub url: String,
    db: Database,
    /// Held: one process a database. The system lets go of it however the process ends.
    _lock: Option<File>,
}

impl Embedded {
    /// Opens the database in `data`, or one in memory, and serves it.
    pub fn start(data: Option<&Path>, tables: &[UserTable]) -> anyhow::Result<Self> {
        let (db, lock) = match data {
            Some(folder) => open(folder)?,
            None => (Database::memory().context("can't make a database in memory")?, None),
        };
        for table in tables {
            make_table(&db, table)?;
        }
        let address = serve(db.clone())?;
        Ok(Self {
            url: format!("http://{address}"),
            db,
            _lock: lock,
        })
    }

    /// Removes what has expired, as DynamoDB would in its own time.
    pub fn remove_expired(&self) {
        if let Err(error) = self.db.sweep_ttl() {
            tracing::warn!(%error, "expired items could not be removed");
        }
    }
}

/// Every item of a table, read from the file itself, with no server and no SDK between.
pub fn items_in_file(data: &Path, table: &str) -> anyhow::Result<Vec<Value>> {
    let (db, _lock) = open(data)?;
    let mut items = Vec::new();
    let mut from = Value::Null;
    loop {
        let request = json!({"TableName": table, "ConsistentRead": true, "ExclusiveStartKey": from});
        let page = serde_json::to_value(db.scan(serde_json::from_value(request)?)?)?;
        items.extend(page["Items"].as_array().cloned().unwrap_or_default());
        match page.get("LastEvaluatedKey") {
            Some(next) if !next.is_null() => from = next.clone(),
            _ => return Ok(items),
        }
    }
}

fn open(folder: &Path) -> anyhow::Result<(Database, Option<File>)> {
    fs::create_dir_all(folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    let lock = lock(folder)?;
    let file = folder.join(DATABASE);
    let path = file
        .to_str()
        .with_context(|| format!("the path {} is no UTF-8", file.display()))?;
    let db = Database::new(path).with_context(|| format!("can't open the database {path}"))?;
    // What was acknowledged survives a kill at any moment. (Not a loss of power: the file is synced less often than at
    // every write.)
    db.disable_bulk_loading()?;
    Ok((db, Some(lock)))
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("can't open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let folder = folder.display();
            let text = format!(
                "another process is using {folder}. One process at a time can use a data folder: end the other one, \
                 or choose another folder with --data."
            );
            Err(Problem::new(Exit::Error, text).into())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("can't lock {}", path.display())),
    }
}

fn make_table(db: &Database, table: &UserTable) -> anyhow::Result<()> {
    let UserTable { name, key } = table;
    let request = json!({
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    });
    let request = serde_json::from_value(request).with_context(|| format!("no table can be called {name}"))?;
    match db.create_table(request) {
        Ok(_) => Ok(()),
        Err(DynoxideError::ResourceInUseException(_)) => has_key(db, table),
        Err(error) => Err(error).with_context(|| format!("can't make the table {name}")),
    }
}

fn has_key(db: &Database, table: &UserTable) -> anyhow::Result<()> {
    let UserTable { name, key } = table;
    let request = serde_json::from_value(json!({"TableName": name}))?;
    let described = serde_json::to_value(db.describe_table(request)?)?;
    let keys = &described["Table"]["KeySchema"];
    if keys.as_array().is_some_and(|keys| keys.len() == 1) && keys[0]["AttributeName"] == key.as_str() {
        return Ok(());
    }
    bail!("the table {name} is there with another key than {key}: name its own, or choose another --data folder")
}

fn serve(db: Database) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no loopback port for the database")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("database-worker")
        .enable_all()
        .build()
        .context("no runtime for the database")?;
    std::thread::Builder::new()
        .name("database".into())
        .spawn(move || {
            runtime.block_on(async move {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => dynoxide::server::serve_on(listener, db).await,
                    Err(error) => tracing::error!(%error, "the database can't be served"),
                }
            });
        })
        .context("no thread for the database")?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::exit_of;

    fn countries(key: &str) -> UserTable {
        UserTable {
            name: "countries".into(),
            key: key.into(),
        }
    }

    #[test]
    fn a_data_folder_belongs_to_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let (_db, held) = open(folder.path()).unwrap();
        let error = open(folder.path()).err().expect("the folder is in use");
        assert!(error.to_string().contains("another process is using"), "{error}");
        assert_eq!(exit_of(&error), Exit::Error);
        drop(held);
        open(folder.path()).unwrap();
    }

    #[test]
    fn a_table_survives_and_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let (db, held) = open(folder.path()).unwrap();
        make_table(&db, &countries("alpha2")).unwrap();
        drop((db, held));
        let (db, _held) = open(folder.path()).unwrap();
        make_table(&db, &countries("alpha2")).unwrap();
        let other = make_table(&db, &countries("alpha3")).unwrap_err();
        assert!(other.to_string().contains("another key than alpha3"), "{other}");
    }
}
