use axum::Router;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::*;

/// A function that answers with this status, says what it was sent, and ends its answer when it is told to.
struct Function {
    url: Uri,
    seen: mpsc::UnboundedReceiver<(HeaderMap, String)>,
    end: watch::Sender<bool>,
    ended: mpsc::UnboundedReceiver<()>,
}

async fn function(status: u16) -> Function {
    let (see, seen) = mpsc::unbounded_channel();
    let (tell_ended, ended) = mpsc::unbounded_channel();
    let (end, told) = watch::channel(false);
    let answer = async move |headers: HeaderMap, body: String| {
        let _ = see.send((headers, body));
        let chunk = futures::stream::once(async move {
            let mut told = told.clone();
            let _ = told.wait_for(|end| *end).await;
            let _ = tell_ended.send(());
            Ok::<_, std::io::Error>("{}")
        });
        let response = Response::builder().status(status).body(Body::from_stream(chunk));
        response.expect("a response")
    };
    let router = Router::new().route("/here/base/_process-run", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/here", listener.local_addr().expect("its address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Function {
        url: url.parse().expect("a URL"),
        seen,
        end,
        ended,
    }
}

fn dispatch() -> SignedDispatch {
    SignedDispatch {
        body: r#"{"runId":"0190","expectedEpoch":0,"host":"background"}"#.into(),
        token: "1780000000000.sig".into(),
    }
}

#[tokio::test]
async fn a_dispatch_is_accepted_long_before_its_chunk_ends_and_its_connection_is_kept() {
    let mut function = function(202).await;
    let dispatcher = HttpDispatcher::new(&function.url, "/base").unwrap();
    dispatcher.send(&dispatch()).await.unwrap();
    let (headers, body) = function.seen.recv().await.expect("a request");
    assert_eq!(
        (&headers[TOKEN_HEADER], body),
        (&"1780000000000.sig".parse().unwrap(), dispatch().body)
    );
    assert!(function.ended.try_recv().is_err());
    // Nobody has gone away: the chunk can end.
    function.end.send(true).expect("it is at work");
    function.ended.recv().await.expect("its end");
}

#[tokio::test]
async fn r20_anything_but_202_is_no_dispatch() {
    for status in [200, 404, 429, 500] {
        let function = function(status).await;
        let dispatcher = HttpDispatcher::new(&function.url, "/base").unwrap();
        let error = dispatcher.send(&dispatch()).await.unwrap_err().to_string();
        assert!(error.contains(&status.to_string()) && !error.contains("sig"), "{error}");
    }
    let nobody: Uri = "http://127.0.0.1:1".parse().unwrap();
    let dispatcher = HttpDispatcher::new(&nobody, "").unwrap();
    let error = dispatcher.send(&dispatch()).await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1/_process-run"), "{error}");
}

#[tokio::test]
async fn e07_a_function_too_busy_to_answer_has_it_all_the_same() {
    // Takes the connection and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url: Uri = format!("http://{}", listener.local_addr().expect("its address"))
        .parse()
        .unwrap();
    let dispatcher = HttpDispatcher::new(&url, "").unwrap();
    dispatcher.send(&dispatch()).await.unwrap();
    listener.accept().await.expect("its connection");
}

#[tokio::test]
async fn r40_a_redirect_takes_the_token_nowhere() {
    let mut elsewhere = function(202).await;
    let to = format!("{}/base/_process-run", elsewhere.url);
    let redirect = async move || {
        let response = Response::builder().status(307).header("location", to);
        response.body(Body::empty()).expect("a response")
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url: Uri = format!("http://{}", listener.local_addr().expect("its address"))
        .parse()
        .unwrap();
    let router = Router::new().route("/_process-run", post(redirect));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let dispatcher = HttpDispatcher::new(&url, "").unwrap();
    let error = dispatcher.send(&dispatch()).await.unwrap_err().to_string();
    assert!(error.contains("307"), "{error}");
    assert!(elsewhere.seen.try_recv().is_err(), "the token is for the one URL");
}
