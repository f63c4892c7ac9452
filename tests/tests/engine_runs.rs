//! Whole runs on the test double: what a run costs, what its log says, what a hand-off does.

use std::time::Duration;

use outlast_core::{EventBody, Status};
use outlast_tests::rig::{Rig, RigOptions, quick_plan};

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
