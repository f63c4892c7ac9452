//! What goes wrong between a function and DynamoDB: a proxy on loopback that passes each request on, unless a script or
//! a seed says otherwise. It decides nothing about conditions: what is done is done by the real server, and so is what
//! a repetition of it finds.
//!
//! - [`asked`]: a request, as far as scripts look into it
//! - [`script`]: rules and chances; which fault a request meets
//! - [`forward`]: how each fault is played

pub mod asked;
mod forward;
pub mod script;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use asked::Asked;
use forward::{ClosedByFault, Kept, Upstream};
pub use script::{Chances, Fault, Rule};

/// Between clients and the server at `upstream`. It lives as long as the test's runtime.
pub struct TableProxy {
    endpoint: String,
    upstream: Upstream,
    state: Mutex<State>,
    /// How often replies that are held back were let go.
    released: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    chances: Option<Chances>,
    asked: Vec<Asked>,
    did: BTreeMap<Fault, u64>,
    kept: Vec<Kept>,
    /// Replies that wait to be let go.
    held: usize,
}

impl TableProxy {
    pub async fn start(upstream: String) -> Arc<TableProxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the address of a bound listener");
        let proxy = Arc::new(TableProxy {
            endpoint: format!("http://{address}"),
            upstream: Upstream::new(upstream),
            state: Mutex::default(),
            released: watch::Sender::new(0),
        });
        tokio::spawn(accept(listener, proxy.clone()));
        proxy
    }

    /// For an SDK's `endpoint_url`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// From now on this may happen too. The first rule that has something to say about a request decides.
    pub fn rule(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// From now on any request may meet a fault, as these chances fall.
    pub fn unleash(&self, chances: Chances) {
        self.lock().chances = Some(chances);
    }

    /// From now on nothing goes wrong. What was kept stays kept, and what is held is held.
    pub fn calm(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.chances = None;
    }

    /// How often this was done to a request.
    pub fn did(&self, fault: Fault) -> u64 {
        self.lock().did.get(&fault).copied().unwrap_or_default()
    }

    /// Every request that came, in order, also those that met a fault.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// Replies that [`Fault::HeldReply`] holds back.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// Lets them go.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// Does now what [`Fault::Late`] has kept; what the server says to each, in the order in which they came.
    pub async fn land(&self) -> Vec<(Asked, StatusCode, String)> {
        let kept = std::mem::take(&mut self.lock().kept);
        let mut said = Vec::new();
        for kept in kept {
            let asked = kept.asked.clone();
            let reply = self
                .upstream
                .send(kept.into_request())
                .await
                .expect("the server answers");
            let body = String::from_utf8_lossy(&reply.body).into_owned();
            said.push((asked, reply.status, body));
        }
        said
    }

    /// What happens to a request. An error closes the connection: its client has no answer.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, ClosedByFault> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| ClosedByFault)?.to_bytes();
        let asked = Asked::of(&head.headers, &body);
        let fault = self.lock().next_fault(&asked);
        let request = Kept { asked, head, body };
        match fault {
            Some(fault) => self.play(fault, request).await,
            None => self.pass(request).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_fault(&mut self, asked: &Asked) -> Option<Fault> {
        self.asked.push(asked.clone());
        let by_rule = self.rules.iter_mut().find_map(|rule| rule.meets(asked));
        let fault = by_rule.or_else(|| self.chances.as_mut()?.fall(asked))?;
        *self.did.entry(fault).or_default() += 1;
        Some(fault)
    }
}

async fn accept(listener: TcpListener, proxy: Arc<TableProxy>) {
    while let Ok((stream, _)) = listener.accept().await {
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| proxy.answer(request));
            // It ends with an error where a fault closes it, and where a killed process did.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
