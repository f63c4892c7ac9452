//! Dispatch within the process that behaves as Lambda's asynchronous invocation does: it returns when the dispatch is
//! accepted, the work happens apart from the caller, a wall ends it, and deliveries may be doubled, lost or late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use outlast_core::Timestamp;
use outlast_engine::dispatch::{DispatchError, Dispatcher, SignedDispatch, TOKEN_HEADER};
use outlast_http::Invocation;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::options::DispatchFaults;

/// What lies between a function's soft cap and its wall: two minutes, as between 13 and 15.
const WALL_BEHIND_CAP: Duration = Duration::from_secs(2 * 60);

/// The background function, as this process runs it.
pub struct LocalDispatcher {
    /// The background's router. It needs an engine, which needs this dispatcher: so it comes second.
    router: OnceCell<Router>,
    /// How long an invocation may take before it is killed.
    wall: Duration,
    faults: DispatchFaults,
    to_lose: AtomicU64,
    closed: AtomicBool,
    invocations: Mutex<JoinSet<()>>,
}

impl LocalDispatcher {
    pub fn new(soft_cap: Duration, faults: DispatchFaults) -> Arc<Self> {
        Arc::new(Self {
            router: OnceCell::new(),
            wall: soft_cap + WALL_BEHIND_CAP,
            faults,
            to_lose: AtomicU64::new(faults.lose),
            closed: AtomicBool::new(false),
            invocations: Mutex::default(),
        })
    }

    pub fn serve(&self, background: Router) {
        // Called once, by the start of `dev`.
        let _ = self.router.set(background);
    }

    /// One pass of the schedule.
    pub async fn sweep(&self) {
        let Some(router) = self.router.get() else { return };
        invoke(router, request("/_sweep", None, String::new(), self.wall)).await;
    }

    /// Accepts dispatches and delivers none: a host that is about to end starts nothing.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Returns when no invocation is under way any more.
    pub async fn drained(&self) {
        let mut invocations = self.invocations.lock().await;
        while invocations.join_next().await.is_some() {}
    }

    fn loses_this_one(&self) -> bool {
        let lose = self
            .to_lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        lose.is_ok() || self.closed.load(Ordering::SeqCst)
    }

    fn deliver(&self, invocations: &mut JoinSet<()>, router: &Router, dispatch: &SignedDispatch) {
        let (router, dispatch) = (router.clone(), dispatch.clone());
        let (wall, delay) = (self.wall, self.faults.delay);
        invocations.spawn(async move {
            tokio::time::sleep(delay).await;
            let request = request("/_process-run", Some(&dispatch.token), dispatch.body, wall);
            if tokio::time::timeout(wall, invoke(&router, request)).await.is_err() {
                tracing::warn!(
                    seconds = wall.as_secs(),
                    "an invocation reached its wall and was killed"
                );
            }
        });
    }
}

#[async_trait]
impl Dispatcher for LocalDispatcher {
    async fn send(&self, dispatch: &SignedDispatch) -> Result<(), DispatchError> {
        let Some(router) = self.router.get() else {
            return Err(DispatchError("the background is not there yet".into()));
        };
        if self.loses_this_one() {
            return Ok(());
        }
        let mut invocations = self.invocations.lock().await;
        // Those that have ended are let go of here: nobody else looks.
        while invocations.try_join_next().is_some() {}
        for _ in 0..1 + u64::from(self.faults.duplicate) {
            self.deliver(&mut invocations, router, dispatch);
        }
        Ok(())
    }
}

fn request(path: &str, token: Option<&str>, body: String, wall: Duration) -> Request<Body> {
    let mut request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(TOKEN_HEADER, token);
    }
    let Ok(mut request) = request.body(Body::from(body)) else {
        unreachable!("a fixed path and a token of ASCII make a request")
    };
    request.extensions_mut().insert(Invocation {
        deadline: Some(now() + wall),
        internal: true,
    });
    request
}

async fn invoke(router: &Router, request: Request<Body>) {
    let path = request.uri().path().to_owned();
    let status = match router.clone().oneshot(request).await {
        Ok(response) => response.status(),
        Err(never) => match never {},
    };
    if status.is_server_error() {
        tracing::warn!(%path, %status, "an invocation ended in an error");
    } else if status != StatusCode::OK && !status.is_success() {
        tracing::info!(%path, %status, "a delivery was turned away");
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use axum::routing::post;
    use tokio::sync::Notify;

    use super::*;

    fn dispatch() -> SignedDispatch {
        SignedDispatch {
            body: "{}".into(),
            token: "1.x".into(),
        }
    }

    fn counting(hits: &Arc<AtomicUsize>) -> Router {
        let hits = hits.clone();
        Router::new().route(
            "/_process-run",
            post(move |request: Request<Body>| async move {
                let invocation = request.extensions().get::<Invocation>().copied().unwrap();
                assert!(invocation.internal && invocation.deadline.unwrap() > now());
                assert_eq!(request.headers()[TOKEN_HEADER], "1.x");
                hits.fetch_add(1, Ordering::SeqCst);
            }),
        )
    }

    async fn delivered(faults: DispatchFaults, dispatches: usize) -> usize {
        let hits = Arc::new(AtomicUsize::new(0));
        let dispatcher = LocalDispatcher::new(Duration::from_secs(1), faults);
        dispatcher.serve(counting(&hits));
        for _ in 0..dispatches {
            dispatcher.send(&dispatch()).await.unwrap();
        }
        dispatcher.drained().await;
        hits.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn dispatches_are_delivered_doubled_or_lost() {
        assert_eq!(delivered(DispatchFaults::default(), 3).await, 3);
        let duplicate = DispatchFaults {
            duplicate: true,
            ..DispatchFaults::default()
        };
        assert_eq!(delivered(duplicate, 3).await, 6);
        let lose = DispatchFaults {
            lose: 2,
            ..DispatchFaults::default()
        };
        assert_eq!(delivered(lose, 3).await, 1);
    }

    #[tokio::test]
    async fn sending_does_not_wait_for_the_work() {
        let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let handler = {
            let (begun, go_on) = (begun.clone(), go_on.clone());
            move || async move {
                begun.notify_one();
                go_on.notified().await;
            }
        };
        let dispatcher = LocalDispatcher::new(Duration::from_secs(1), DispatchFaults::default());
        dispatcher.serve(Router::new().route("/_process-run", post(handler)));
        dispatcher.send(&dispatch()).await.unwrap();
        begun.notified().await;
        go_on.notify_one();
        dispatcher.drained().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_wall_kills() {
        let dispatcher = LocalDispatcher::new(Duration::from_secs(3), DispatchFaults::default());
        let never = || std::future::pending::<()>();
        dispatcher.serve(Router::new().route("/_process-run", post(never)));
        let started = tokio::time::Instant::now();
        dispatcher.send(&dispatch()).await.unwrap();
        dispatcher.drained().await;
        assert_eq!(started.elapsed().as_secs(), 123);
    }
}
