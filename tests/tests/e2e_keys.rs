//! The real functions, asking for keys that the real command line made in their table.

use std::process::Output;
use std::time::Duration;

use clap::CommandFactory as _;
use outlast_cli::args::Cli;
use outlast_core::env_vars as vars;
use outlast_tests::dev::program;
use outlast_tests::lambda::deployment::{Deployment, Options, Work};
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const RUNS: &str = "/api/v1/runs";

fn plan() -> Value {
    json!({ "steps": [{ "key": "a", "tool": "sleep", "input": { "ms": 10 } }] })
}

async fn deployed(work: Work) -> Deployment {
    Deployment::start(Options {
        work,
        variables: vec![
            (vars::IDENTITY.name, "api_key".into()),
            // Whatever is logged, no secret is.
            (vars::LOG.name, "trace".into()),
        ],
        ..Options::default()
    })
    .await
}

/// The command line, with the credentials and the endpoint of the deployment's table.
async fn outlast(deployed: &Deployment, key: Option<&str>, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(program("outlast"));
    command
        .args(args)
        .args(["--url", &deployed.url])
        .env("AWS_ENDPOINT_URL_DYNAMODB", deployed.database.endpoint())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .envs(key.map(|key| (key_variable(), key)))
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    output.expect("in time").expect("it starts")
}

/// The variable from which the command line takes its key.
fn key_variable() -> String {
    let cli = Cli::command();
    let key = cli.get_arguments().find(|argument| argument.get_id() == "key");
    let variable = key.and_then(|key| key.get_env()).and_then(|name| name.to_str());
    variable.expect("a variable").to_owned()
}

