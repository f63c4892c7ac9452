use aws_sdk_lambda::config::{BehaviorVersion, Config, Credentials, Region};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

/// A request to the Lambda API.
struct Seen {
    path: String,
    headers: HeaderMap,
    payload: Value,
}

/// A Lambda API that answers everything with `status`, and a dispatcher to it.
async fn api(status: u16, target: Target) -> (LambdaDispatcher, mpsc::UnboundedReceiver<Seen>) {
    let (see, seen) = mpsc::unbounded_channel();
    let answer =
        async move |State(see): State<mpsc::UnboundedSender<Seen>>, uri: Uri, headers: HeaderMap, body: String| {
            let payload = serde_json::from_str(&body).expect("JSON");
            let path = uri.path().to_owned();
            let _ = see.send(Seen { path, headers, payload });
            StatusCode::from_u16(status).expect("a status")
        };
    let router = Router::new().route("/{*path}", post(answer)).with_state(see);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::for_tests())
        .endpoint_url(endpoint);
    let client = Client::from_conf(config.build());
    (LambdaDispatcher::new(&client, target, "/base"), seen)
}

fn named() -> Target {
    Target::Named("background:live".into())
}

fn dispatch() -> SignedDispatch {
    SignedDispatch {
        body: r#"{"runId":"0190","expectedEpoch":0,"host":"background"}"#.into(),
        token: "1780000000000.sig".into(),
    }
}

#[tokio::test]
async fn an_event_is_sent_as_a_url_would_shape_it() {
    let (dispatcher, mut seen) = api(202, named()).await;
    dispatcher.send(&dispatch()).await.unwrap();
    let seen = seen.recv().await.expect("a request");
    assert_eq!(seen.path, "/2015-03-31/functions/background%3Alive/invocations");
    assert_eq!(seen.headers["x-amz-invocation-type"], "Event");
    let event = seen.payload;
    assert_eq!(event["rawPath"], "/base/_process-run");
    assert_eq!(event["requestContext"]["http"]["method"], "POST");
    assert_eq!(event["requestContext"]["domainName"], "outlast.internal");
    assert_eq!(event["headers"][TOKEN_HEADER], "1780000000000.sig");
    assert_eq!(event["isBase64Encoded"], false);
    assert_eq!(event["body"], dispatch().body);
}

#[tokio::test]
async fn anything_but_202_is_no_dispatch() {
    for status in [200, 204, 403, 404] {
        let (dispatcher, _seen) = api(status, named()).await;
        let error = dispatcher.send(&dispatch()).await.unwrap_err();
        assert!(error.to_string().contains("background:live"), "{status}: {error}");
    }
}

#[tokio::test]
async fn e10_a_function_that_invokes_itself_keeps_its_alias() {
    let own = OwnName::default();
    let (dispatcher, mut seen) = api(202, Target::Itself(own.clone())).await;
    let error = dispatcher.send(&dispatch()).await.unwrap_err();
    assert!(error.to_string().contains("not invoked yet"), "{error}");
    for arn in [
        "arn:aws:lambda:eu-west-1:1:function:f",
        "arn:aws:lambda:eu-west-1:1:function:f:live",
    ] {
        own.set(arn);
        dispatcher.send(&dispatch()).await.unwrap();
        let path = seen.recv().await.expect("a request").path.replace("%3A", ":");
        assert_eq!(path, format!("/2015-03-31/functions/{arn}/invocations"));
    }
}
