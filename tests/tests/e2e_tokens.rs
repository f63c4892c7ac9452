//! Deliveries as Lambda may hand them to the real function, and as somebody may forge them: what opens and what doesn't.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outlast_core::Timestamp;
use outlast_core::dispatch_token::{DispatchKeys, Purpose};
use outlast_core::env_vars as vars;
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_tests::lambda::Failure;
use outlast_tests::lambda::deployment::{Deployment, Options, SECRET, kinds};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

fn plan() -> Value {
    json!({ "steps": [{ "key": "a", "tool": "sleep", "input": { "ms": 10 } }] })
}

/// A run whose dispatch is held back, and that dispatch.
async fn held_back(deployed: &Deployment) -> (String, Value) {
    deployed.lambda.lose(usize::MAX);
    let run = deployed.start_run(&plan()).await;
    let event = deployed.lambda.events().pop().expect("a dispatch");
    (run, serde_json::from_slice(&event.payload).expect("JSON"))
}

/// What the background says to an event: its status and its JSON.
async fn invoked(deployed: &Deployment, event: &Value) -> (u16, Value) {
    let answer = deployed.background.invoke(event.to_string().into()).await.unwrap();
    (answer.status.as_u16(), answer.json().await)
}

fn with_token(event: &Value, token: &str) -> Value {
    let mut event = event.clone();
    event["headers"][TOKEN_HEADER] = token.into();
    event
}

/// The same body in Base64, as AWS may hand on any body.
fn in_base64(event: &Value, flagged: bool) -> Value {
    let mut event = event.clone();
    event["body"] = STANDARD.encode(event["body"].as_str().unwrap()).into();
    event["isBase64Encoded"] = flagged.into();
    event
}

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(since_1970.as_millis().try_into().unwrap())
}

#[tokio::test]
async fn r40_a_forged_delivery_is_refused_and_leaves_no_trace() {
    let deployed = Deployment::start(Options::default()).await;
    let (run, own) = held_back(&deployed).await;
    let (_, other) = held_back(&deployed).await;
    let before = deployed.log(&run).await;

    let token = own["headers"][TOKEN_HEADER].as_str().unwrap().to_owned();
    let (expiry, signature) = token.split_once('.').unwrap();
    let in_an_hour = expiry.parse::<i64>().unwrap() + 3_600_000;
    let mut missing = own.clone();
    missing["headers"].as_object_mut().unwrap().remove(TOKEN_HEADER);
    let mut another_body = own.clone();
    another_body["body"] = other["body"].clone();
    let forged = [
        missing,
        with_token(&own, ""),
        with_token(&own, &format!("{in_an_hour}.{signature}")),
        with_token(&own, signature),
        with_token(&own, &format!("{token}=")),
        with_token(&own, other["headers"][TOKEN_HEADER].as_str().unwrap()),
        another_body,
        // Its body is the Base64, and not what was signed.
        in_base64(&own, false),
    ];
    for event in forged {
        let (status, problem) = invoked(&deployed, &event).await;
        assert_eq!(
            (status, &problem["code"]),
            (401, &json!("bad_dispatch_token")),
            "{event}"
        );
    }
    // From the public door there is no such route, whatever one brings.
    let mut public = own.clone();
    public["requestContext"]["domainName"] = "abcdefgh.lambda-url.us-east-1.on.aws".into();
    assert_eq!(invoked(&deployed, &public).await.0, 404);
    assert_eq!(deployed.log(&run).await, before);
    assert_eq!(kinds(&before), ["run.accepted"]);

    let (status, said) = invoked(&deployed, &own).await;
    assert_eq!((status, &said["claimed"]), (200, &json!(true)), "{said}");
}

#[tokio::test]
async fn r40_a_body_that_comes_in_base64_is_verified_as_it_was_signed() {
    let deployed = Deployment::start(Options::default()).await;
    let (run, event) = held_back(&deployed).await;
    let (status, said) = invoked(&deployed, &in_base64(&event, true)).await;
    assert_eq!(
        (status, &said["claimed"], &said["runId"]),
        (200, &json!(true), &json!(run)),
        "{said}"
    );
}

#[tokio::test]
async fn r40_a_token_of_a_clock_that_is_two_seconds_ahead_is_taken() {
    let deployed = Deployment::start(Options::default()).await;
    let (_, event) = held_back(&deployed).await;
    let keys = DispatchKeys::new(SECRET.to_owned().into(), None).unwrap();
    let body = event["body"].as_str().unwrap().as_bytes();
    let token = keys.sign(Purpose::Dispatch, body, now() + Duration::from_secs(2));
    let (status, said) = invoked(&deployed, &with_token(&event, &token)).await;
    assert_eq!((status, &said["claimed"]), (200, &json!(true)), "{said}");
}

/// The foreground still signs with the old secret.
async fn rotating(background: Vec<(&'static str, String)>) -> Deployment {
    Deployment::start(Options {
        background_variables: background,
        ..Options::default()
    })
    .await
}

#[tokio::test]
async fn r40_while_secrets_rotate_the_old_one_still_opens_and_without_it_the_schedule_goes_on() {
    let new = (vars::DISPATCH_SECRET.name, OTHER_SECRET.to_owned());
    let old = (vars::DISPATCH_SECRET_PREVIOUS.name, SECRET.to_owned());
    let is_completed = |log: &[Value]| kinds(log).last() == Some(&"run.completed");

    let deployed = rotating(vec![new.clone(), old]).await;
    let run = deployed.start_run(&plan()).await;
    deployed.logged(&run, "the run ends", is_completed).await;
    assert_eq!(deployed.lambda.events().len(), 1);

    // Rotated carelessly: the foreground's dispatches are refused. The schedule's own, signed by the background, are not.
    let deployed = rotating(vec![new]).await;
    let run = deployed.start_run(&plan()).await;
    wait_until("it is refused", PATIENCE, async || {
        !deployed.lambda.events()[0].outcomes.is_empty()
    })
    .await;
    let refused = deployed.lambda.events()[0].outcomes[0].clone();
    assert!(
        matches!(&refused, Err(Failure::Error(said)) if said.contains("bad_dispatch_token")),
        "{refused:?}"
    );
    deployed.logged_with_sweeps(&run, "the run ends", is_completed).await;
    assert_eq!(deployed.show(&run).await["chunk"], 1);
}

#[tokio::test]
async fn r40_a_function_whose_secret_is_too_short_does_not_start_and_does_not_show_it() {
    for short in [&SECRET[..31], ""] {
        let deployed = Deployment::start(Options {
            variables: vec![(vars::DISPATCH_SECRET.name, short.to_owned())],
            ..Options::default()
        })
        .await;
        assert_eq!(deployed.get("/api/v1/runs").await.0, 502);
        let named = |line: &String| line.contains(vars::DISPATCH_SECRET.name);
        wait_until("the reason is written", PATIENCE, async || {
            deployed.foreground.lines().iter().any(named)
        })
        .await;
        let lines = deployed.foreground.lines().join("\n");
        assert!(short.is_empty() || !lines.contains(short), "{lines}");
    }
}
