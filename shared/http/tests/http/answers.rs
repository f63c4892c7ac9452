//! `POST /api/v1/runs/{id}/answers/{key}`, and what `show` says of a run that waits for one.

use serde_json::{Value, json};

use crate::support::{RUNS, Rig};

fn asks(schema: Value) -> Value {
    json!({"steps": [{"key": "refund 7?", "tool": "ask", "input": schema}]})
}

async fn waiting(rig: &Rig, schema: Value) -> String {
    let run = rig.start(asks(schema)).await;
    rig.until(&run, |shown| shown["status"] == "waiting").await;
    run
}

/// What the agent got.
async fn said(rig: &Rig, run: &str) -> Value {
    rig.ended(run).await;
    let events = rig.get(&format!("{RUNS}/{run}/events?after=0")).await.json();
    let events = events["events"].as_array().unwrap().clone();
    let said = events.iter().find(|event| event["type"] == "emit");
    said.expect("it says what it got")["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_shown_answered_and_gone() {
    let rig = Rig::new();
    let schema = json!({"type": "object", "required": ["cents"]});
    let run = waiting(&rig, schema.clone()).await;
    let shown = rig.get(&format!("{RUNS}/{run}")).await.json();
    let question = json!({"key": "refund%207%3F", "expiresAt": null, "schema": schema});
    assert_eq!(shown["questions"], json!([question]));
    assert_eq!(
        (&shown["status"], &shown["dueAt"]),
        (&json!("waiting"), &shown["endsAt"])
    );
    // The key as it was written, as a part of the path.
    let answer = rig
        .post(
            &format!("{RUNS}/{run}/answers/refund%207%3F"),
            &json!({"value": {"cents": 1e2}}),
        )
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["runId"], run);
    assert_eq!(said(&rig, &run).await, json!({"value": {"cents": 1e2}}));
    let shown = rig.get(&format!("{RUNS}/{run}")).await.json();
    assert!(shown.get("questions").is_none(), "{shown}");
    let events = rig.get(&format!("{RUNS}/{run}/events?after=0")).await.json();
    let events = events["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap().clone();
    assert_eq!(of("approval.required")["schema"], schema);
    assert_eq!(of("answer.recorded")["value"], json!({"cents": 1e2}));
    assert_eq!(of("run.parked")["awaits"], json!(["refund%207%3F"]));
}

#[tokio::test(start_paused = true)]
async fn the_key_as_the_log_has_it_is_taken_too_and_a_null_and_an_error_are_answers() {
    let rig = Rig::new();
    for (body, came) in [
        (json!({"value": null}), json!({"value": null})),
        (
            json!({"error": {"type": "declined", "message": "no"}}),
            json!({"failed": "declined", "message": "no"}),
        ),
    ] {
        let run = waiting(&rig, json!(true)).await;
        let answer = rig
            .post(&format!("{RUNS}/{run}/answers/refund%25207%253F"), &body)
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(said(&rig, &run).await, came);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_says_why_and_settles_nothing() {
    let rig = Rig::new();
    let run = waiting(&rig, json!({"properties": {"cents": {"type": "integer"}}})).await;
    let path = format!("{RUNS}/{run}/answers/refund%207%3F");
    let refused = rig.post(&path, &json!({"value": {"cents": "1"}})).await;
    assert_eq!(refused.problem(422), "answer_refused");
    assert_eq!(refused.json()["pointer"], "/cents");
    let large = rig.post(&path, &json!({"value": "x".repeat(300_000)})).await;
    assert_eq!(large.problem(413), "answer_too_large");
    for body in [
        json!({}),
        json!(null),
        json!(7),
        json!({"value": 1, "error": {"type": "x", "message": "y"}}),
        json!({"error": {"type": "", "message": "y"}}),
        json!({"error": {"type": "x".repeat(101), "message": "y"}}),
        json!({"error": "x"}),
        json!({"value": 1, "more": 2}),
    ] {
        let refused = rig.post(&path, &body).await;
        assert_eq!(refused.problem(400), "bad_request", "{body}");
    }
    assert_eq!(
        rig.post_text(&path, &[], "application/json", "{\"value\": ")
            .await
            .problem(400),
        "malformed_json"
    );
    let huge = rig
        .post_text(&path, &[], "application/json", "{\"value\": 1e999}")
        .await;
    assert_eq!(huge.problem(422), "answer_refused");
    let unknown = rig
        .post(&format!("{RUNS}/{run}/answers/refund"), &json!({"value": 1}))
        .await;
    assert_eq!(unknown.problem(404), "question_not_found");
    let shown = rig.get(&format!("{RUNS}/{run}")).await.json();
    assert_eq!(
        (&shown["status"], shown["questions"].as_array().unwrap().len()),
        (&json!("waiting"), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_second_answer_and_one_to_an_ended_run_are_conflicts() {
    let rig = Rig::new();
    let run = waiting(&rig, json!(true)).await;
    let path = format!("{RUNS}/{run}/answers/refund%207%3F");
    assert_eq!(rig.post(&path, &json!({"value": 1})).await.status, 200);
    assert_eq!(
        rig.post(&path, &json!({"value": 1})).await.problem(409),
        "already_answered"
    );
    assert_eq!(said(&rig, &run).await, json!({"value": 1}));
    assert_eq!(
        rig.post(&path, &json!({"value": 2})).await.problem(409),
        "already_answered"
    );

    let stopped = waiting(&rig, json!(true)).await;
    let path = format!("{RUNS}/{stopped}/answers/refund%207%3F");
    assert_eq!(
        rig.post(&format!("{RUNS}/{stopped}/stop"), &json!({})).await.status,
        200
    );
    let late = rig.post(&path, &json!({"value": 2})).await;
    assert_eq!(
        (late.problem(409).as_str(), &late.json()["refusal"]),
        ("run_conflict", &json!("ended"))
    );
}

#[tokio::test(start_paused = true)]
async fn another_owners_question_is_not_there() {
    let rig = Rig::new();
    let run = waiting(&rig, json!(true)).await;
    let path = format!("{RUNS}/{run}/answers/refund%207%3F");
    let foreign = rig
        .post_with(&path, &[("x-owner", "somebody")], &json!({"value": 1}))
        .await;
    assert_eq!(foreign.problem(404), "run_not_found");
    let nobody = rig
        .post_with(&path, &[("x-owner", "nobody")], &json!({"value": 1}))
        .await;
    assert_eq!(nobody.problem(401), "unauthorized");
    for path in [
        format!("{RUNS}/x/answers/k"),
        format!("{RUNS}/0197a8c0-0000-7000-8000-000000000000/answers/k"),
    ] {
        assert_eq!(
            rig.post(&path, &json!({"value": 1})).await.problem(404),
            "run_not_found"
        );
    }
}
