//! Runs whose dispatches come to nothing, by a clock that the test moves.

use std::time::Duration;

use outlast_core::limits::{NEVER_STARTED_AFTER, Timing};
use outlast_core::run::DispatchStage;
use outlast_core::{EventBody, Reason, RunId, Status};
use outlast_engine::sweep::sweep;
use outlast_tests::rig::{Deliver, Rig, RigOptions, deliver, quick_plan};

const CAP: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// With the times of a deployment, where dispatches come to this.
fn rig(deliver: Deliver) -> Rig {
    let (mut options, _) = RigOptions::in_memory();
    options.timing = Timing::LAMBDA;
    options.deliver = deliver;
    Rig::new(options)
}

/// The schedule, minute by minute, until the run has ended: the minutes at which something was sent.
async fn sweep_to_the_end(rig: &Rig, run: &RunId) -> Vec<u64> {
    let mut sent_at = Vec::new();
    for minute in 1..=NEVER_STARTED_AFTER.as_secs() / 60 {
        tokio::time::advance(MINUTE).await;
        let before = rig.sent().len();
        sweep(&rig.engine).await.unwrap();
        if rig.sent().len() > before {
            sent_at.push(minute);
        }
        if rig.row(run).await.status.is_terminal() {
            assert_eq!(minute, NEVER_STARTED_AFTER.as_secs() / 60);
            return sent_at;
        }
    }
    panic!("no end after {NEVER_STARTED_AFTER:?}");
}

#[tokio::test(start_paused = true)]
async fn r20_a_run_that_nobody_starts_is_sent_again_more_and_more_rarely_and_fails_after_two_hours() {
    for (how, stage, error) in [
        (Deliver::Hold, DispatchStage::Sent, None),
        (Deliver::Refuse, DispatchStage::Refused, Some("throttled")),
    ] {
        let rig = rig(how);
        let mut request = rig.request(&quick_plan(2));
        request.thread = Some("t".into());
        let run = rig.try_start(request.clone()).await.unwrap().run.id;
        let row = rig.row(&run).await;
        assert_eq!((row.dispatch.stage, row.dispatch.error.as_deref()), (stage, error));

        let sent_at = sweep_to_the_end(&rig, &run).await;
        assert_eq!(sent_at, [1, 3, 7, 15, 30, 45, 60, 75, 90, 105]);
        let ended = rig.show(&run).await;
        assert_eq!(
            (ended.run.status, ended.run.reason),
            (Status::Failed, Some(Reason::NeverStarted))
        );
        assert_eq!((ended.run.counters.chunks, ended.run.counters.crashes), (0, 0));
        let log = rig.log(&run).await;
        let kinds = log.iter().map(|event| &event.body).collect::<Vec<_>>();
        assert!(
            matches!(kinds[..], [EventBody::RunAccepted { .. }, EventBody::RunFailed(_)]),
            "{kinds:?}"
        );

        // Whatever turns up now is too late, and its thread is another run's.
        rig.try_start(request).await.expect("the thread is free");
        let sent = rig.sent();
        for dispatch in [&sent[0], &sent[sent_at.len()]] {
            deliver(&rig.engine, dispatch, CAP).await;
        }
        assert_eq!((rig.row(&run).await, rig.log(&run).await), (ended.run, log));
    }
}

#[tokio::test(start_paused = true)]
async fn r20_a_claim_starts_the_count_again() {
    let rig = rig(Deliver::Hold);
    let plan = serde_json::json!({ "steps": [
        { "key": "a", "tool": "sleep", "input": { "ms": 2000 } },
        { "key": "b", "tool": "sleep", "input": { "ms": 0 } },
    ] });
    let run = rig.start(&plan).await;
    // Nobody comes for most of the two hours; then somebody does, and hands on to nobody.
    for _ in 0..105 {
        tokio::time::advance(MINUTE).await;
        sweep(&rig.engine).await.unwrap();
    }
    let last = rig.sent().pop().unwrap();
    deliver(&rig.engine, &last, Duration::from_secs(1)).await.unwrap();
    assert_eq!(rig.row(&run).await.status, Status::Queued);

    let sent_at = sweep_to_the_end(&rig, &run).await;
    assert_eq!(sent_at, [1, 3, 7, 15, 30, 45, 60, 75, 90, 105]);
    let ended = rig.show(&run).await;
    assert_eq!(ended.run.reason, Some(Reason::NeverStarted));
    let outcome = ended.outcome.expect("a terminal event");
    assert_eq!((outcome.totals.committed, outcome.remaining), (1, 1));
}
