//! Every route, and what it asks of its caller. A route that isn't listed here fails the first test; one that is, is held
//! to all the others.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::Method;
use outlast_core::api_key::ApiKey;
use outlast_core::{Scope, paths};
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_http::routes::listed;
use outlast_http::{InternalAccess, Needs};
use outlast_store::memory::{Effect, Fault, Kind};
use serde_json::json;

use crate::support::agents::{all, notes};
use crate::support::answer::Answer;
use crate::support::callers::{ask_for_keys, asks_for_keys, bearer};
use crate::support::{Deliver, RUNS, Rig, request};

const RUN: Needs = Needs::Scope(Scope::Run);
const READ: Needs = Needs::Scope(Scope::Read);
const CONTROL: Needs = Needs::Scope(Scope::Control);

#[test]
fn every_route_is_listed_with_what_it_needs() {
    let expected = [
        (Method::POST, "/api/v1/runs", RUN),
        (Method::GET, "/api/v1/runs", READ),
        (Method::GET, "/api/v1/runs/active", READ),
        (Method::GET, "/api/v1/runs/{id}", Needs::ReadOrToken),
        (Method::GET, "/api/v1/runs/{id}/events", Needs::ReadOrToken),
        (Method::POST, "/api/v1/runs/{id}/read-token", READ),
        (Method::POST, "/api/v1/runs/{id}/continue", RUN),
        (Method::POST, "/api/v1/runs/{id}/answers/{*key}", CONTROL),
        (Method::GET, "/api/v1/runs/{id}/remainder", READ),
        (Method::POST, "/api/v1/runs/{id}/stop", CONTROL),
        (Method::POST, "/api/v1/runs/{id}/pause", CONTROL),
        (Method::POST, "/api/v1/runs/{id}/resume", CONTROL),
        (Method::POST, "/api/v1/runs/{id}/retry", CONTROL),
        (Method::POST, "/api/v1/turns/{turn_id}/stop", CONTROL),
        (Method::POST, paths::PROCESS_RUN, Needs::Nothing),
        (Method::POST, paths::SWEEP, Needs::Nothing),
    ];
    assert_eq!(listed(), expected, "list the route here, with the scope that it needs");
}

#[test]
fn nothing_but_the_table_makes_a_route() {
    let mut makes = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for word in [".route(", ".nest(", ".merge(", ".route_service(", ".nest_service("] {
                makes.extend(text.matches(word).map(|_| format!("{word} in {}", path.display())));
            }
        }
    }
    assert_eq!(makes.len(), 1, "a route goes into the table of routes.rs: {makes:?}");
}

/// The routes that a caller may know of, with what each needs.
fn public() -> impl Iterator<Item = (Method, &'static str, Scope)> {
    listed().into_iter().filter_map(|(method, path, needs)| match needs {
        Needs::Scope(scope) => Some((method, path, scope)),
        Needs::ReadOrToken => Some((method, path, Scope::Read)),
        Needs::Nothing => None,
    })
}

/// A request that this route takes, and its credential.
async fn asked(rig: &Rig, method: &Method, path: &str, run: &str, credential: &[&str]) -> Answer {
    let mut path = path
        .replace("{id}", run)
        .replace("{*key}", "k")
        .replace("{turn_id}", "k");
    if path.ends_with("/active") {
        path.push_str("?threadId=t");
    }
    let body = match path.as_str() {
        RUNS if method == Method::POST => json!({"input": notes(1)}).to_string(),
        _ if path.contains("/answers/") => json!({"value": 1}).to_string(),
        _ => String::new(),
    };
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(credential.iter().map(|value| ("authorization", *value)));
    rig.call(request(method.clone(), &path, &headers, Body::from(body)))
        .await
}

/// The caller got as far as the run, which has no question open.
fn has_not_asked(answer: &Answer) -> bool {
    answer.status == 404 && answer.problem(404) == "question_not_found"
}

