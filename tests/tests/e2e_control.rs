//! Control from the terminal, with `outlast dev` as the server: pause, resume, stop by turn, remainder, retry.

use std::time::Duration;

use outlast_tests::dev::{Dev, program};
use outlast_tests::wait::wait_until;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

/// Its exit code, and what it said.
async fn outlast(dev: &Dev, args: &[&str]) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(program("outlast"));
    command.args(args).args(["--url", &dev.url()]).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.expect("in time").expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_and_resumed_across_the_death_of_its_server() {
    let mut dev = Dev::start(&[]).await;
    let steps: Vec<_> = (0..8)
        .map(|n| json!({"key": format!("s{n}"), "tool": "sleep", "input": {"ms": 300}}))
        .collect();
    let run = dev.start_plan(&json!({ "steps": steps })).await;
    wait_until("it works", LIMIT, async || {
        dev.show(&run).await["progress"]["committed"] == 1
    })
    .await;
    let (code, said) = outlast(&dev, &["pause", &run]).await;
    assert_eq!(code, Some(0), "{said}");
    wait_until("it is handed off", LIMIT, async || {
        dev.show(&run).await["status"] == "queued"
    })
    .await;
    dev.kill().await;
    dev.restart().await;
    let paused = dev.show(&run).await;
    assert_eq!(
        (&paused["status"], &paused["flags"]["paused"]),
        (&json!("queued"), &json!(true))
    );
    let (code, said) = outlast(&dev, &["resume", &run]).await;
    assert_eq!(code, Some(0), "{said}");
    let ended = dev.ended(&run, LIMIT).await;
    assert_eq!(
        (&ended["progress"]["committed"], &ended["crashes"]),
        (&json!(8), &json!(0))
    );
    let (code, said) = outlast(&dev, &["pause", &run]).await;
    assert_eq!(code, Some(6), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_remains_is_listed_and_retried() {
    let dev = Dev::start(&[]).await;
    let steps = json!([
        {"key": "fine", "tool": "sleep", "input": {"ms": 1}},
        {"key": "missing", "tool": "http_request", "input": {"method": "GET", "url": format!("{}/api/v1/nowhere", dev.url())}},
    ]);
    let run = dev.start_plan(&json!({ "steps": steps })).await;
    dev.ended(&run, LIMIT).await;
    let (code, said) = outlast(&dev, &["remainder", &run]).await;
    assert!(
        code == Some(0) && said.contains("missing") && said.contains("failed"),
        "{said}"
    );
    assert!(!said.contains("fine"), "{said}");
    let (code, said) = outlast(&dev, &["retry", &run]).await;
    assert!(code == Some(3) && said.contains("0 of 1"), "{code:?} {said}");
    let (code, said) = outlast(&dev, &["retry", &run, "--detach", "--idempotency-key", "k"]).await;
    assert_eq!(code, Some(0), "{said}");
    let again = outlast(&dev, &["retry", &run, "--detach", "--idempotency-key", "k"]).await;
    assert_eq!(again, (Some(0), said.clone()));
    assert_eq!(dev.show(said.trim()).await["retryOf"], run.as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_stopped_by_its_key_before_it_comes() {
    let dev = Dev::start(&[]).await;
    let (code, said) = outlast(&dev, &["stop", "--turn", "invoices"]).await;
    assert_eq!(code, Some(0), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.jsonl");
    std::fs::write(&plan, r#"{"key": "a", "tool": "sleep", "input": {"ms": 1}}"#).expect("a file");
    let plan = plan.to_str().expect("UTF-8");
    let (code, said) = outlast(&dev, &["run", plan, "--idempotency-key", "invoices"]).await;
    assert!(
        code == Some(5) && said.contains("cancelled: stopped"),
        "{code:?} {said}"
    );
}
