use outlast_core::Payload;
use serde_json::{Value, json};

use super::Checker;
use crate::tool::Tools;
use crate::tools::{HttpRequest, PutRecord, Sleep};

fn refused(plan: Value) -> (bool, &'static str, String, Option<String>) {
    let checker = Checker::new(&Tools::default().with(Sleep).with(PutRecord).with(HttpRequest));
    let bad = checker.check(&Payload::of(&plan).unwrap()).unwrap_err();
    (bad.malformed, bad.code, bad.message, bad.pointer)
}

fn sleep(key: &str) -> Value {
    json!({ "key": key, "tool": "sleep", "input": { "ms": 1 } })
}

#[test]
fn a_good_plan_is_accepted() {
    let checker = Checker::new(&Tools::default().with(Sleep).with(PutRecord).with(HttpRequest));
    let steps = json!([
        sleep("a"),
        { "key": "b", "tool": "put_record", "input": { "table": "t", "key": { "id": "1" }, "record": { "n": 1 } } },
        { "key": "c/ü", "tool": "http_request", "input": { "method": "POST", "url": "http://x" }, "idempotent": true },
    ]);
    let plan = json!({ "steps": steps, "concurrency": 3, "rate": 0.5 });
    assert_eq!(checker.check(&Payload::of(&plan).unwrap()).unwrap().steps.len(), 3);
}

#[test]
fn a_bad_plan_names_the_place() {
    let cases = [
        (json!([]), true, "invalid_plan", None),
        (json!({ "steps": [{ "key": "a" }] }), true, "invalid_plan", None),
        (json!({ "steps": [], "speed": 1 }), true, "invalid_plan", None),
        (json!({ "steps": [] }), false, "invalid_plan", Some("/steps")),
        (
            json!({ "steps": [sleep("a"), sleep("a")] }),
            false,
            "invalid_plan",
            Some("/steps/1/key"),
        ),
        (
            json!({ "steps": [sleep("")] }),
            false,
            "invalid_plan",
            Some("/steps/0/key"),
        ),
        (
            json!({ "steps": [sleep(&"x".repeat(257))] }),
            false,
            "invalid_plan",
            Some("/steps/0/key"),
        ),
        (
            json!({ "steps": [sleep("a")], "concurrency": 0 }),
            false,
            "invalid_plan",
            Some("/concurrency"),
        ),
        (
            json!({ "steps": [sleep("a")], "rate": 0 }),
            false,
            "invalid_plan",
            Some("/rate"),
        ),
        (
            json!({ "steps": [{ "key": "a", "tool": "fly" }] }),
            false,
            "unknown_tool",
            Some("/steps/0/tool"),
        ),
        (
            json!({ "steps": [sleep("a"), { "key": "b", "tool": "sleep", "input": { "ms": "long" } }] }),
            false,
            "invalid_tool_input",
            Some("/steps/1/input/ms"),
        ),
        (
            json!({ "steps": [{ "key": "b", "tool": "put_record", "input": { "table": "t", "key": {} } }] }),
            false,
            "invalid_tool_input",
            Some("/steps/0/input/key"),
        ),
        (
            json!({ "steps": [{ "key": "b", "tool": "http_request", "input": { "method": "GET", "url": "ftp://x" } }] }),
            false,
            "invalid_tool_input",
            Some("/steps/0/input/url"),
        ),
    ];
    for (plan, malformed, code, pointer) in cases {
        let (was_malformed, was_code, message, was_pointer) = refused(plan.clone());
        assert_eq!(
            (was_malformed, was_code, was_pointer.as_deref()),
            (malformed, code, pointer),
            "{plan}: {message}"
        );
        assert!(!message.is_empty());
    }
}

#[test]
fn a_step_is_named_by_its_number_and_key() {
    let (_, _, message, _) = refused(json!({ "steps": [sleep("first"), { "key": "second", "tool": "fly" }] }));
    assert_eq!(
        message,
        "step 2 (`second`): there is no tool `fly` here; there are: http_request, put_record, sleep"
    );
}