/// A run of `owner`'s, on the thread `t`, which nobody carries.
async fn live_run(rig: &Rig, owner: &str) -> String {
    rig.deliver(Deliver::Hold);
    let key = rig.key(owner, &[Scope::Run]).await;
    let body = json!({"input": notes(1), "threadId": "t"});
    let started = rig.post_with(RUNS, &[("authorization", &bearer(&key))], &body).await;
    assert_eq!(started.status, 202, "{}", started.text);
    started.json()["runId"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn without_a_good_key_every_route_is_401() {
    let rig = asks_for_keys();
    let run = live_run(&rig, "o").await;
    let removed = rig.key("o", &Scope::ALL).await;
    let expired = rig.key_for("o", &Scope::ALL, Some(Duration::from_secs(60))).await;
    let good = rig.key("o", &Scope::ALL).await;
    let never_made = ApiKey::from_random([9; 32]);
    for (method, path, _) in public() {
        for key in [&removed, &expired] {
            let answer = asked(&rig, &method, path, &run, &[&bearer(key)]).await;
            assert!(
                answer.status.as_u16() < 400 || answer.status == 409 || has_not_asked(&answer),
                "{path}: {answer:?}"
            );
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let now = rig.engine.seams().now();
    assert!(rig.engine.store().remove_api_key(&removed.hash(), now).await.unwrap());

    let mistyped = bearer(&good).replace("ol_", "ol_x");
    let (good, basic) = (bearer(&good), bearer(&good).replace("Bearer", "Basic"));
    let (removed, expired, never_made) = (bearer(&removed), bearer(&expired), bearer(&never_made));
    let credentials: [&[&str]; 11] = [
        &[],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer ol_"],
        &[&removed],
        &[&expired],
        &[&never_made],
        &[&mistyped],
        &[&basic],
        &[&good, &good],
    ];
    let before = rig.table.keys();
    for (method, path, _) in public() {
        let mut bodies = Vec::new();
        for credential in credentials {
            let answer = asked(&rig, &method, path, &run, credential).await;
            assert_eq!(answer.problem(401), "unauthorized", "{method} {path} {credential:?}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            bodies.push(answer.text);
        }
        bodies.dedup();
        assert_eq!(bodies.len(), 1, "nobody learns why: {bodies:?}");
    }
    assert_eq!(rig.table.keys(), before, "nothing was stored");
}

#[tokio::test(start_paused = true)]
async fn without_its_scope_every_route_is_403_and_names_it() {
    let rig = asks_for_keys();
    let run = live_run(&rig, "o").await;
    for (method, path, scope) in public() {
        let others = Scope::ALL
            .into_iter()
            .filter(|other| ![scope, Scope::Admin].contains(other));
        let others = rig.key("o", &others.collect::<Vec<_>>()).await;
        let nothing = rig.key("o", &[]).await;
        let before = rig.table.keys();
        for key in [others, nothing] {
            let answer = asked(&rig, &method, path, &run, &[&bearer(&key)]).await;
            assert_eq!(answer.problem(403), "forbidden", "{method} {path}");
            assert_eq!(answer.json()["scope"], scope.as_str());
            assert!(answer.header("www-authenticate").is_empty());
        }
        assert_eq!(rig.table.keys(), before, "nothing was stored");
        for enough in [scope, Scope::Admin] {
            let key = rig.key("o", &[enough]).await;
            let answer = asked(&rig, &method, path, &run, &[&bearer(&key)]).await;
            assert!(
                ![401, 403, 404].contains(&answer.status.as_u16()) || has_not_asked(&answer),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_every_route_another_owners_run_is_404() {
    let rig = asks_for_keys();
    let run = live_run(&rig, "o").await;
    let foreign = rig.key("someone-else", &Scope::ALL).await;
    let unknown = "0197a8c0-0000-7000-8000-000000000000";
    for (method, path, _) in public() {
        let answer = asked(&rig, &method, path, &run, &[&bearer(&foreign)]).await;
        match path {
            "/api/v1/runs" if method == Method::POST => {
                assert_ne!(answer.json()["runId"], *run, "a run of its own");
                let started = answer.json()["runId"].as_str().unwrap().to_owned();
                let stop = format!("{RUNS}/{started}/stop");
                let stopped = rig
                    .post_with(&stop, &[("authorization", &bearer(&foreign))], &json!({}))
                    .await;
                assert_eq!(stopped.status, 200);
            }
            "/api/v1/runs" => assert!(!answer.text.contains(&run)),
            // A key of one's own, whoever else has the same: it names no run of theirs.
            "/api/v1/turns/{turn_id}/stop" => assert!(answer.json()["run"].is_null(), "{answer:?}"),
            _ => {
                assert_eq!(answer.problem(404), "run_not_found", "{method} {path}");
                let of_nobody = asked(&rig, &method, path, unknown, &[&bearer(&foreign)]).await;
                assert_eq!(answer.text, of_nobody.text, "{path} tells them apart");
            }
        }
    }
    let own = rig.key("o", &[Scope::Read]).await;
    let shown = rig
        .get_with(&format!("{RUNS}/{run}"), &[("authorization", &bearer(&own))])
        .await;
    assert_eq!(shown.json()["status"], "queued", "nothing was done to it");
}

#[tokio::test]
async fn a_caller_is_judged_before_its_body_arrives() {
    let rig = asks_for_keys();
    let reader = rig.key("o", &[Scope::Read]).await;
    for (credential, status) in [("Bearer x".into(), 401), (bearer(&reader), 403)] {
        let polled = Arc::new(AtomicBool::new(false));
        let seen = polled.clone();
        let body = Body::from_stream(futures::stream::poll_fn(move |_| {
            seen.store(true, Ordering::Relaxed);
            std::task::Poll::<Option<Result<Bytes, Infallible>>>::Pending
        }));
        let headers = [("authorization", &*credential), ("content-type", "text/plain")];
        let answer = rig.call(request(Method::POST, RUNS, &headers, body)).await;
        assert_eq!(answer.status, status);
        assert!(!polled.load(Ordering::Relaxed));
    }
}

#[tokio::test]
async fn internal_routes_are_404_without_their_token_whatever_the_key() {
    for internal in [InternalAccess::MarkedOnly, InternalAccess::Signed] {
        let rig = Rig::with(all(), |api| {
            ask_for_keys(api);
            api.internal = internal;
        });
        let admin = bearer(&rig.key("o", &Scope::ALL).await);
        let missing = rig.get("/nowhere").await;
        for (method, path, needs) in listed() {
            if needs != Needs::Nothing {
                continue;
            }
            for headers in [
                &[][..],
                &[("authorization", &*admin)],
                &[("authorization", &*admin), (TOKEN_HEADER, &*admin)],
            ] {
                let answer = rig.call(request(method.clone(), path, headers, Body::empty())).await;
                assert_eq!(answer.problem(404), "route_not_found", "{path}");
                assert_eq!((&answer.text, &answer.headers), (&missing.text, &missing.headers));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_can_not_be_looked_up_is_not_a_bad_key() {
    let rig = asks_for_keys();
    let key = bearer(&rig.key("o", &Scope::ALL).await);
    rig.table.fault(Fault::on(Kind::Get, "key#", Effect::Throttle).times(8));
    let throttled = rig.get_with(RUNS, &[("authorization", &key)]).await;
    assert_eq!(throttled.problem(503), "store_unavailable");
    rig.table.fault(Fault::on(Kind::Get, "key#", Effect::Reject));
    let refused = rig.get_with(RUNS, &[("authorization", &key)]).await;
    assert_eq!(refused.problem(500), "internal");
    assert_eq!(rig.get_with(RUNS, &[("authorization", &key)]).await.status, 200);
}
