//! One route, however a gateway spells its path; asked of the real functions, because lambda_http puts a stage in front
//! of what the event says.

use std::time::Duration;

use outlast_core::env_vars as vars;
use outlast_runtime::internal_event::internal_event;
use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::lambda::event::PUBLIC_DOMAIN;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const BASE: &str = "/prod";

async fn deploy(base_path: &str) -> Deployment {
    Deployment::start(Options {
        variables: vec![(vars::BASE_PATH.name, base_path.to_owned())],
        ..Options::default()
    })
    .await
}

/// A request as it comes through a gateway's stage.
fn request(method: &str, path: &str, stage: &str, body: &Value) -> Value {
    let mut event = internal_event(path, None, &body.to_string());
    let context = &mut event["requestContext"];
    context["domainName"] = PUBLIC_DOMAIN.into();
    context["stage"] = stage.into();
    context["http"]["method"] = method.into();
    event
}

/// What the foreground says to it.
async fn asked(deployed: &Deployment, event: &Value) -> (u16, Value) {
    let answer = deployed.foreground.invoke(event.to_string().into()).await.unwrap();
    (answer.status.as_u16(), answer.json().await)
}

async fn start(deployed: &Deployment, path: &str, stage: &str) -> String {
    let plan = json!({ "steps": [{ "key": "a", "tool": "sleep", "input": { "ms": 10 } }] });
    let body = json!({ "agent": "plan", "input": plan });
    let (status, answer) = asked(deployed, &request("POST", path, stage, &body)).await;
    assert_eq!(status, 202, "{answer}");
    answer["runId"].as_str().unwrap().to_owned()
}

/// The same id, with what stands in it spelled otherwise.
fn percent_encoded(run: &str) -> String {
    let first = run.as_bytes()[0];
    format!("%{first:02X}{}", run[1..].replace('-', "%2D"))
}

#[tokio::test]
async fn e13_a_stage_in_front_once_twice_or_not_at_all_is_one_route() {
    let deployed = deploy(BASE).await;
    for stage in ["$default", "prod"] {
        for before in ["", "/prod", "/prod/prod"] {
            let run = start(&deployed, &format!("{before}/api/v1/runs"), stage).await;
            for id in [run.clone(), percent_encoded(&run)] {
                let path = format!("{before}/api/v1/runs/{id}");
                let (status, shown) = asked(&deployed, &request("GET", &path, stage, &Value::Null)).await;
                assert_eq!((status, &shown["runId"]), (200, &json!(run)), "{path} {stage}");
            }
        }
    }
    let (status, _) = asked(
        &deployed,
        &request("GET", "/production/api/v1/runs", "$default", &Value::Null),
    )
    .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn e13_without_a_base_path_there_is_one_route_too() {
    let deployed = deploy("").await;
    let run = start(&deployed, "/api/v1/runs", "$default").await;
    for id in [run.clone(), percent_encoded(&run)] {
        let path = format!("/api/v1/runs/{id}");
        let (status, shown) = asked(&deployed, &request("GET", &path, "$default", &Value::Null)).await;
        assert_eq!((status, &shown["runId"]), (200, &json!(run)), "{path}");
    }
    // A stage that the event names is a gateway's; anything else in front is no path of ours.
    for (before, stage, expected) in [
        ("", "prod", 200),
        ("/prod", "prod", 200),
        ("/prod/prod", "prod", 200),
        ("/prod", "$default", 404),
        ("/other", "prod", 404),
    ] {
        let path = format!("{before}/api/v1/runs/{run}");
        let (status, _) = asked(&deployed, &request("GET", &path, stage, &Value::Null)).await;
        assert_eq!(status, expected, "{path} {stage}");
    }
}

#[tokio::test]
async fn e13_a_token_opens_whatever_the_stage() {
    let deployed = deploy(BASE).await;
    for stage in ["$default", "prod"] {
        for before in ["", "/prod", "/prod/prod"] {
            deployed.lambda.lose(1);
            let run = start(&deployed, "/api/v1/runs", "$default").await;
            let sent = deployed.lambda.events().pop().expect("a dispatch").payload;
            let mut event: Value = serde_json::from_slice(&sent).unwrap();
            assert_eq!(event["rawPath"], format!("{BASE}/_process-run"));
            event["rawPath"] = format!("{before}/_process-run").into();
            event["requestContext"]["stage"] = stage.into();
            let answer = deployed.background.invoke(event.to_string().into()).await.unwrap();
            let said = answer.json().await;
            assert_eq!(
                (&said["claimed"], &said["runId"]),
                (&json!(true), &json!(run)),
                "{before} {stage}: {said}"
            );
        }
    }
    // And as the functions send it themselves.
    let run = start(&deployed, "/prod/api/v1/runs", "prod").await;
    let path = format!("/api/v1/runs/{run}/events?wait=20s");
    wait_until("the run ends", PATIENCE, async || {
        let (_, read) = deployed.get(&path).await;
        let log = read["events"].as_array().expect("events");
        kinds(log).last() == Some(&"run.completed")
    })
    .await;
}