/// What it says when it goes well.
async fn said(deployed: &Deployment, args: &[&str]) -> String {
    let output = outlast(deployed, None, args).await;
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{args:?}: {out}{err}");
    out
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

async fn add(deployed: &Deployment, args: &[&str]) -> String {
    let printed = said(deployed, &[&["keys", "add"], args].concat()).await;
    let key = printed.trim_end().to_owned();
    assert!(
        key.starts_with("ol_") && !key.contains(char::is_whitespace),
        "the key alone"
    );
    key
}

/// A request with a key: the status and the JSON of its answer.
async fn asked(deployed: &Deployment, key: Option<&str>, path: &str, body: Option<&Value>) -> (u16, Value) {
    let url = format!("{}{path}", deployed.url);
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client.post(url).json(body),
        None => client.get(url),
    };
    let request = key.iter().fold(request, |request, key| request.bearer_auth(key));
    let response = request.send().await.expect("an answer");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_key_of_the_command_line_starts_a_run_a_reader_can_not_and_a_removed_one_is_out() {
    let deployed = deployed(Work::Background).await;
    assert!(said(&deployed, &["keys", "ls"]).await.contains("no keys"));
    let start = json!({ "agent": "plan", "input": plan() });
    let (status, refused) = asked(&deployed, None, RUNS, Some(&start)).await;
    assert_eq!((status, &refused["code"]), (401, &json!("unauthorized")));

    let writer = add(&deployed, &["--owner", "imports", "--label", "the nightly job"]).await;
    let reader = add(
        &deployed,
        &["--owner", "imports", "--scopes", "read", "--expires-in", "90d"],
    )
    .await;
    let stranger = add(&deployed, &["--owner", "others", "--scopes", "admin"]).await;
    let (status, refused) = asked(&deployed, Some(&reader), RUNS, Some(&start)).await;
    assert_eq!(
        (status, &refused["code"], &refused["scope"]),
        (403, &json!("forbidden"), &json!("run"))
    );
    let (status, started) = asked(&deployed, Some(&writer), RUNS, Some(&start)).await;
    assert_eq!(status, 202, "{started}");
    let run = format!("{RUNS}/{}", started["runId"].as_str().expect("an id"));

    // Its owner's keys see it, whichever of them started it; another owner's don't.
    wait_until("the run has completed in the background", PATIENCE, async || {
        asked(&deployed, Some(&reader), &run, None).await.1["status"] == "completed"
    })
    .await;
    for path in [run.clone(), format!("{run}/events")] {
        let (status, answer) = asked(&deployed, Some(&stranger), &path, None).await;
        assert_eq!((status, &answer["code"]), (404, &json!("run_not_found")), "{path}");
    }
    let listed = asked(&deployed, Some(&stranger), RUNS, None).await.1;
    assert_eq!(listed["runs"], json!([]));

    // As a browser reads it.
    let (status, token) = asked(&deployed, Some(&reader), &format!("{run}/read-token"), Some(&json!({}))).await;
    assert_eq!(status, 201, "{token}");
    let events = token["events"].as_str().expect("a path");
    let (status, read) = asked(&deployed, None, events, None).await;
    assert_eq!((status, &read["ended"]), (200, &json!(true)));

    let keys = said(&deployed, &["keys", "ls"]).await;
    for part in [
        &writer[..11],
        &reader[..11],
        &stranger[..11],
        "imports",
        "others",
        "the nightly job",
        "never",
    ] {
        assert!(keys.contains(part), "{part}: {keys}");
    }
    said(&deployed, &["keys", "rm", &writer[..11]]).await;
    assert_eq!(asked(&deployed, Some(&writer), &run, None).await.0, 401);
    assert_eq!(
        asked(&deployed, Some(&reader), &run, None).await.0,
        200,
        "the others stay"
    );
    wait_until("it is off the list", PATIENCE, async || {
        !said(&deployed, &["keys", "ls"]).await.contains(&writer[..11])
    })
    .await;

    let logged = [deployed.foreground.lines(), deployed.background.lines()]
        .concat()
        .join("\n");
    assert!(logged.contains("\"level\":\"TRACE\""), "it logs all there is");
    for secret in [&writer, &reader, &stranger, token["token"].as_str().expect("a token")] {
        assert!(!keys.contains(secret) && !logged.contains(secret), "{logged}");
    }
}

#[tokio::test]
async fn the_command_line_brings_its_key_and_says_what_to_do_without() {
    let deployed = deployed(Work::Inline).await;
    let key = add(&deployed, &["--owner", "imports"]).await;
    let reader = add(&deployed, &["--owner", "imports", "--scopes", "read"]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.json");
    std::fs::write(&file, plan().to_string()).expect("a plan");
    let file = file.to_str().expect("UTF-8");

    let check = async |key: Option<&str>, args: &[&str], code: i32, told: &str| {
        let output = outlast(&deployed, key, args).await;
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
        assert!(err.contains(told), "{args:?}: {err}");
        assert!(key.is_none_or(|key| !format!("{out}{err}").contains(key)), "{out}{err}");
        out
    };
    check(None, &["run", file], 6, "Set OUTLAST_KEY").await;
    check(Some(&reader), &["run", file], 6, "`run`").await;
    check(Some(&key[..50]), &["run", file], 2, "Nothing was sent").await;
    // An inline run: the key goes with each of its requests.
    let out = check(Some(&key), &["run", file], 0, "").await;
    assert!(out.contains("1 of 1"), "{out}");
    assert!(check(Some(&reader), &["ls"], 0, "").await.contains("completed"));
    check(None, &["ls"], 6, "outlast keys add").await;
    said(&deployed, &["keys", "rm", &reader[..11]]).await;
    check(Some(&reader), &["ls"], 6, "not good there").await;

    // Nothing is dispatched, and no secret is set.
    let run = asked(&deployed, Some(&key), RUNS, None).await.1["runs"][0]["runId"].clone();
    let path = format!("{RUNS}/{}/read-token", run.as_str().expect("an id"));
    let (status, refused) = asked(&deployed, Some(&key), &path, Some(&json!({}))).await;
    assert_eq!(
        (status, &refused["variable"]),
        (501, &json!(vars::DISPATCH_SECRET.name))
    );

    let elsewhere = check(None, &["keys", "ls", "--table", "no-such-table"], 6, "--table").await;
    assert!(elsewhere.is_empty(), "{elsewhere}");
}
