//! The internal routes over plain HTTP: open to whoever brings a token that is good for just that.

use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt as _;
use outlast_core::dispatch_token::Purpose;
use outlast_engine::dispatch::{SignedDispatch, TOKEN_HEADER};
use outlast_http::InternalAccess;
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::agents::{notes, slow};
use crate::support::answer::Answer;
use crate::support::{Deliver, Rig, keys, request};

fn rig() -> Rig {
    let rig = Rig::with(crate::support::agents::all(), |api| {
        api.internal = InternalAccess::Signed
    });
    rig.deliver(Deliver::Hold);
    rig
}

async fn posted(rig: &Rig, path: &str, body: &str, token: Option<&str>) -> axum::response::Response {
    let headers: Vec<_> = token.map(|token| (TOKEN_HEADER, token)).into_iter().collect();
    let request = request(Method::POST, path, &headers, Body::from(body.to_owned()));
    rig.background.clone().oneshot(request).await.unwrap()
}

async fn delivered(rig: &Rig, dispatch: &SignedDispatch) -> axum::response::Response {
    posted(rig, "/_process-run", &dispatch.body, Some(&dispatch.token)).await
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_is_accepted_at_once_and_says_at_its_end_what_it_came_to() {
    let rig = rig();
    let run = rig.start(slow(5_000)).await;
    let begun = tokio::time::Instant::now();
    let accepted = delivered(&rig, &rig.sent()[0]).await;
    assert_eq!((accepted.status().as_u16(), begun.elapsed()), (202, Duration::ZERO));
    let answer = Answer::of(accepted).await;
    assert_eq!(
        answer.json(),
        json!({"claimed": true, "runId": run, "status": "completed"})
    );
    assert!(begun.elapsed() >= Duration::from_secs(5));

    let again = Answer::of(delivered(&rig, &rig.sent()[0]).await).await;
    assert_eq!(
        (again.status.as_u16(), again.json()),
        (202, json!({"claimed": false, "why": "ended"}))
    );
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_goes_away_stops_nothing() {
    let rig = rig();
    let run = rig.start(slow(5_000)).await;
    let mut accepted = delivered(&rig, &rig.sent()[0]).await;
    tokio::select! {
        biased;
        _ = accepted.body_mut().frame() => panic!("it can't be over"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    drop(accepted);
    let ended = rig.ended(&run).await;
    assert_eq!((&ended["status"], &ended["crashes"]), (&json!("completed"), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn r40_without_a_good_token_there_is_nothing_here() {
    let rig = rig();
    let run = rig.start(notes(1)).await;
    let sent = rig.sent().remove(0);
    let now = rig.engine.seams().now();
    let for_a_sweep = keys().sign(Purpose::Sweep, sent.body.as_bytes(), now);
    let early = keys().sign(Purpose::Dispatch, b"", now);
    let missing = rig.get("/nowhere").await;
    let good = sent.token.as_str();
    let longer = format!("{} ", sent.body);
    for (path, body, token) in [
        ("/_process-run", sent.body.as_str(), None),
        ("/_process-run", &sent.body, Some("")),
        ("/_process-run", &sent.body, Some("x")),
        ("/_process-run", &sent.body, Some(&*for_a_sweep)),
        ("/_process-run", &longer, Some(good)),
        ("/_process-run", "", Some(&*early)),
        ("/_sweep", "", None),
        ("/_sweep", "", Some("x")),
        ("/_sweep", "", Some(&*early)),
        ("/_sweep", &sent.body, Some(good)),
        ("/_sweep", "{}", Some(&*for_a_sweep)),
        ("/_other", "", Some(good)),
    ] {
        let answer = Answer::of(posted(&rig, path, body, token).await).await;
        assert_eq!(answer.problem(404), "route_not_found", "{path} {token:?}");
        assert_eq!((&answer.text, &answer.headers), (&missing.text, &missing.headers));
    }
    for method in [Method::GET, Method::PUT, Method::OPTIONS] {
        let with_token = request(method, "/_process-run", &[(TOKEN_HEADER, good)], Body::empty());
        let answer = Answer::of(rig.background.clone().oneshot(with_token).await.unwrap()).await;
        assert_eq!(answer.problem(404), "route_not_found");
    }
    // Neither its size nor its end says that somebody reads it.
    let large = "x".repeat(5 * 1024 * 1024 + 1);
    for path in ["/_process-run", "/_sweep"] {
        let answer = Answer::of(posted(&rig, path, &large, Some("x")).await).await;
        assert_eq!(answer.problem(404), "route_not_found", "{path}");
        let cut = futures::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
        let cut = request(Method::POST, path, &[(TOKEN_HEADER, "x")], Body::from_stream(cut));
        let answer = Answer::of(rig.background.clone().oneshot(cut).await.unwrap()).await;
        assert_eq!(answer.problem(404), "route_not_found", "{path}");
    }
    // Good, and for the other kind of host.
    let foreground = request(
        Method::POST,
        "/_process-run",
        &[(TOKEN_HEADER, good)],
        Body::from(sent.body.clone()),
    );
    assert_eq!(rig.call(foreground).await.problem(404), "route_not_found");
    let shown = rig.show(&run).await;
    assert_eq!(shown["status"], "queued");
    // Whoever looks at the run learns where its dispatch died.
    assert_eq!(shown["dispatch"]["stage"], "set_up");
    let error = shown["dispatch"]["error"].as_str().unwrap();
    assert!(error.contains("background") && error.contains("foreground"), "{error}");

    tokio::time::sleep(Duration::from_secs(5 * 60 + 1)).await;
    let expired = Answer::of(delivered(&rig, &sent).await).await;
    assert_eq!(expired.problem(404), "route_not_found");
    assert_eq!(
        rig.show(&run).await["dispatch"]["stage"],
        "sent",
        "shown anew: the look sent another"
    );
}

#[tokio::test(start_paused = true)]
async fn the_schedule_brings_a_token_of_its_own() {
    let rig = rig();
    let run = rig.start(notes(1)).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let token = keys().sign(Purpose::Sweep, b"", rig.engine.seams().now());
    let swept = Answer::of(posted(&rig, "/_sweep", "", Some(&token)).await).await;
    assert_eq!((swept.status.as_u16(), &swept.json()["dispatched"]), (200, &json!(1)));
    assert_eq!(rig.show(&run).await["dispatch"]["attempts"], 2);
}
