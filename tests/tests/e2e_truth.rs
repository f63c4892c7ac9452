//! The ending is what the log says, whatever the agent would like.

use std::time::Duration;

use outlast_tests::counting::CountingServer;
use outlast_tests::dev::Dev;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

fn get(url: &str, n: usize) -> Value {
    json!({ "key": format!("k{n}"), "tool": "http_request", "input": { "method": "GET", "url": format!("{url}/{n}") } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_404_in_a_thousand_is_999_of_1000_and_the_key() {
    let server = CountingServer::start(&["417"]).await;
    let dev = Dev::start(&[]).await;
    let steps: Vec<_> = (0..1000).map(|n| get(&server.url, n)).collect();
    let run = dev.start_plan(&json!({ "steps": steps, "concurrency": 8 })).await;
    let shown = dev.ended(&run, LIMIT).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("incomplete"), &json!("steps_failed"))
    );
    assert_eq!(
        shown["progress"],
        json!({ "planned": 1000, "committed": 999, "failed": 1, "unknown": 0 })
    );
    assert_eq!(shown["outcome"]["remainder"], json!(["k417"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_gone_before_the_verification_is_named() {
    // The last step overwrites an earlier one's record, as another writer would: what the first wrote isn't there.
    let dev = Dev::start(&["--table", "things:id"]).await;
    let put = |key: &str, id: &str, value: u64| json!({ "key": key, "tool": "put_record", "input": { "table": "things", "key": { "id": id }, "record": { "v": value } } });
    let steps = json!([put("first", "1", 1), put("second", "2", 2), put("third", "1", 3)]);
    let run = dev.start_plan(&json!({ "steps": steps })).await;
    let shown = dev.ended(&run, LIMIT).await;
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("incomplete"), &json!("not_verified"))
    );
    assert_eq!(shown["outcome"]["remainder"], json!(["first"]));
    assert_eq!(shown["outcome"]["verification"]["checked"], 3);
    assert_eq!(shown["progress"]["committed"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_kills_its_process_every_time_ends_the_run_at_the_crash_limit() {
    let mut dev = Dev::start_program("dev-with-abort", &[], &[]).await;
    let steps = json!([
        { "key": "fine", "tool": "sleep", "input": { "ms": 1 } },
        { "key": "deadly", "tool": "abort", "input": {} },
        { "key": "never", "tool": "sleep", "input": { "ms": 1 } },
    ]);
    let run = dev.start_plan(&json!({ "steps": steps })).await;
    let mut deaths = 0;
    for _ in 0..3 {
        wait_until("the step has killed its process", LIMIT, async || dev.has_died()).await;
        deaths += 1;
        dev.restart().await;
    }
    let shown = dev.ended(&run, LIMIT).await;
    assert_eq!(deaths, 3);
    assert_eq!(
        (&shown["status"], &shown["outcome"]["reason"]),
        (&json!("failed"), &json!("crash_limit"))
    );
    assert_eq!(shown["progress"]["committed"], 1);
    assert_eq!(shown["progress"]["planned"], 3);
    assert_eq!(shown["outcome"]["remainder"], json!(["deadly", "never"]));
    assert_eq!(shown["crashes"], 3);
}
