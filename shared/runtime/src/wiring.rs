//! An engine and its router from settings: the one place where the parts are put together.

use std::sync::Arc;
use std::time::Duration;

use outlast_agent::{App, Resources};
use outlast_core::limits::{FOREGROUND_SOFT_CAP, Timing};
use outlast_engine::dispatch::Dispatching;
use outlast_engine::{Engine, EngineParts};
use outlast_http::identity::NoIdentity;
use outlast_http::{Api, InternalAccess};
use outlast_store::Store;
use outlast_store::dynamodb::DynamoTable;
use outlast_store::records::DynamoRecords;
use outlast_store::schema::TableNames;

use crate::host::Host;
use crate::seams;

/// What an engine needs besides its app.
pub struct Wiring {
    /// Clients for work, and of their own for heartbeats: two clients share no connections unless they were given one
    /// HTTP client.
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub heartbeat_dynamodb: aws_sdk_dynamodb::Client,
    pub runs_table: String,
    pub events_table: String,
    /// Without it new runs are inline.
    pub dispatching: Option<Dispatching>,
    pub timing: Timing,
    /// This process's name for itself.
    pub holder: String,
}

/// On this machine's clock, with a heartbeat thread of its own.
pub fn engine(app: App, wiring: Wiring) -> Arc<Engine> {
    let seams = seams::machine();
    let tables = TableNames {
        runs: wiring.runs_table,
        events: wiring.events_table,
    };
    let store = |client: &aws_sdk_dynamodb::Client| {
        Store::new(
            Arc::new(DynamoTable::new(client, tables.clone())),
            Arc::new(seams.clone()),
        )
    };
    let resources = Resources {
        records: Arc::new(DynamoRecords::new(wiring.dynamodb.clone())),
        http: reqwest::Client::new(),
        clock: seams.clock.clone(),
    };
    Engine::new(EngineParts {
        store: store(&wiring.dynamodb),
        beat_store: store(&wiring.heartbeat_dynamodb),
        seams,
        agents: app.into_agents(resources),
        dispatching: wiring.dispatching,
        timing: wiring.timing,
        holder: wiring.holder,
    })
}

/// What [`outlast_http::router`] serves. Everyone is the owner `local`, unless the host says otherwise: it sees to it that it
/// is on loopback.
pub fn api(engine: Arc<Engine>, host: Host, base_path: String) -> Api {
    Api {
        read_tokens: engine.dispatch_keys().cloned(),
        engine,
        identity: Arc::new(NoIdentity),
        host: host.kind(),
        soft_cap: host.soft_cap(),
        base_path,
        stream_for: stream_for(host),
        internal: InternalAccess::MarkedOnly,
    }
}

/// A stream of a reader holds an execution, wherever it is served.
fn stream_for(host: Host) -> Duration {
    host.soft_cap().min(FOREGROUND_SOFT_CAP)
}
