//! Against a router that answers as a function does.

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;

use super::*;
use crate::exit::exit_of;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn schedule(url: &str, secret: &str) -> anyhow::Result<Schedule> {
    Schedule::new(url, Some(secret.into()))
}

/// Its URL, behind a path as that of `cargo lambda watch`.
async fn function(answer: &'static str) -> String {
    let door = move |headers: HeaderMap, body: String| async move {
        let keys = DispatchKeys::new(SECRET.to_owned().into(), None).unwrap();
        let token = headers[TOKEN_HEADER].to_str().unwrap();
        let now = seams::machine().now();
        match keys.verify(Purpose::Sweep, token, body.as_bytes(), now) {
            Ok(()) => (StatusCode::OK, answer),
            Err(_) => (StatusCode::NOT_FOUND, ""),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/lambda-url/background", listener.local_addr().unwrap());
    let routes = Router::new().route("/lambda-url/background/_sweep", post(door));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

#[tokio::test]
async fn a_pass_is_signed_and_told_in_one_line() {
    let swept = r#"{"lookedAt":3,"lost":1,"dispatched":2,"ended":0,"carried":0,"failed":0}"#;
    let url = function(swept).await;
    let schedule = schedule(&format!("{url}/"), SECRET).unwrap();
    let line = schedule.pass().await.unwrap().line();
    assert_eq!(
        line,
        "sweep: 3 looked at, 1 lost, 2 dispatched, 0 ended, 0 carried, 0 failed"
    );
}

#[tokio::test]
async fn who_has_another_secret_is_told_what_to_look_at() {
    let url = function("").await;
    let error = schedule(&url, &"x".repeat(32)).unwrap().pass().await.unwrap_err();
    assert_eq!(error.exit, Exit::Refused);
    assert!(error.to_string().contains("SECRET"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_not() {
    for (url, secret) in [
        ("http://127.0.0.1:1", "short"),
        ("http://127.0.0.1:1", ""),
        ("x", SECRET),
    ] {
        let error = schedule(url, secret).err().unwrap();
        assert_eq!(exit_of(&error), Exit::Usage, "{url} {secret}: {error}");
    }
    let away = schedule("http://127.0.0.1:1", SECRET)
        .unwrap()
        .pass()
        .await
        .unwrap_err();
    assert_eq!(away.exit, Exit::ServerAway, "{away}");
}

#[test]
fn a_time_has_a_unit() {
    for (text, seconds) in [("10", 10), ("10s", 10), ("1m", 60)] {
        assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for wrong in ["", "s", "0s", "-1", "1h", "1.5s"] {
        assert!(time(wrong).is_err(), "{wrong}");
    }
}
