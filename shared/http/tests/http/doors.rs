//! Who may come in, and what stands where there is nothing.

use axum::body::Body;
use http::Method;
use outlast_http::identity::{Caller, NotIdentified};

use crate::support::agents::notes;
use crate::support::{RUNS, Rig, internal, request};

#[tokio::test]
async fn nothing_without_a_credential() {
    let rig = Rig::new();
    let run = rig.start(notes(1)).await;
    let nobody = [("x-owner", "nobody")];
    for path in [
        "",
        "/active?threadId=t",
        &format!("/{run}"),
        &format!("/{run}/events"),
        "/no-id",
    ] {
        let answer = rig.get_with(&format!("{RUNS}{path}"), &nobody).await;
        assert_eq!(answer.problem(401), "unauthorized", "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    // Whatever else is wrong with it.
    let answer = rig.post_text(RUNS, &nobody, "text/plain", "{").await;
    assert_eq!(answer.problem(401), "unauthorized");
    let answer = rig
        .post_text(&format!("{RUNS}/{run}/stop"), &nobody, "text/plain", "")
        .await;
    assert_eq!(answer.problem(401), "unauthorized");
}

#[tokio::test]
async fn another_owners_run_is_no_run() {
    let rig = Rig::new();
    let run = rig.start(notes(1)).await;
    rig.ended(&run).await;
    let foreign = [("x-owner", "someone-else")];
    let unknown = "0197a8c0-0000-7000-8000-000000000000";
    let mut bodies = Vec::new();
    for id in [run.as_str(), unknown, "no-id", "%00", "%FF", "..%2F..", "a%2Fb"] {
        for (method, path) in [
            (Method::GET, ""),
            (Method::GET, "/events"),
            (Method::GET, "/events?after=999"),
            (Method::POST, "/stop"),
        ] {
            let request = request(method, &format!("{RUNS}/{id}{path}"), &foreign, Body::empty());
            let answer = rig.call(request).await;
            assert_eq!(answer.problem(404), "run_not_found", "{id}{path}");
            bodies.push(answer.text);
        }
        let request = request(
            Method::GET,
            &format!("{RUNS}/{id}/events"),
            &[("x-owner", "someone-else"), ("accept", "text/event-stream")],
            Body::empty(),
        );
        bodies.push(rig.call(request).await.text);
    }
    // A caller can't tell one from the other.
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let answer = rig.get_with(RUNS, &foreign).await;
    assert_eq!(answer.json()["runs"], serde_json::json!([]));
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    let rig = Rig::new();
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/run",
        "/api/v1/runs/",
        "/favicon.ico",
        "/api/v1/runs/x/y",
        "//",
    ] {
        assert_eq!(rig.get(path).await.problem(404), "route_not_found", "{path}");
    }
    for (method, path) in [
        (Method::DELETE, RUNS.to_owned()),
        (Method::PUT, format!("{RUNS}/x")),
        (Method::POST, format!("{RUNS}/active")),
        (Method::POST, format!("{RUNS}/x/events")),
        (Method::GET, format!("{RUNS}/x/stop")),
        (Method::OPTIONS, RUNS.to_owned()),
    ] {
        let answer = rig.call(request(method, &path, &[], Body::empty())).await;
        assert_eq!(answer.problem(405), "method_not_allowed", "{path}");
        assert!(!answer.header("allow").is_empty(), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn from_outside_there_are_no_internal_routes() {
    let rig = Rig::new();
    let missing = rig.get("/nowhere").await;
    for path in ["/_process-run", "/_sweep"] {
        for method in [Method::POST, Method::GET, Method::PUT, Method::OPTIONS] {
            let answer = rig.call(request(method, path, &[], Body::empty())).await;
            assert_eq!(answer.problem(404), "route_not_found", "{path}");
            assert_eq!((&answer.text, &answer.headers), (&missing.text, &missing.headers));
        }
    }
    let mut wrong_method = internal("/_sweep", "", None);
    *wrong_method.method_mut() = Method::GET;
    assert_eq!(rig.call(wrong_method).await.problem(405), "method_not_allowed");
}

#[tokio::test]
async fn e13_one_route_under_any_number_of_stages() {
    let rig = Rig::with(crate::support::agents::all(), |api| api.base_path = "prod".into());
    let started = rig
        .post(&format!("/prod{RUNS}"), &serde_json::json!({"input": notes(1)}))
        .await;
    assert_eq!(started.status, 202);
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(started.json()["links"]["self"], format!("/prod{RUNS}/{run}"));
    assert_eq!(started.header("location"), format!("/prod{RUNS}/{run}"));
    let encoded = run.replace('-', "%2D");
    for path in [
        format!("{RUNS}/{run}"),
        format!("/prod{RUNS}/{run}"),
        format!("/prod/prod{RUNS}/{run}"),
        format!("/prod{RUNS}/{encoded}"),
    ] {
        assert_eq!(rig.get(&path).await.json()["runId"], run, "{path}");
    }
    assert_eq!(rig.get("/production").await.problem(404), "route_not_found");
    assert_eq!(rig.get("/prod").await.problem(404), "route_not_found");
}

#[tokio::test]
async fn a_panic_is_answered() {
    struct Careless;

    #[async_trait::async_trait]
    impl outlast_http::Identity for Careless {
        async fn caller(&self, _: &http::HeaderMap) -> Result<Caller, NotIdentified> {
            panic!("a secret that nobody may see")
        }
    }

    let rig = Rig::with(crate::support::agents::all(), |api| {
        api.identity = std::sync::Arc::new(Careless);
    });
    let answer = rig.get(RUNS).await;
    assert_eq!(answer.problem(500), "internal");
    assert!(!answer.text.contains("secret"));
}
