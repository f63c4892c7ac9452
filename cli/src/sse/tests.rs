//! The reader against a small server whose every answer is scripted.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::routing::{get, post};

use super::*;
use crate::exit::exit_of;

type Answer = (u16, String);

#[derive(Clone, Default)]
struct Script {
    /// What each connection gets, in turn.
    answers: Arc<Mutex<Vec<Answer>>>,
    /// The `Last-Event-ID` that each came with, with a `+` if it asked for a chunk.
    asked: Arc<Mutex<Vec<String>>>,
}

async fn answer(State(script): State<Script>, method: Method, headers: HeaderMap) -> Response<Body> {
    let asked = headers["last-event-id"].to_str().unwrap();
    let chunk = if method == Method::POST { "+" } else { "" };
    script.asked.lock().unwrap().push(format!("{asked}{chunk}"));
    let (status, body) = script.answers.lock().unwrap().remove(0);
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "text/event-stream")
        .body(Body::from(body))
        .unwrap()
}

async fn serve(answers: &[Answer]) -> (Client, Script) {
    let script = Script::default();
    *script.answers.lock().unwrap() = answers.to_vec();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/api/v1/runs/r1/events", get(answer))
        .route("/api/v1/runs/r1/continue", post(answer))
        .with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (Client::new(&url).unwrap(), script)
}

fn events(seqs: &[u64]) -> String {
    let entry = |seq: &u64| {
        let kind = if *seq == 5 { "run.completed" } else { "emit" };
        format!("id: {seq}\nevent: {kind}\ndata: {{\"seq\":{seq},\"type\":\"{kind}\"}}\n\n")
    };
    seqs.iter().map(entry).collect()
}

fn impatient() -> Patience {
    Patience {
        first: Duration::from_millis(1),
        most: Duration::from_millis(1),
        in_all: Duration::from_secs(20),
    }
}

/// All that is heard, as text.
async fn hear(client: Client, after: u64, patience: Patience) -> anyhow::Result<Vec<String>> {
    hear_by(Follow::new(client, "r1", after).patience(patience)).await
}

async fn hear_by(mut follow: Follow) -> anyhow::Result<Vec<String>> {
    let mut heard = Vec::new();
    while let Some(next) = follow.next().await? {
        heard.push(match next {
            Heard::Event(event) => event.seq.to_string(),
            Heard::Away(_) => "away".into(),
            Heard::Back => "back".into(),
        });
    }
    Ok(heard)
}

#[tokio::test]
async fn each_event_once_across_connections() {
    let (client, script) = serve(&[
        (200, events(&[1, 2])),
        (
            200,
            format!(": beat\n\n{}event: reconnect\ndata: {{}}\n\n", events(&[2, 3])),
        ),
        (503, "{\"detail\":\"starting\"}".into()),
        (503, String::new()),
        (200, events(&[4, 5, 6])),
    ])
    .await;
    let heard = hear(client, 0, impatient()).await.unwrap();
    assert_eq!(heard, ["1", "2", "3", "away", "back", "4", "5"]);
    assert_eq!(*script.asked.lock().unwrap(), ["0", "2", "3", "3", "3"]);
}

