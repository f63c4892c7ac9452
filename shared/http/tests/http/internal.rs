//! What a host sends itself.

use std::time::Duration;

use serde_json::json;

use crate::support::agents::{notes, slow};
use crate::support::{Deliver, Rig, internal, process_request};

#[tokio::test(start_paused = true)]
async fn a_dispatch_is_answered_when_its_chunk_is_over() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(slow(5_000)).await;
    let sent = rig.sent();
    let begun = tokio::time::Instant::now();
    let answer = rig.call_background(process_request(&sent[0])).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (200, json!({"claimed": true, "runId": run, "status": "completed"}))
    );
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn r25_one_that_comes_again_is_quietly_nothing() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(slow(5_000)).await;
    let sent = rig.sent();
    let (one, other) = futures::join!(
        rig.call_background(process_request(&sent[0])),
        rig.call_background(process_request(&sent[0]))
    );
    let mut claimed = [&one, &other].map(|answer| answer.json()["claimed"].as_bool().unwrap());
    claimed.sort();
    assert_eq!(claimed, [false, true]);
    let before = rig.show(&run).await;
    let late = rig.call_background(process_request(&sent[0])).await;
    assert_eq!(
        (late.status.as_u16(), late.json()),
        (200, json!({"claimed": false, "why": "ended"}))
    );
    let after = rig.show(&run).await;
    assert_eq!(
        (&before["lastSeq"], &before["cost"]),
        (&after["lastSeq"], &after["cost"])
    );
}

#[tokio::test(start_paused = true)]
async fn r40_only_its_own_token_opens() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    rig.start(notes(1)).await;
    let sent = rig.sent();
    let (own, others) = (&sent[0], &sent[1]);
    let (expiry, signature) = own.token.split_once('.').unwrap();
    let rewritten = format!("{}.{signature}", expiry.parse::<u64>().unwrap() + 1000);
    let longer = own.body.replace("}", " }");
    for (body, token) in [
        (&own.body, None),
        (&own.body, Some("")),
        (&own.body, Some("x")),
        (&own.body, Some(&*others.token)),
        (&own.body, Some(&*rewritten)),
        (&own.body, Some(signature)),
        (&others.body, Some(&*own.token)),
        (&longer, Some(&*own.token)),
    ] {
        let answer = rig.call_background(internal("/_process-run", body, token)).await;
        assert_eq!(answer.problem(401), "bad_dispatch_token", "{token:?}");
    }
    // Good, and for another kind of host.
    let answer = rig.call(process_request(own)).await;
    assert_eq!(answer.problem(400), "bad_dispatch");
    assert_eq!(rig.show(&run).await["status"], "queued");

    tokio::time::sleep(Duration::from_secs(5 * 60 + 1)).await;
    let expired = rig.call_background(process_request(own)).await;
    assert_eq!(
        (expired.status.as_u16(), expired.json()),
        (200, json!({"claimed": false, "why": "token_expired"}))
    );
}

#[tokio::test(start_paused = true)]
async fn a_sweep_says_what_it_did() {
    let rig = Rig::new();
    rig.deliver(Deliver::Hold);
    let run = rig.start(notes(1)).await;
    let swept = rig.call_background(internal("/_sweep", "", None)).await;
    let nothing = json!({"lookedAt": 0, "lost": 0, "dispatched": 0, "ended": 0, "carried": 0, "failed": 0});
    assert_eq!((swept.status.as_u16(), swept.json()), (200, nothing));
    tokio::time::sleep(Duration::from_secs(61)).await;
    rig.deliver(Deliver::AtOnce);
    let swept = rig.call_background(internal("/_sweep", "{}", None)).await.json();
    assert_eq!((&swept["lookedAt"], &swept["dispatched"]), (&json!(1), &json!(1)));
    assert_eq!(rig.ended(&run).await["status"], "completed");
}
