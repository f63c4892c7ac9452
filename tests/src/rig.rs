//! An engine with everything around it in one process: for tests of what the engine does, on any table.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use outlast_agent::{App, Resources};
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::Timing;
use outlast_core::time_budget::{HostKind, chunk_time};
use outlast_core::{AgentName, Owner, Payload, Run, RunId, Timestamp};
use outlast_engine::accept::{AcceptedRun, NotAccepted, RunRequest, accept};
use outlast_engine::carry::Invocation;
use outlast_engine::dispatch::{DispatchError, Dispatcher, Dispatching, SignedDispatch};
use outlast_engine::process::{Delivery, Processed, process};
use outlast_engine::seams::{Clock, Random, Seams, Spawner};
use outlast_engine::show::{RunView, show};
use outlast_engine::{Engine, EngineParts};
use outlast_store::Store;
use outlast_store::memory::MemoryTable;
use outlast_store::records::MemoryRecords;
use outlast_store::table::Table;
use serde_json::Value;

use crate::wait::wait_until;
use tokio::task::AbortHandle;

/// tokio's time, which a test may pause and move; it begins at a fixed date.
pub struct TestClock {
    begun: tokio::time::Instant,
    skew_ms: i64,
}

const EPOCH_MS: i64 = 1_780_000_000_000;

impl TestClock {
    pub fn new() -> Arc<Self> {
        Self::skewed(0)
    }

    /// A wall clock that is off by this much; the monotonic one isn't.
    pub fn skewed(skew_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            begun: tokio::time::Instant::now(),
            skew_ms,
        })
    }

    /// The same point in time, seen by another wall clock.
    pub fn with_skew(&self, skew_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            begun: self.begun,
            skew_ms,
        })
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(EPOCH_MS + self.skew_ms) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        let wakes_at = tokio::time::Instant::now() + duration;
        tokio::time::sleep_until(wakes_at).await;
    }
}

/// Numbers in a fixed order: a test that fails once fails again.
pub struct TestRandom(AtomicU64);

impl TestRandom {
    pub fn seeded(seed: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seed)))
    }
}

impl Random for TestRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            // SplitMix64 (Steele, Lea, Flood 2014).
            let mut z = self
                .0
                .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
                .wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (z ^ (z >> 31)) as u8;
        }
    }
}

/// Keeps what is needed to kill a chunk.
#[derive(Default)]
pub struct TaskSpawner(Mutex<Vec<AbortHandle>>);

impl TaskSpawner {
    /// Chunks that have tasks of their own and are at work.
    pub fn chunks(&self) -> Vec<AbortHandle> {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.retain(|chunk| !chunk.is_finished());
        chunks.clone()
    }
}

impl Spawner for TaskSpawner {
    fn spawn_chunk(&self, chunk: BoxFuture<'static, ()>) {
        let chunk = tokio::spawn(chunk).abort_handle();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
    }

    fn spawn_heartbeat(&self, beats: BoxFuture<'static, ()>) {
        tokio::spawn(beats);
    }
}

/// What becomes of dispatches.
pub enum Deliver {
    /// Each is processed by a task of its own, as a background function would.
    AtOnce,
    /// They are kept for the test to process, or not.
    Hold,
    /// The dispatcher says no.
    Refuse,
}

pub struct TestDispatcher {
    deliver: Mutex<Deliver>,
    engine: Mutex<Weak<Engine>>,
    pub sent: Mutex<Vec<SignedDispatch>>,
    cap: Duration,
}

#[async_trait]
impl Dispatcher for TestDispatcher {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(dispatch.clone());
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match *self.deliver.lock().unwrap_or_else(PoisonError::into_inner) {
            Deliver::Refuse => return Err(DispatchError("throttled".into())),
            Deliver::Hold => return Ok(()),
            Deliver::AtOnce => {}
        }
        let (dispatch, cap) = (dispatch.clone(), self.cap);
        if let Some(engine) = engine {
            tokio::spawn(async move { deliver(&engine, &dispatch, cap).await });
        }
        Ok(())
    }
}

/// Processes one delivery as a background invocation with this soft cap does.
pub async fn deliver(engine: &Arc<Engine>, dispatch: &SignedDispatch, cap: Duration) -> Option<Processed> {
    let invocation = invocation(engine, HostKind::Background, cap);
    let delivery = Delivery {
        body: dispatch.body.as_bytes(),
        token: Some(&dispatch.token),
    };
    process(engine, delivery, invocation).await.ok()
}

/// One with this soft cap that begins now.
pub fn invocation(engine: &Engine, host: HostKind, cap: Duration) -> Invocation {
    Invocation {
        host,
        time: chunk_time(host, cap, None, engine.seams().now()),
        longest_body: Duration::from_secs(600),
    }
}

