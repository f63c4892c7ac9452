//! Files as people write them.

use super::*;

fn refused(text: &str) -> String {
    let problem = parse("plan.jsonl", text).unwrap_err();
    assert_eq!(problem.exit, Exit::Usage);
    problem.text
}

#[test]
fn a_step_a_line() {
    let text = "\u{feff}{\"key\":\"a\",\"tool\":\"sleep\",\"input\":{\"ms\":1.0}}\r\n\n\
                {\"key\":\"b\",\"tool\":\"sleep\",\"input\":{\"ms\":12345678901234567890},\"idempotent\":true}\n";
    let plan = parse("plan.jsonl", text).unwrap();
    assert_eq!(plan.source.lines, [1, 3]);
    assert_eq!(
        serde_json::to_string(&plan).unwrap(),
        "{\"steps\":[{\"key\":\"a\",\"tool\":\"sleep\",\"input\":{\"ms\":1.0}},\
         {\"key\":\"b\",\"tool\":\"sleep\",\"input\":{\"ms\":12345678901234567890},\"idempotent\":true}]}"
    );
}

#[test]
fn one_document() {
    let text = "{\n  \"concurrency\": 4,\n  \"rate\": 2.5,\n  \"steps\": [\n    {\"key\": \"a\", \"tool\": \"sleep\"},\n    {\n      \"key\": \"b\", \"tool\": \"sleep\"}\n  ]\n}\n";
    let plan = parse("plan.json", text).unwrap();
    assert_eq!((plan.concurrency, plan.rate), (Some(4), Some(2.5)));
    assert_eq!(plan.source.lines, [5, 6]);
    assert_eq!(plan.source.place("/steps/1/input/ms").as_deref(), Some("plan.json:6"));
    assert_eq!(plan.source.place("/steps"), None);
    assert_eq!(
        parse("x", "{\"steps\":[{\"key\":\"a\",\"tool\":\"t\"}]}")
            .unwrap()
            .steps
            .len(),
        1
    );
}

#[test]
fn each_problem_names_its_line() {
    let text = "{\"key\":\"a\",\"tool\":\"sleep\",\"input\":{}}\n\
                {\"key\":\"b\",\"tool\":\"sleep\",\"input\":{}\n\
                {\"key\":\"c\",\"input\":{}}\n\
                {\"key\":\"a\",\"tool\":\"sleep\",\"input\":{}}\n\
                {\"key\":\"\",\"tool\":\"sleep\",\"inputs\":{}}\n\
                {\"key\":\"\",\"tool\":\"sleep\"}\n\
                sleep 3\n";
    insta::assert_snapshot!(refused(text));
}

#[test]
fn a_document_names_lines_too() {
    insta::assert_snapshot!(refused(
        "{\n\"steps\": [\n{\"key\": \"a\", \"tool\": \"sleep\"},\n{\"key\": \"a\",\n\"tool\": 7}\n]}"
    ));
    insta::assert_snapshot!(refused("{\n\"steps\": [\n{\"key\": \"a\" \"tool\": \"sleep\"}]}"));
    insta::assert_snapshot!(refused("{\n\"steps\": [],\n\"pace\": 3}"));
}

#[test]
fn nothing_is_a_problem_and_many_are_cut_short() {
    assert!(refused("").starts_with("plan.jsonl:1: there is no step in it"));
    assert!(refused("{\"steps\":[]}").starts_with("plan.jsonl:1: there is no step in it"));
    let many = refused(&"x\n".repeat(15));
    assert!(many.ends_with("and 5 more\nNothing was sent."), "{many}");
}
