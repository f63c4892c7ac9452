//! A router over an engine over the test double, all in this process and in tokio's time, which a test may pause.

pub mod agents;
pub mod answer;
pub mod callers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request};
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::Timing;
use outlast_core::time_budget::HostKind;
use outlast_core::{Owner, Scopes, Timestamp};
use outlast_engine::dispatch::{DispatchError, Dispatcher, Dispatching, SignedDispatch, TOKEN_HEADER};
use outlast_engine::seams::{Clock, Random, Seams, Spawner};
use outlast_engine::{Agents, Engine, EngineParts};
use outlast_http::identity::{Caller, NotIdentified};
use outlast_http::{Api, Identity, InternalAccess, Invocation, router};
use outlast_store::Store;
use outlast_store::memory::MemoryTable;
use serde_json::Value;
use tower::ServiceExt as _;

pub use answer::Answer;

pub const SSE: (&str, &str) = ("accept", "text/event-stream");
pub const RUNS: &str = "/api/v1/runs";
const SECRET: &str = "a secret of the tests, long enough";

struct TestClock(tokio::time::Instant);

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_780_000_000_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Numbers in a fixed order.
struct TestRandom(AtomicU64);

impl Random for TestRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            // SplitMix64 (Steele, Lea, Flood 2014).
            let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (z ^ (z >> 31)) as u8;
        }
    }
}

struct Tasks;

impl Spawner for Tasks {
    fn spawn_chunk(&self, chunk: BoxFuture<'static, ()>) {
        tokio::spawn(chunk);
    }

