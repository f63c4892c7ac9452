//! Dispatches of the real functions that are refused, lost, or reach a process that hangs: accepted is not started.

use std::time::Duration;

use outlast_tests::lambda::Refusal;
use outlast_tests::lambda::deployment::{Deployment, Options, kinds};
use outlast_tests::log_rules::has_ended;
use outlast_tests::wait::wait_until;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

/// However it ended.
fn has_started(log: &[Value]) -> bool {
    kinds(log).contains(&"step.started")
}

/// One claim, each step once, complete, and no crash.
async fn assert_one_executor(deployed: &Deployment, run: &str, steps: usize) {
    let log = deployed.log(run).await;
    let count = |kind: &str| kinds(&log).iter().filter(|other| **other == kind).count();
    assert_eq!(
        (count("run.claimed"), count("step.started"), count("step.committed")),
        (1, steps, steps),
        "{:?}",
        kinds(&log)
    );
    let shown = deployed.show(run).await;
    assert_eq!(
        (&shown["status"], &shown["chunk"], &shown["crashes"]),
        (&json!("completed"), &json!(1), &json!(0)),
        "{shown}"
    );
}

/// What was said to the delivery of this event, once it is over.
async fn said(deployed: &Deployment, event: usize) -> Value {
    wait_until("the delivery is over", PATIENCE, async || {
        !deployed.lambda.events()[event].outcomes.is_empty()
    })
    .await;
    deployed.lambda.events()[event].outcomes[0].clone().expect("an answer")
}

#[tokio::test]
async fn r20_a_refused_dispatch_is_accepted_all_the_same_noted_on_the_row_and_sent_again() {
    for refusal in [Refusal::FORBIDDEN, Refusal::THROTTLED] {
        let mut options = Options::default();
        options.timing.redispatch_after = Duration::from_millis(500);
        let deployed = Deployment::start(options).await;
        deployed.lambda.refuse(Some(refusal));
        // Answers 202: the run is there, and what is wrong with its dispatch is the deployment's to mend.
        let run = deployed.start_run(&naps(2, 10)).await;
        // What may pass is tried again by the SDK itself.
        let refused = deployed.lambda.refused();
        assert_eq!(refused > 1, refusal == Refusal::THROTTLED, "{refused}");
        let shown = deployed.show(&run).await;
        assert_eq!(
            (&shown["status"], &shown["dispatch"]["stage"]),
            (&json!("queued"), &json!("refused")),
            "{shown}"
        );
        let error = shown["dispatch"]["error"].as_str().unwrap();
        assert!(error.contains(refusal.kind) && error.contains("background"), "{error}");

        // The schedule repeats it, and is refused too.
        wait_until("the sweep has sent it", PATIENCE, async || {
            deployed.sweep().await["dispatched"] == 1
        })
        .await;
        assert!(deployed.lambda.refused() > refused && deployed.lambda.events().is_empty());
        assert_eq!(deployed.show(&run).await["dispatch"]["stage"], "refused");

        deployed.lambda.refuse(None);
        deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
        assert_one_executor(&deployed, &run, 2).await;
    }
}

#[tokio::test]
async fn r20_a_lost_delivery_that_turns_up_while_another_works_changes_nothing() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.lose(1);
    let run = deployed.start_run(&naps(3, 400)).await;
    deployed
        .logged_with_sweeps(&run, "another delivery is at work", has_started)
        .await;
    let late = deployed.lambda.deliver(0).await.unwrap();
    assert_eq!(late, json!({ "claimed": false, "why": "held" }));
    deployed.logged(&run, "the run ends", has_ended).await;
    assert_one_executor(&deployed, &run, 3).await;
}

#[tokio::test]
async fn r20_a_lost_delivery_and_its_repetition_at_once_are_one_executor() {
    let deployed = Deployment::start(Options::default()).await;
    deployed.lambda.lose(2);
    let run = deployed.start_run(&naps(3, 100)).await;
    wait_until("the sweep has sent it again", PATIENCE, async || {
        deployed.sweep().await;
        deployed.lambda.events().len() == 2
    })
    .await;
    let (first, second) = tokio::join!(deployed.lambda.deliver(0), deployed.lambda.deliver(1));
    let claimed = [first.unwrap(), second.unwrap()].map(|said| said["claimed"] == true);
    assert!(claimed[0] != claimed[1], "{claimed:?}");
    assert_one_executor(&deployed, &run, 3).await;
}

#[tokio::test]
async fn r20_a_worker_that_hangs_before_its_claim_is_replaced_and_changes_nothing_later() {
    for thaw_during_the_run in [true, false] {
        let deployed = Deployment::start(Options::default()).await;
        deployed.background.freeze_next_start();
        let run = deployed.start_run(&naps(3, 400)).await;
        wait_until("its process is there", PATIENCE, async || {
            deployed.background.environments().len() == 1
        })
        .await;
        let hangs = deployed.background.busy();
        // Delivered, as far as Lambda knows; and a claim is a worker's first write, so the row knows nothing of it.
        let log = deployed.log(&run).await;
        assert_eq!(kinds(&log), ["run.accepted"]);

        deployed
            .logged_with_sweeps(&run, "another delivery is at work", has_started)
            .await;
        if !thaw_during_the_run {
            deployed.logged(&run, "the run ends", has_ended).await;
        }
        hangs.thaw();
        let late = said(&deployed, 0).await;
        assert_eq!(late["claimed"], false, "{late}");
        // On a slow machine the run may be over before the thawed process has asked.
        let why = late["why"].as_str().unwrap();
        assert!(why == "ended" || thaw_during_the_run && why == "held", "{late}");
        deployed.logged(&run, "the run ends", has_ended).await;
        assert_one_executor(&deployed, &run, 3).await;
    }
}
