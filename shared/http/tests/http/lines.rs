//! A plan as JSON Lines.

use serde_json::json;

use crate::support::{RUNS, Rig};

const NDJSON: &str = "application/x-ndjson";

#[tokio::test(start_paused = true)]
async fn a_plan_is_a_line_a_step() {
    let rig = Rig::new();
    let text = "{\"key\":\"a\",\"tool\":\"note\",\"input\":{\"n\": 1.0}}\n\n{\"key\":\"b\",\"tool\":\"note\"}\n";
    let path = format!("{RUNS}?threadId=t%201&turnId=k&concurrency=4&rate=20");
    let started = rig.post_text(&path, &[], NDJSON, text).await;
    assert_eq!(started.status, 202, "{}", started.text);
    assert_eq!(started.json()["threadId"], "t 1");
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(rig.ended(&run).await["progress"]["committed"], 2);
    let log = rig.get(&format!("{RUNS}/{run}/events")).await.json();
    assert_eq!(
        log["events"][0]["input"],
        json!({"steps": [{"key": "a", "tool": "note", "input": {"n": 1.0}}, {"key": "b", "tool": "note"}],
               "concurrency": 4, "rate": 20})
    );
    let again = rig
        .post_text(&path, &[("idempotency-key", "k")], "application/jsonl", text)
        .await;
    assert_eq!((again.status.as_u16(), &again.json()["runId"]), (200, &json!(run)));
}

#[tokio::test]
async fn a_problem_names_the_line() {
    let rig = Rig::new();
    let good = r#"{"key":"a","tool":"note"}"#;
    let check = async |text: String, status: u16, code: &str, line: u64| {
        let answer = rig.post_text(RUNS, &[], NDJSON, &text).await;
        assert_eq!(answer.problem(status), code, "{text}");
        assert_eq!(answer.json()["line"], line, "{}", answer.text);
        assert!(
            answer.json()["detail"]
                .as_str()
                .unwrap()
                .starts_with(&format!("line {line}"))
        );
    };
    check(format!("{good}\n{good}}}"), 400, "malformed_json", 2).await;
    check(format!("{good}\n\n{{\"key\":\"b\"}}"), 400, "invalid_plan", 3).await;
    check(
        format!("\n{good}\n{{\"key\":\"b\",\"tool\":\"nope\"}}"),
        422,
        "unknown_tool",
        3,
    )
    .await;

    let answer = rig.post_text(&format!("{RUNS}?rate=fast"), &[], NDJSON, good).await;
    assert_eq!(answer.problem(400), "bad_request");
    let answer = rig.post_text(&format!("{RUNS}?pace=3"), &[], NDJSON, good).await;
    assert_eq!(answer.problem(400), "bad_request");
    assert!(answer.text.contains("pace"), "{}", answer.text);
    assert!(rig.table.keys().is_empty(), "nothing was stored");
}