    fn spawn_heartbeat(&self, beats: BoxFuture<'static, ()>) {
        tokio::spawn(beats);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deliver {
    /// To the background host's own route, as the platform would.
    AtOnce,
    Hold,
}

struct TestDispatcher {
    deliver: Mutex<Deliver>,
    background: OnceLock<Router>,
    sent: Mutex<Vec<SignedDispatch>>,
}

#[async_trait]
impl Dispatcher for TestDispatcher {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        locked(&self.sent).push(dispatch.clone());
        if *locked(&self.deliver) == Deliver::AtOnce {
            let router = self.background.get().expect("set up").clone();
            tokio::spawn(router.oneshot(process_request(dispatch)));
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the rig's deployment.
pub fn keys() -> DispatchKeys {
    DispatchKeys::new(SECRET.to_owned().into(), None).unwrap()
}

/// A dispatch as a host delivers it.
pub fn process_request(dispatch: &SignedDispatch) -> Request<Body> {
    internal("/_process-run", &dispatch.body, Some(&dispatch.token))
}

pub fn internal(path: &str, body: &str, token: Option<&str>) -> Request<Body> {
    let mut request = Request::post(path).body(Body::from(body.to_owned())).unwrap();
    if let Some(token) = token {
        request.headers_mut().insert(TOKEN_HEADER, token.parse().unwrap());
    }
    request.extensions_mut().insert(Invocation {
        deadline: None,
        internal: true,
    });
    request
}

/// The owner is what `x-owner` says, `local` without it; `nobody` has no credential. With all scopes.
struct ByHeader;

#[async_trait]
impl Identity for ByHeader {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, NotIdentified> {
        match headers.get("x-owner").map(|value| value.to_str().unwrap()) {
            Some("nobody") => Err(NotIdentified::NoGoodCredential),
            owner => Ok(Caller {
                owner: Owner::new(owner.unwrap_or("local")),
                scopes: Scopes::ALL,
            }),
        }
    }
}

pub struct Rig {
    pub engine: Arc<Engine>,
    pub table: Arc<MemoryTable>,
    pub router: Router,
    pub background: Router,
    dispatcher: Arc<TestDispatcher>,
}

impl Rig {
    pub fn new() -> Rig {
        Self::with(agents::all(), |_| {})
    }

    /// Nothing is dispatched: runs are inline.
    pub fn inline() -> Rig {
        Self::built(agents::all(), false, |_| {})
    }

    pub fn with(agents: Agents, change: impl Fn(&mut Api)) -> Rig {
        Self::built(agents, true, change)
    }

    fn built(agents: Agents, dispatches: bool, change: impl Fn(&mut Api)) -> Rig {
        let seams = Seams {
            clock: Arc::new(TestClock(tokio::time::Instant::now())),
            random: Arc::new(TestRandom(AtomicU64::new(1))),
            spawner: Arc::new(Tasks),
        };
        let table = Arc::new(MemoryTable::new());
        let store = Store::new(table.clone(), Arc::new(seams.clone()));
        let dispatcher = Arc::new(TestDispatcher {
            deliver: Mutex::new(Deliver::AtOnce),
            background: OnceLock::new(),
            sent: Mutex::default(),
        });
        let engine = Engine::new(EngineParts {
            store: store.clone(),
            beat_store: store,
            seams,
            agents,
            dispatching: dispatches.then(|| Dispatching {
                dispatcher: dispatcher.clone(),
                keys: keys(),
                to: HostKind::Background,
            }),
            timing: Timing::LAMBDA,
            holder: "a test".into(),
        });
        let api = |host: HostKind| {
            let mut api = Api {
                engine: engine.clone(),
                identity: Arc::new(ByHeader),
                read_tokens: Some(keys()),
                host,
                soft_cap: host.soft_cap_ceiling(),
                base_path: String::new(),
                stream_for: Duration::from_secs(40),
                internal: InternalAccess::MarkedOnly,
            };
            change(&mut api);
            router(api)
        };
        let background = api(HostKind::Background);
        dispatcher.background.set(background.clone()).expect("once");
        Rig {
            router: api(HostKind::Foreground),
            background,
            engine,
            table,
            dispatcher,
        }
    }

    pub fn deliver(&self, deliver: Deliver) {
        *locked(&self.dispatcher.deliver) = deliver;
    }

    pub fn sent(&self) -> Vec<SignedDispatch> {
        locked(&self.dispatcher.sent).clone()
    }

    pub async fn call(&self, request: Request<Body>) -> Answer {
        Answer::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    pub async fn call_background(&self, request: Request<Body>) -> Answer {
        Answer::of(self.background.clone().oneshot(request).await.unwrap()).await
    }

    /// The response with its body still coming.
    pub async fn open(&self, path: &str, headers: &[(&str, &str)]) -> axum::response::Response {
        let request = request(Method::GET, path, headers, Body::empty());
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.call(request(Method::GET, path, headers, Body::empty())).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.post_text(path, headers, "application/json", &body.to_string())
            .await
    }

    pub async fn post_text(&self, path: &str, headers: &[(&str, &str)], media: &str, body: &str) -> Answer {
        let mut request = request(Method::POST, path, headers, Body::from(body.to_owned()));
        request.headers_mut().insert("content-type", media.parse().unwrap());
        self.call(request).await
    }

    /// Starts a run with this input; its id.
    pub async fn start(&self, input: Value) -> String {
        let started = self.post(RUNS, &serde_json::json!({ "input": input })).await;
        assert_eq!(started.status, 202, "{}", started.text);
        started.json()["runId"].as_str().unwrap().to_owned()
    }

    pub async fn show(&self, run: &str) -> Value {
        let shown = self.get(&format!("{RUNS}/{run}")).await;
        assert_eq!(shown.status, 200, "{}", shown.text);
        shown.json()
    }

    /// The run as it is shown once this holds.
    pub async fn until(&self, run: &str, what: impl Fn(&Value) -> bool) -> Value {
        for look in 0..3000 {
            let shown = self.show(run).await;
            if what(&shown) {
                return shown;
            }
            let pause = if look < 1000 { 20 } else { 500 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        panic!("it never came to it: {}", self.show(run).await);
    }

    /// A run with this input that has ended; its id and last seq.
    pub async fn finished(&self, input: Value) -> (String, u64) {
        let run = self.start(input).await;
        let last = self.ended(&run).await["lastSeq"].as_u64().unwrap();
        (run, last)
    }

    /// The run's stream from behind `after`, to its end.
    pub async fn stream(&self, run: &str, after: u64) -> Answer {
        self.get_with(&format!("{RUNS}/{run}/events?after={after}"), &[SSE])
            .await
    }

    pub async fn ended(&self, run: &str) -> Value {
        self.until(run, |shown| shown["outcome"].is_object()).await
    }
}

pub fn request(method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}
