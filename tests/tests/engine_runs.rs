//! Whole runs on the test double: what a run costs, what its log says, what a hand-off does.

use std::time::Duration;

use outlast_core::{EventBody, Reason, Status, StepKey};
use outlast_tests::rig::{Rig, RigOptions, quick_plan};
use outlast_tests::wait::wait_until;

#[tokio::test]
async fn a_chain_of_steps_costs_one_write_request_a_step() {
    let (options, table) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let run = rig.start(&quick_plan(200)).await;
    let ended = rig.ended(&run).await;
    assert_eq!(ended.run.status, Status::Completed, "{:?}", ended.outcome);
    assert_eq!((ended.totals.committed, ended.totals.planned), (200, 200));
    let writes = table.requests().iter().filter(|request| request.is_write()).count();
    // Accept, claim, run.claimed, the last result, the end; the others carry one step each.
    assert!((200..=206).contains(&writes), "{writes} writes");
}

#[tokio::test(start_paused = true)]
async fn a_run_crosses_chunks_and_counts_them() {
    let (mut options, _) = RigOptions::in_memory();
    options.cap = Duration::from_secs(3);
    let rig = Rig::new(options);
    let steps: Vec<_> = (0..10)
        .map(|n| serde_json::json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 1000 } }))
        .collect();
    let run = rig.start(&serde_json::json!({ "steps": steps })).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.totals.committed), (Status::Completed, 10));
    assert_eq!(ended.run.counters.crashes, 0);
    let log = rig.log(&run).await;
    let handed_on = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::AutoContinue { .. }))
        .count() as u64;
    assert_eq!(ended.run.counters.chunks, handed_on + 1);
    assert!(handed_on >= 2, "{handed_on}");
}

#[tokio::test(start_paused = true)]
async fn r14_a_step_that_outlives_the_cap_is_progress_of_its_chunk() {
    let (mut options, _) = RigOptions::in_memory();
    options.cap = Duration::from_secs(1);
    let rig = Rig::new(options);
    // Each is all that its chunk does, and has its result when the chunk is about to close.
    let steps: Vec<_> = (0..10)
        .map(|n| serde_json::json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 1500 } }))
        .collect();
    let run = rig.start(&serde_json::json!({ "steps": steps })).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.reason, ended.totals.committed), (None, 10));
    assert_eq!((ended.run.counters.chunks, ended.run.counters.stalled), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn a_record_deleted_before_the_verification_is_named() {
    let (options, _) = RigOptions::in_memory();
    let rig = Rig::new(options);
    let put = |key: &str| {
        let input = serde_json::json!({ "table": "things", "key": { "id": key }, "record": { "v": 1.0 } });
        serde_json::json!({ "key": key, "tool": "put_record", "input": input })
    };
    let nap = serde_json::json!({ "key": "nap", "tool": "sleep", "input": { "ms": 1000 } });
    let run = rig
        .start(&serde_json::json!({ "steps": [put("a"), put("b"), put("c"), nap] }))
        .await;
    wait_until("all records are written", Duration::from_secs(60), async || {
        rig.records.items("things").len() == 3
    })
    .await;
    let key = serde_json::json!({ "id": "b" });
    assert!(rig.records.delete("things", key.as_object().unwrap()));
    let ended = rig.ended(&run).await;
    let outcome = ended.outcome.unwrap();
    assert_eq!(
        (ended.run.status, outcome.reason),
        (Status::Incomplete, Some(Reason::NotVerified))
    );
    assert_eq!(outcome.remainder, [StepKey::new("b")]);
    assert_eq!(outcome.verification.unwrap().checked, 3);
    assert_eq!(ended.totals.committed, 4);
}

#[tokio::test(start_paused = true)]
async fn r36_a_fold_and_a_claim_read_consistently() {
    let (mut options, table) = RigOptions::in_memory();
    options.cap = Duration::from_secs(2);
    let rig = Rig::new(options);
    let steps: Vec<_> = (0..6)
        .map(|n| serde_json::json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": 900 } }))
        .collect();
    // Every read that need not be consistent sees the tables as they were long ago.
    table.let_reads_lag(1000);
    let run = rig.start(&serde_json::json!({ "steps": steps })).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.run.status, ended.totals.committed), (Status::Completed, 6));
    assert!(ended.run.counters.chunks >= 2);
    let stale = table
        .requests()
        .into_iter()
        .filter(|request| request.consistent == Some(false))
        .count();
    assert_eq!(stale, 0, "nothing that decides was read from what may be stale");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_not_be_repeated_and_got_no_answer_is_unknown() {
    let (options, _) = RigOptions::in_memory();
    let rig = Rig::new(options);
    // A server that takes the request and hangs up.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Read as _;
        let (mut socket, _) = server.accept().unwrap();
        let _ = socket.read(&mut [0; 1024]);
    });
    let post = serde_json::json!({ "key": "pay", "tool": "http_request", "input": { "method": "POST", "url": url } });
    let run = rig.start(&serde_json::json!({ "steps": [post] })).await;
    let ended = rig.ended(&run).await;
    assert_eq!((ended.totals.unknown, ended.totals.failed), (1, 0));
    assert_eq!(ended.run.reason, Some(Reason::StepsUnknown));
}
