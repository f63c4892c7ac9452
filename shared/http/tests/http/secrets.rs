//! What a caller proves itself with is in no log and in no answer.

use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::Method;
use outlast_core::Scope;
use outlast_core::api_key::ApiKey;
use outlast_store::memory::{Effect, Fault, Kind};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::agents::notes;
use crate::support::callers::{asks_for_keys, bearer};
use crate::support::{RUNS, request};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_and_no_token_is_logged_or_repeated() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(lines.clone())
        .finish();
    let _logging = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);

    let rig = asks_for_keys();
    let key = rig.key("o", &Scope::ALL).await;
    let never_made = ApiKey::from_random([9; 32]);
    let (good, bad) = (bearer(&key), bearer(&never_made));
    let body = serde_json::json!({"input": notes(1)});
    let started = rig.post_with(RUNS, &[("authorization", &good)], &body).await.json();
    let run = started["runId"].as_str().unwrap();
    let path = format!("{RUNS}/{run}/read-token");
    let given = rig
        .call(request(Method::POST, &path, &[("authorization", &good)], Body::empty()))
        .await
        .json();
    let token = given["token"].as_str().unwrap();

    let mut answers = Vec::new();
    rig.table.fault(Fault::on(Kind::Get, "key#", Effect::Throttle).times(8));
    for (path, credential) in [
        (RUNS.to_owned(), &good),
        (RUNS.to_owned(), &bad),
        (format!("{RUNS}/{run}?token={token}"), &bad),
        (format!("{RUNS}/{run}/events?token={token}"), &bad),
        (format!("{RUNS}/{run}/events?token={token}&after=999"), &bad),
        (
            format!("{RUNS}/0197a8c0-0000-7000-8000-000000000000/events?token={token}"),
            &bad,
        ),
        (format!("{RUNS}/{run}/stop?token={token}"), &bad),
        (format!("/nowhere?token={token}"), &bad),
    ] {
        let answer = rig.get_with(&path, &[("authorization", credential)]).await;
        answers.push(format!("{:?} {}", answer.headers, answer.text));
    }
    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("read token was turned away") && logged.contains("a request to the store failed"));
    let signature = token.split('.').nth(1).unwrap();
    for secret in [key.expose(), never_made.expose(), token, signature] {
        assert!(!logged.contains(secret), "{logged}");
        assert!(!answers.iter().any(|answer| answer.contains(secret)), "{answers:#?}");
    }
}
