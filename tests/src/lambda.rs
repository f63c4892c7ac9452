//! AWS Lambda on loopback, for the real binaries of functions: what their processes see of it is the Runtime API.
//!
//! As on Lambda, a process takes one invocation at a time, and is frozen between two; an invocation goes to an idle
//! process or starts another; at a function's timeout its process is killed, and told of that deadline beforehand. An
//! asynchronous invocation is answered 202 and queued; the seventeenth of one function in one chain is dropped, unless
//! the function's settings allow it. Beyond that a test loses, repeats, delays, replays and refuses deliveries, sends
//! nonsense deadlines, kills, freezes and thaws.
//!
//! - [`deployment`]: both functions of Outlast on it, with a database
//! - [`function`], [`environment`]: a function and its processes
//! - [`answer`], [`event`]: HTTP, as functions speak it
//! - [`trace`]: how hops are counted
//! - [`runtime_api`], [`invoke_api`], [`url`]: the three ways in and out

pub mod answer;
pub mod deployment;
pub mod environment;
pub mod event;
pub mod function;
mod invoke_api;
mod runtime_api;
pub mod trace;
mod url;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::wait::after;
pub use answer::{Answer, Failure};
pub use function::{Deadline, Function, Settings};
pub use trace::{RecursiveLoop, Trace};

/// A Lambda with its functions. It lives as long as the test's runtime, and its processes with it.
pub struct Lambda {
    endpoint: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    functions: BTreeMap<String, Arc<Function>>,
    events: Vec<Event>,
    lose: usize,
    repeat_after: Vec<Duration>,
    fates: VecDeque<Fate>,
    /// Events that overtake those at these places first.
    overtaken: Vec<(usize, usize)>,
    refuse: Option<Refusal>,
    refused: usize,
}

/// What becomes of an event that was answered 202.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    /// Until the test delivers it.
    Lost,
    /// Two deliveries at once.
    Twice,
    /// Delivered behind as many events as this that were accepted after it: late by any number of chunks.
    Overtaken(usize),
}

/// What `Invoke` is answered instead of a 202.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub kind: &'static str,
}

impl Refusal {
    pub const THROTTLED: Refusal = Refusal {
        status: 429,
        kind: "TooManyRequestsException",
    };
    pub const FORBIDDEN: Refusal = Refusal {
        status: 403,
        kind: "AccessDeniedException",
    };
}

/// An asynchronous invocation that was answered 202.
#[derive(Clone, Debug)]
pub struct Event {
    pub function: String,
    pub payload: Bytes,
    /// As the request brought it; one that brought none begins a chain.
    pub trace: Trace,
    /// What its deliveries came to: what a 200 said, or why there was none.
    pub outcomes: Vec<Result<Value, Failure>>,
}

impl Lambda {
    pub async fn start() -> Arc<Lambda> {
        let (endpoint, listener) = listen().await;
        let lambda = Arc::new(Lambda {
            endpoint,
            state: Mutex::default(),
        });
        invoke_api::serve(listener, lambda.clone());
        lambda
    }

    /// Its API, for an SDK's `endpoint_url`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn deploy(&self, settings: Settings) -> Arc<Function> {
        let name = settings.name.clone();
        let function = Arc::new(Function::new(settings));
        self.lock().functions.insert(name, function.clone());
        function
    }

    /// A public URL of the function, on loopback.
    pub async fn url(&self, function: &Arc<Function>) -> String {
        let (url, listener) = listen().await;
        url::serve(listener, function.clone());
        url
    }

    /// The next `count` events are accepted and never delivered.
    pub fn lose(&self, count: usize) {
        self.lock().lose = count;
    }

    /// What becomes of the next events, one after the other; those behind them are delivered.
    pub fn script(&self, fates: impl IntoIterator<Item = Fate>) {
        self.lock().fates = fates.into_iter().collect();
    }

    /// From now on invocations are refused, until this is `None`.
    pub fn refuse(&self, refusal: Option<Refusal>) {
        self.lock().refuse = refusal;
    }

    /// How many were.
    pub fn refused(&self) -> usize {
        self.lock().refused
    }

    fn refusal(&self) -> Option<Refusal> {
        let mut state = self.lock();
        state.refused += usize::from(state.refuse.is_some());
        state.refuse
    }

    /// From now on each event is delivered again after each of these times.
    pub fn repeat_after(&self, times: &[Duration]) {
        self.lock().repeat_after = times.to_vec();
    }

    /// All that were accepted so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// Accepts an event: 202.
    fn accept(self: &Arc<Self>, function: &Function, payload: Bytes, trace: Trace) {
        let (index, times) = {
            let mut state = self.lock();
            let dropped = function.drops(&trace);
            state.events.push(Event {
                function: function.name().to_owned(),
                payload,
                trace,
                outcomes: dropped.then_some(Err(Failure::Dropped)).into_iter().collect(),
            });
            if dropped {
                return;
            }
            let index = state.events.len() - 1;
            if state.lose > 0 {
                state.lose -= 1;
                return;
            }
            let mut times = vec![];
            match state.fates.pop_front().unwrap_or(Fate::Delivered) {
                Fate::Lost => return,
                Fate::Delivered => times.push(Duration::ZERO),
                Fate::Twice => times.extend([Duration::ZERO; 2]),
                Fate::Overtaken(by) => state.overtaken.push((index, index + by)),
            }
            if !times.is_empty() {
                times.extend(&state.repeat_after);
            }
            (index, times)
        };
        self.deliver_after(index, times);
        let overtaken = {
            let is_over = |(_, by): &mut (usize, usize)| *by <= index;
            self.lock().overtaken.extract_if(.., is_over).collect::<Vec<_>>()
        };
        for (late, _) in overtaken {
            self.deliver_after(late, vec![Duration::ZERO]);
        }
    }

    fn deliver_after(self: &Arc<Self>, index: usize, times: Vec<Duration>) {
        for time in times {
            let lambda = self.clone();
            tokio::spawn(async move {
                after(time).await;
                let _ = lambda.deliver(index).await;
            });
        }
    }

    /// Delivers an accepted event, once more or at last; returns when the function has dealt with it.
    pub async fn deliver(&self, index: usize) -> Result<Value, Failure> {
        let payload = self.lock().events[index].payload.clone();
        self.deliver_as(index, payload).await
    }

    /// The same with another payload in its place.
    pub(crate) async fn deliver_as(&self, index: usize, payload: Bytes) -> Result<Value, Failure> {
        let event = self.lock().events[index].clone();
        let function = self.function(&event.function).expect("the function is deployed");
        let outcome = match function.invoke_in(&event.trace, payload).await {
            Ok(answer) => answer.said().await,
            Err(failure) => Err(failure),
        };
        self.lock().events[index].outcomes.push(outcome.clone());
        outcome
    }

    /// By its name or its ARN, with or without a version or an alias behind it.
    fn function(&self, name: &str) -> Option<Arc<Function>> {
        let name = name.rsplit_once(":function:").map_or(name, |(_, name)| name);
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        self.lock().functions.get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen() -> (String, tokio::net::TcpListener) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the address of a bound listener");
    (format!("http://{address}"), listener)
}