#[tokio::test]
async fn a_reader_of_a_finished_run_that_has_seen_all_is_done() {
    let (client, _) = serve(&[(204, String::new())]).await;
    assert!(hear(client, 5, impatient()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_gap_is_not_passed_over() {
    let (client, _) = serve(&[(200, events(&[1, 3]))]).await;
    let error = hear(client, 0, impatient()).await.unwrap_err();
    assert!(error.to_string().contains("event 3 follows event 1"), "{error}");
    assert_eq!(exit_of(&error), Exit::Error);
}

#[tokio::test]
async fn a_server_that_was_never_there_is_not_waited_for() {
    let nobody = Client::new("http://127.0.0.1:9").unwrap();
    let error = hear(nobody, 0, impatient()).await.unwrap_err();
    assert_eq!(exit_of(&error), Exit::ServerAway);
    let (client, _) = serve(&[(404, "{\"code\":\"run_not_found\",\"detail\":\"no such run\"}".into())]).await;
    let error = hear(client, 0, impatient()).await.unwrap_err();
    assert_eq!(exit_of(&error), Exit::Refused);
    assert!(error.to_string().contains("lists your runs"), "{error}");
}

#[tokio::test]
async fn patience_ends() {
    let failing = (500, "{\"detail\":\"broken\"}".into());
    let (client, _) = serve(&[(200, events(&[1])), failing.clone(), failing.clone(), failing]).await;
    let patience = Patience {
        in_all: Duration::ZERO,
        ..impatient()
    };
    let error = hear(client, 0, patience).await.unwrap_err();
    assert_eq!(exit_of(&error), Exit::ServerAway);
    assert!(error.to_string().contains("broken"), "{error}");
}

fn of_kind(seq: u64, kind: &str) -> String {
    format!("id: {seq}\nevent: {kind}\ndata: {{\"seq\":{seq},\"type\":\"{kind}\"}}\n\n")
}

const RECONNECT: &str = "event: reconnect\ndata: {}\n\n";

fn refused(code: &str) -> Answer {
    (409, format!("{{\"code\":\"{code}\",\"detail\":\"no\"}}"))
}

#[tokio::test]
async fn who_carries_a_run_asks_again_when_a_wait_may_be_over_or_a_holder_gone() {
    let parked = format!("{}event: reconnect\nretry: 1\ndata: {{}}\n\n", of_kind(2, "run.parked"));
    let (client, script) = serve(&[
        (200, events(&[1]) + &parked),
        refused("run_conflict"),
        // Its wait goes on; then it is over, and nobody else may come to carry it.
        (200, RECONNECT.into()),
        (200, events(&[3, 4, 5])),
    ])
    .await;
    let follow = Follow::new(client, "r1", 0).patience(impatient()).carrying();
    assert_eq!(hear_by(follow).await.unwrap(), ["1", "2", "3", "4", "5"]);
    assert_eq!(*script.asked.lock().unwrap(), ["0+", "2+", "2", "2+"]);
}

#[tokio::test]
async fn old_hand_offs_ask_for_no_chunk() {
    let log = |from: u64| -> String { (from..=4).map(|seq| of_kind(seq, "auto_continue")).collect() };
    let (client, script) = serve(&[
        // Somebody else carries it: its log tells of all chunks before.
        refused("run_conflict"),
        (200, log(1) + RECONNECT),
        (200, events(&[5])),
    ])
    .await;
    let follow = Follow::new(client, "r1", 0).patience(impatient()).carrying();
    assert_eq!(hear_by(follow).await.unwrap(), ["1", "2", "3", "4", "5"]);
    assert_eq!(*script.asked.lock().unwrap(), ["0+", "0", "4+"]);
}

#[tokio::test]
async fn a_hand_off_that_the_connection_breaks_behind_is_followed_by_the_next_chunk() {
    let (client, script) = serve(&[(200, of_kind(1, "auto_continue")), (200, events(&[2, 3, 4, 5]))]).await;
    let follow = Follow::new(client, "r1", 0).patience(impatient()).carrying();
    assert_eq!(hear_by(follow).await.unwrap(), ["1", "2", "3", "4", "5"]);
    assert_eq!(*script.asked.lock().unwrap(), ["0+", "1+"]);
}

#[tokio::test]
async fn a_server_that_is_too_busy_is_waited_for() {
    let (client, _) = serve(&[
        (200, events(&[1])),
        (429, "{\"message\":\"Rate exceeded\"}".into()),
        (200, events(&[2, 3, 4, 5])),
    ])
    .await;
    let heard = hear(client, 0, impatient()).await.unwrap();
    assert_eq!(heard, ["1", "away", "back", "2", "3", "4", "5"]);
}
