//! An HTTP server that counts the requests of each idempotency key.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;

#[derive(Clone, Default)]
pub struct Counts(Arc<Mutex<HashMap<String, u64>>>);

pub struct CountingServer {
    pub url: String,
    pub counts: Counts,
}

impl CountingServer {
    /// Answers 200 to everything but to the paths in `missing`, which are 404.
    pub async fn start(missing: &[&str]) -> CountingServer {
        let counts = Counts::default();
        let missing: HashSet<String> = missing.iter().map(|path| (*path).to_owned()).collect();
        let router = axum::Router::new()
            .route("/{*path}", any(answer))
            .with_state((counts.clone(), Arc::new(missing)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        CountingServer { url, counts }
    }
}

impl Counts {
    /// Requests by the step key at the end of their idempotency key.
    pub fn by_step(&self) -> HashMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(
    State((counts, missing)): State<(Counts, Arc<HashSet<String>>)>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> StatusCode {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok())
        .unwrap_or_default();
    let step = key.rsplit('/').next().unwrap_or_default().to_owned();
    *counts
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(step)
        .or_default() += 1;
    if missing.contains(&path) {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::OK
    }
}
