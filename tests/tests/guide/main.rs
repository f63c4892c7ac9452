//! The code that the README shows: compiled, run, and compared with what it says. And what documents name is there.
//!
//! To bring it up to date: `OUTLAST_TEST_WRITE_DOCS=1 cargo test -p outlast-tests --test guide shown`

mod agent;
mod named;
mod shown;
mod tool;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use outlast_agent::App;
use outlast_core::{AgentName, Reason, Status, StepKey};
use outlast_engine::accept::NotAccepted;
use outlast_engine::sweep::recover;
use outlast_tests::rig::{Deliver, Rig, RigOptions, deliver};
use outlast_tests::wait::wait_until;
use serde_json::json;

use agent::Refund;
use tool::KeepNote;

/// The order whose refund is paid and never answered.
const SLOW: &str = "slow";

/// The idempotency keys of the refunds that a shop has paid.
type Paid = Arc<Mutex<Vec<String>>>;

async fn shop() -> (String, Paid) {
    let paid = Paid::default();
    let pay = async |State(paid): State<Paid>, Path((order, cents)): Path<(String, u64)>, headers: HeaderMap| {
        let key = headers["idempotency-key"].to_str().unwrap_or_default().to_owned();
        paid.lock().unwrap().push(key);
        if order == SLOW {
            std::future::pending::<()>().await;
        }
        format!("paid {cents} for {order}")
    };
    let router = axum::Router::new()
        .route("/orders/{order}", get(async || "1250"))
        .route("/refunds/{order}/{cents}", post(pay))
        .with_state(paid.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, paid)
}

fn rig(shop: String) -> Rig {
    let (mut options, _) = RigOptions::in_memory();
    let http = reqwest::Client::new();
    options.app = App::new("shop").tool(KeepNote).agent(Refund { http, shop });
    let rig = Rig::new(options);
    // All clones hold the same tables.
    let _ = (*rig.records).clone().with_table("notes", &["id"]);
    rig
}

#[tokio::test]
async fn the_agent_pays_once_and_returns_its_receipt() {
    let (shop, paid) = shop().await;
    let rig = rig(shop);
    let mut request = rig.request(&json!({"order": "A7"}));
    request.agent = AgentName::new("refund");
    let run = rig.try_start(request).await.unwrap().run.id;
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed, "{:?}", ended.outcome);
    assert_eq!((ended.totals.committed, ended.totals.planned), (2, 2));
    let value = ended.outcome.unwrap().value.unwrap();
    assert_eq!(value.as_str(), r#""paid 1250 for A7""#);
    assert_eq!(*paid.lock().unwrap(), [format!("{run}/pay")]);
}

#[tokio::test]
async fn g4_a_payment_that_a_crash_cut_off_is_unknown_and_not_paid_again() {
    let (shop, paid) = shop().await;
    let rig = rig(shop);
    rig.set_deliver(Deliver::Hold);
    let mut request = rig.request(&json!({"order": SLOW}));
    request.agent = AgentName::new("refund");
    let run = rig.try_start(request).await.unwrap().run.id;
    let (engine, dispatch) = (rig.engine.clone(), rig.sent()[0].clone());
    let holder = tokio::spawn(async move { deliver(&engine, &dispatch, Duration::from_secs(60)).await });
    let minute = Duration::from_secs(60);
    wait_until("the shop has paid", minute, async || !paid.lock().unwrap().is_empty()).await;
    holder.abort();
    let _ = holder.await;

    rig.set_deliver(Deliver::AtOnce);
    recover(&rig.engine).await.unwrap();
    let ended = rig.ended(&run).await;
    let outcome = ended.outcome.unwrap();
    assert_eq!(outcome.reason, Some(Reason::AgentError), "the agent handles no unknown");
    assert_eq!(outcome.error.unwrap().kind, "step_unknown");
    assert_eq!((ended.totals.committed, ended.totals.unknown), (1, 1));
    assert_eq!(outcome.remainder, [StepKey::new("pay")]);
    assert_eq!(paid.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_agent_refuses_what_is_no_order() {
    let rig = rig(String::from("http://127.0.0.1:9"));
    let mut request = rig.request(&json!({"oder": "A7"}));
    request.agent = AgentName::new("refund");
    let refused = rig.try_start(request).await.unwrap_err();
    let NotAccepted::BadInput(bad) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((bad.malformed, bad.code), (true, "invalid_order"));
}

#[tokio::test]
async fn the_tool_writes_and_looks_again() {
    let rig = rig(String::from("http://127.0.0.1:9"));
    let step = json!({"key": "a", "tool": "keep_note", "input": {"id": "a", "text": "milk"}});
    // Two steps write one note: at the end it is not as the first wrote it.
    let other = json!({"key": "b", "tool": "keep_note", "input": {"id": "a", "text": "eggs"}});
    let run = rig.start(&json!({"steps": [step.clone()]})).await;
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed, "{:?}", ended.outcome);
    assert_eq!(ended.outcome.unwrap().verification.unwrap().checked, 1);

    let run = rig.start(&json!({"steps": [step, other]})).await;
    let outcome = rig.ended(&run).await.outcome.unwrap();
    assert_eq!(outcome.reason, Some(Reason::NotVerified));
    assert_eq!(outcome.remainder, [StepKey::new("a")]);
}
