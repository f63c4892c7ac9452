//! A token with which a browser reads one run for a while.

use std::time::Duration;

use axum::body::Body;
use http::Method;
use outlast_core::dispatch_token::Purpose;
use outlast_core::env_vars::DISPATCH_SECRET;
use outlast_core::limits::READ_TOKEN_LIFE;
use outlast_core::{Owner, RunId, Scope, read_token};
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_http::routes::listed;
use outlast_http::{InternalAccess, Needs};

use crate::support::agents::{all, notes};
use crate::support::answer::seqs;
use crate::support::callers::{ask_for_keys, asks_for_keys, bearer};
use crate::support::{RUNS, Rig, SSE, keys, request};

/// A run of `o`'s that has ended.
async fn run_of_o(rig: &Rig) -> String {
    let key = bearer(&rig.key("o", &Scope::ALL).await);
    let headers = [("authorization", &*key), SSE];
    let streamed = rig
        .post_with(RUNS, &headers, &serde_json::json!({"input": notes(2)}))
        .await;
    streamed.header("outlast-run-id").to_owned()
}

async fn token(rig: &Rig, run: &str) -> (String, String) {
    let reader = bearer(&rig.key("o", &[Scope::Read]).await);
    let headers = [("authorization", &*reader)];
    let given = rig
        .call(request(
            Method::POST,
            &format!("{RUNS}/{run}/read-token"),
            &headers,
            Body::empty(),
        ))
        .await;
    assert_eq!(given.status, 201, "{}", given.text);
    assert_eq!(given.header("cache-control"), "no-store");
    let text = |name: &str| given.json()[name].as_str().unwrap().to_owned();
    assert!(text("expiresAt").ends_with('Z'));
    (text("token"), text("events"))
}

#[tokio::test(start_paused = true)]
async fn a_browser_follows_a_run_without_a_header() {
    let rig = Rig::with(all(), |api| {
        ask_for_keys(api);
        api.base_path = "/agents".into();
    });
    let run = run_of_o(&rig).await;
    let (token, events) = token(&rig, &run).await;
    assert_eq!(events, format!("/agents{RUNS}/{run}/events?token={token}"));

    let streamed = rig.get_with(&events, &[SSE]).await;
    let seen = streamed.events().await;
    assert_eq!(seqs(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    // As it comes back after a break, and after the end.
    let resumed = rig.get_with(&events, &[SSE, ("last-event-id", "2")]).await;
    assert_eq!(seqs(&resumed.events().await)[0], 3);
    let last = seen.len().to_string();
    assert_eq!(
        rig.get_with(&events, &[SSE, ("last-event-id", &last)]).await.status,
        204
    );
    let shown = rig.get(&format!("{RUNS}/{run}?token={token}")).await;
    assert_eq!(shown.json()["status"], "completed");
    assert_eq!(rig.get(&format!("{events}&after=1&wait=1s")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_its_run_its_owner_and_its_time() {
    let rig = asks_for_keys();
    let (run, other) = (run_of_o(&rig).await, run_of_o(&rig).await);
    let (good, _) = token(&rig, &run).await;
    let id = RunId::new(run.as_str());
    let now = rig.engine.seams().now();
    let another_owners = read_token::sign(&keys(), &Owner::new("someone-else"), &id, now).0;
    let strange = outlast_core::dispatch_token::DispatchKeys::new("x".repeat(32).into(), None).unwrap();
    let another_deployments = read_token::sign(&strange, &Owner::new("o"), &id, now).0;
    let of_a_dispatch = format!("{}.bw", keys().sign(Purpose::Dispatch, b"", now));
    let admin = bearer(&rig.key("o", &Scope::ALL).await);
    let with_key = [("authorization", &*admin)];

    for path in ["", "/events"] {
        let get = async |run: &str, token: &str| {
            rig.get_with(&format!("{RUNS}/{run}{path}?token={token}"), &with_key)
                .await
        };
        assert_eq!(get(&run, &good).await.status, 200);
        let cut = &good[..good.len() - 1];
        // A good key beside it doesn't help a bad token.
        for bad in [
            "",
            "x",
            "a.b.c",
            cut,
            &another_deployments,
            &of_a_dispatch,
            "%00",
            "%FF",
            &format!("{good}&token={good}"),
        ] {
            assert_eq!(get(&run, bad).await.problem(401), "unauthorized", "{path} {bad}");
        }
        for elsewhere in [other.as_str(), "no-id", "0197a8c0-0000-7000-8000-000000000000"] {
            assert_eq!(get(elsewhere, &good).await.problem(401), "unauthorized", "{elsewhere}");
        }
        // Well signed, and for nobody's run: as such runs are to everyone.
        assert_eq!(get(&run, &another_owners).await.problem(404), "run_not_found");
    }
    tokio::time::sleep(READ_TOKEN_LIFE - Duration::from_millis(1)).await;
    let events = format!("{RUNS}/{run}/events?token={good}");
    assert_eq!(rig.get(&events).await.status, 200);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(rig.get(&events).await.problem(401), "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn a_token_opens_nothing_but_reading() {
    let rig = Rig::with(all(), |api| {
        ask_for_keys(api);
        api.internal = InternalAccess::Signed;
    });
    let run = run_of_o(&rig).await;
    let (token, _) = token(&rig, &run).await;
    let as_key = format!("Bearer {token}");
    for (method, path, needs) in listed() {
        let path = path.replace("{id}", &run);
        let in_query = request(
            method.clone(),
            &format!("{path}?token={token}&threadId=t"),
            &[],
            Body::empty(),
        );
        let in_query = rig.call(in_query).await;
        let in_header = request(
            method.clone(),
            &path,
            &[("authorization", &as_key), (TOKEN_HEADER, &token)],
            Body::empty(),
        );
        let in_header = rig.call(in_header).await;
        let (by_query, by_header) = match needs {
            Needs::ReadOrToken => (200, 401),
            Needs::Scope(_) => (401, 401),
            Needs::Nothing => (404, 404),
        };
        assert_eq!(in_query.status, by_query, "{method} {path}: {}", in_query.text);
        assert_eq!(in_header.status, by_header, "{method} {path}: {}", in_header.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_without_a_secret_says_what_to_set() {
    let rig = Rig::with(all(), |api| {
        ask_for_keys(api);
        api.read_tokens = None;
    });
    let run = run_of_o(&rig).await;
    let key = bearer(&rig.key("o", &[Scope::Read]).await);
    let ask = async |run: &str| {
        let headers = [("authorization", &*key)];
        rig.call(request(
            Method::POST,
            &format!("{RUNS}/{run}/read-token"),
            &headers,
            Body::empty(),
        ))
        .await
    };
    let answer = ask(&run).await;
    assert_eq!(answer.problem(501), "no_read_tokens");
    assert!(answer.text.contains(DISPATCH_SECRET.name), "{}", answer.text);
    assert_eq!(ask("no-id").await.problem(404), "run_not_found");
    // One that was made while there was a secret.
    let now = rig.engine.seams().now();
    let (old, _) = read_token::sign(&keys(), &Owner::new("o"), &RunId::new(run.as_str()), now);
    let answer = rig.get(&format!("{RUNS}/{run}/events?token={old}")).await;
    assert_eq!(answer.problem(401), "unauthorized");
}
