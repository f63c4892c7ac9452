use axum::extract::Extension;
use axum::routing::post;
use lambda_http::http::StatusCode;
use lambda_http::lambda_runtime::Config;
use lambda_http::request::LambdaRequest;
use lambda_http::{RequestExt as _, Service as _};
use serde_json::{Value, json};

use super::*;
use crate::internal_event::internal_event;

/// What the router is told of an invocation with this event.
async fn told(event: Value, deadline: u64) -> Invocation {
    let event: LambdaRequest = serde_json::from_value(event).expect("an HTTP event");
    let mut context = Context::default();
    context.deadline = deadline;
    context.env_config = Arc::new(Config::default());
    let request = Request::from(event).with_lambda_context(context);

    let (tell, told) = std::sync::mpsc::channel();
    let routes = axum::Router::new().route(
        "/{*path}",
        post(async move |Extension(invocation): Extension<Invocation>| {
            let _ = tell.send(invocation);
        }),
    );
    let mut handler = ServiceBuilder::new()
        .map_request(|request| mark(request, &OwnName::default()))
        .service(routes);
    let Ok(response) = handler.call(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    told.try_recv().expect("the route was called")
}

#[tokio::test]
async fn our_own_event_is_internal_and_has_its_deadline() {
    let told = told(internal_event("/_sweep", None, ""), 1_780_000_000_123).await;
    assert!(told.internal);
    assert_eq!(told.deadline, Some(Timestamp::from_millis(1_780_000_000_123)));
}

#[tokio::test]
async fn a_caller_of_the_url_cannot_become_internal() {
    let mut event = internal_event("/_sweep", Some(("x-forwarded-host", INTERNAL_DOMAIN)), "");
    event["requestContext"]["domainName"] = json!("abc.lambda-url.eu-west-1.on.aws");
    event["headers"]["host"] = json!(INTERNAL_DOMAIN);
    event["rawQueryString"] = json!("domainName=outlast.internal");
    assert!(!told(event, 0).await.internal);
}

#[tokio::test]
async fn a_deadline_is_handed_on_however_strange() {
    for (given, deadline) in [(0, 0), (600_000, 600_000), (u64::MAX, i64::MAX)] {
        let told = told(internal_event("/_sweep", None, ""), given).await;
        assert_eq!(told.deadline, Some(Timestamp::from_millis(deadline)));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_tells_the_client_nothing_of_why() {
    let frames = [
        Ok("data: 1\n\n"),
        Err(std::io::Error::other("table secrets is on fire")),
    ];
    let broken = Response::new(Body::from_stream(futures::stream::iter(frames)));
    let mut body = hide_errors(broken).into_body();
    let first = body.frame().await.expect("a frame").expect("data");
    assert_eq!(first.into_data().expect("data"), "data: 1\n\n");
    let error = body.frame().await.expect("an end").expect_err("a broken one");
    assert_eq!(error.to_string(), "the answer broke off");
}

#[test]
fn a_function_is_told_by_its_name_however_it_is_named() {
    for named in [
        "foreground",
        "foreground:live",
        "123456789012:function:foreground",
        "arn:aws:lambda:eu-west-1:123456789012:function:foreground",
        "arn:aws:lambda:eu-west-1:123456789012:function:foreground:live",
    ] {
        assert_eq!(function_of(named), "foreground", "{named}");
    }
    assert_eq!(function_of("foreground-2:live"), "foreground-2");
}
