//! A plan as JSON Lines: one tool call a line. A problem names the line.

use outlast_agent::plan::PlannedCall;
use outlast_core::Payload;
use outlast_engine::BadInput;
use serde_json::error::Category;

use crate::problem::{Code, Problem};

/// The code that the agent has for what is no plan.
const INVALID_PLAN: &str = "invalid_plan";

/// A plan, and the lines that its steps came from.
#[derive(Debug)]
pub(crate) struct PlanLines {
    pub input: Payload,
    /// The line of each step, from 1.
    lines: Vec<usize>,
}

/// What may be said about a plan beside its steps: JSON numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace<'a> {
    pub concurrency: Option<&'a str>,
    pub rate: Option<&'a str>,
}

/// `{"steps": […]}`, each line as it came.
pub(crate) fn plan(text: &str, pace: Pace<'_>) -> Result<PlanLines, Problem> {
    let mut lines = Vec::new();
    let mut input = String::with_capacity(text.len() + 64);
    input.push_str("{\"steps\":[");
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.is_empty() {
            continue;
        }
        step(number, line)?;
        if !lines.is_empty() {
            input.push(',');
        }
        input.push_str(line);
        lines.push(number);
    }
    input.push(']');
    for (name, value) in [("concurrency", pace.concurrency), ("rate", pace.rate)] {
        if let Some(value) = value {
            let number: serde_json::Number = serde_json::from_str(value)
                .map_err(|_| Problem::new(Code::BadRequest, format!("`{name}` has to be a number, not `{value}`")))?;
            input.push_str(&format!(",\"{name}\":{number}"));
        }
    }
    input.push('}');
    let input = Payload::parse(input).map_err(|error| Problem::new(Code::MalformedJson, error.to_string()))?;
    Ok(PlanLines { input, lines })
}

fn step(number: usize, line: &str) -> Result<(), Problem> {
    let Err(error) = serde_json::from_str::<PlannedCall>(line) else {
        return Ok(());
    };
    // It counts lines from the text it was given, which is a single one here.
    let what = error.to_string().replace(" at line 1 column ", " at column ");
    let problem = match error.classify() {
        Category::Data => Problem::of_input(
            true,
            INVALID_PLAN,
            format!("line {number} is no step: {what}; it should be {{\"key\", \"tool\", \"input\"}}"),
        ),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(Code::MalformedJson, format!("line {number} is not JSON: {what}"))
        }
    };
    Err(problem.with("line", number))
}

impl PlanLines {
    /// The line that a problem with the input is about.
    pub(crate) fn line_of(&self, bad: &BadInput) -> Option<usize> {
        let step = bad.pointer.as_deref()?.strip_prefix("/steps/")?;
        let index: usize = step.split('/').next()?.parse().ok()?;
        self.lines.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_step_as_it_came() {
        let text = "{\"key\":\"a\",\"tool\":\"sleep\",\"input\":{\"n\": 1.0}}\r\n\n  {\"key\":\"b\",\"tool\":\"x\"}\n";
        let pace = Pace {
            concurrency: Some("4"),
            rate: Some("0.5"),
        };
        let plan = plan(text, pace).unwrap();
        assert_eq!(
            plan.input.as_str(),
            r#"{"steps":[{"key":"a","tool":"sleep","input":{"n": 1.0}},{"key":"b","tool":"x"}],"concurrency":4,"rate":0.5}"#
        );
        assert_eq!(plan.lines, [1, 3]);
    }

    #[test]
    fn a_problem_names_the_line() {
        const GOOD: &str = r#"{"key":"a","tool":"x"}"#;
        for (text, line, code) in [
            (format!("{GOOD}\n{{\"key\":}}\n"), 2, "malformed_json"),
            (format!("[]\n{GOOD}"), 1, "invalid_plan"),
            (format!("{GOOD}\n\n\n{GOOD} {GOOD}"), 4, "malformed_json"),
            (format!("{GOOD}\n\"x\""), 2, "invalid_plan"),
            (
                format!("{GOOD}\n{{\"key\":\"b\",\"tool\":\"x\",\"inputs\":1}}"),
                2,
                "invalid_plan",
            ),
            (format!("{GOOD}\n{{\"key\":\"b\"}}"), 2, "invalid_plan"),
        ] {
            let problem = plan(&text, Pace::default()).unwrap_err();
            assert_eq!(problem.code(), code, "{problem:?}");
            assert!(format!("{problem:?}").contains(&format!("line {line} ")), "{problem:?}");
        }
        let plan = plan(&format!("\n{GOOD}\n\n{GOOD}"), Pace::default()).unwrap();
        let bad = |pointer: &str| BadInput {
            malformed: false,
            code: "x",
            message: String::new(),
            pointer: Some(pointer.into()),
        };
        assert_eq!(plan.line_of(&bad("/steps/1/tool")), Some(4));
        assert_eq!(plan.line_of(&bad("/steps/0")), Some(2));
        assert_eq!(plan.line_of(&bad("/rate")), None);
        assert_eq!(plan.line_of(&bad("/steps/9")), None);
    }

    #[test]
    fn a_pace_is_a_number() {
        for value in ["x", "", "1,\"steps\":[]", "\"1\"", "null"] {
            let pace = Pace {
                rate: Some(value),
                ..Pace::default()
            };
            assert!(plan("", pace).is_err(), "{value:?}");
        }
    }
}