/// How a rig is set up.
pub struct RigOptions {
    pub app: App,
    pub table: Arc<dyn Table>,
    pub clock: Arc<TestClock>,
    pub timing: Timing,
    pub cap: Duration,
    pub deliver: Deliver,
    /// Otherwise runs are inline.
    pub dispatches: bool,
    pub seed: u64,
}

impl RigOptions {
    /// The `plan` agent with the usual tools on a table of the test's.
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self {
            app: assistant::app(),
            table,
            clock: TestClock::new(),
            timing: Timing::LOCAL,
            cap: Duration::from_secs(3600),
            deliver: Deliver::AtOnce,
            dispatches: true,
            seed: 1,
        }
    }

    pub fn in_memory() -> (Self, Arc<MemoryTable>) {
        let table = Arc::new(MemoryTable::new());
        (Self::new(table.clone()), table)
    }
}

/// An engine, its dispatcher, and what a test does with them.
pub struct Rig {
    pub engine: Arc<Engine>,
    pub spawner: Arc<TaskSpawner>,
    pub dispatcher: Arc<TestDispatcher>,
    pub records: Arc<MemoryRecords>,
    pub store: Store,
    pub owner: Owner,
}

impl Rig {
    pub fn new(options: RigOptions) -> Rig {
        let RigOptions {
            app,
            table,
            clock,
            timing,
            cap,
            deliver,
            dispatches,
            seed,
        } = options;
        let spawner = Arc::new(TaskSpawner::default());
        let seams = Seams {
            clock: clock.clone(),
            random: TestRandom::seeded(seed),
            spawner: spawner.clone(),
        };
        let records = Arc::new(MemoryRecords::default().with_table("things", &["id"]));
        let resources = Resources {
            records: records.clone(),
            http: reqwest::Client::new(),
            clock,
        };
        let store = Store::new(table, Arc::new(seams.clone()));
        let dispatcher = Arc::new(TestDispatcher {
            deliver: Mutex::new(deliver),
            engine: Mutex::default(),
            sent: Mutex::default(),
            cap,
        });
        let secret = "a secret of the tests, long enough";
        let engine = Engine::new(EngineParts {
            store: store.clone(),
            beat_store: store.clone(),
            seams,
            agents: app.into_agents(resources),
            dispatching: dispatches.then(|| Dispatching {
                dispatcher: dispatcher.clone(),
                keys: DispatchKeys::new(secret.to_owned().into(), None).expect("long enough"),
                to: HostKind::Background,
            }),
            timing,
            holder: format!("rig-{seed}"),
        });
        *dispatcher.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&engine);
        Rig {
            engine,
            spawner,
            dispatcher,
            records,
            store,
            owner: Owner::new("local"),
        }
    }

    pub fn request(&self, input: &Value) -> RunRequest {
        RunRequest {
            owner: self.owner.clone(),
            agent: AgentName::new("plan"),
            input: Payload::of(input).expect("JSON"),
            thread: None,
            turn: None,
            ends_at: None,
            retry: None,
        }
    }

    pub async fn try_start(&self, request: RunRequest) -> Result<AcceptedRun, NotAccepted> {
        accept(&self.engine, request).await
    }

    pub async fn start(&self, plan: &Value) -> RunId {
        self.try_start(self.request(plan))
            .await
            .expect("the plan is accepted")
            .run
            .id
    }

    pub async fn show(&self, id: &RunId) -> RunView {
        show(&self.engine, &self.owner, id).await.expect("the run is there")
    }

    /// The row as it is, without the sweep's look.
    pub async fn row(&self, id: &RunId) -> Run {
        self.store
            .load_run(id)
            .await
            .expect("readable")
            .expect("the run is there")
    }

    pub async fn ended(&self, id: &RunId) -> RunView {
        wait_until(format!("run {id} has ended"), Duration::from_secs(120), async || {
            self.row(id).await.status.is_terminal()
        })
        .await;
        self.show(id).await
    }

    /// Every event of the log, by consistent reads, typed.
    pub async fn log(&self, id: &RunId) -> Vec<outlast_core::Event> {
        let mut events = Vec::new();
        let mut next = Some(1);
        while let Some(first_seq) = next {
            let slice = self.store.read_pages(id, first_seq, true).await.expect("readable");
            events.extend(slice.pages.into_iter().flat_map(|page| page.events));
            next = slice.next;
        }
        events
    }

    /// The dispatches that were sent so far.
    pub fn sent(&self) -> Vec<SignedDispatch> {
        self.dispatcher
            .sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn set_deliver(&self, deliver: Deliver) {
        *self.dispatcher.deliver.lock().unwrap_or_else(PoisonError::into_inner) = deliver;
    }
}

/// A plan of `sleep` steps `s0`, `s1` … of no time at all.
pub fn quick_plan(steps: usize) -> Value {
    let steps: Vec<Value> = (0..steps)
        .map(|n| serde_json::json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 0 } }))
        .collect();
    serde_json::json!({ "steps": steps })
}
