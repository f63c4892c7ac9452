//! A plan as a file, checked before anything is sent: each problem names its file and line.
//!
//! Two forms. JSON Lines: one step a line, `{"key", "tool", "input", "idempotent"?}`. Or one JSON object,
//! `{"steps": [step, …], "concurrency"?, "rate"?}`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;

use outlast_core::key::key_part;
use outlast_core::limits::MAX_STEPS;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::exit::{Exit, Problem};

/// No more problems than this are listed.
const LISTED: usize = 10;

/// A plan, as it is sent. Inputs keep the bytes that they have in the file.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Where the plan was read from, and the line of each step.
    #[serde(skip)]
    pub source: Source,
}

#[derive(Debug, Default)]
pub struct Source {
    pub name: String,
    pub lines: Vec<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub key: String,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    #[serde(borrow)]
    steps: Vec<&'a RawValue>,
    #[serde(default)]
    concurrency: Option<u64>,
    #[serde(default)]
    rate: Option<f64>,
}

/// The text of a file, or of stdin for `-`, and what to call it.
pub fn read(path: &str) -> Result<(String, String), Problem> {
    let (name, text) = match path {
        "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            (String::from("stdin"), read.map(|_| text))
        }
        path => (String::from(path), std::fs::read_to_string(path)),
    };
    match text {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Problem::new(Exit::Usage, format!("{name}: can't be read: {error}"))),
    }
}

/// Reads a plan; the error lists every problem with its line.
pub fn parse(name: &str, text: &str) -> Result<Plan, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(name);
    let plan = if is_document(text) {
        document(name, text, &mut problems)
    } else {
        lines(name, text, &mut problems)
    };
    problems.or(plan)
}

/// One JSON object over the whole file, and no step by itself on its first line.
fn is_document(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match serde_json::from_str::<HashMap<String, &RawValue>>(first) {
        Ok(fields) => fields.contains_key("steps"),
        // Half an object: one that goes on in the next lines.
        Err(error) => error.is_eof() && first.trim_start().starts_with('{'),
    }
}

fn document(name: &str, text: &str, problems: &mut Problems) -> Plan {
    let document: Document = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => {
            problems.add(error.line(), what(&error));
            return plan(name, Vec::new());
        }
    };
    let steps = document
        .steps
        .iter()
        .map(|raw| (line_of(text, raw.get()), raw.get()))
        .collect();
    Plan {
        concurrency: document.concurrency,
        rate: document.rate,
        ..checked(name, steps, problems)
    }
}

fn lines(name: &str, text: &str, problems: &mut Problems) -> Plan {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    checked(name, lines.collect(), problems)
}

fn checked(name: &str, texts: Vec<(usize, &str)>, problems: &mut Problems) -> Plan {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut steps = Vec::new();
    for (line, text) in texts {
        let step: Step = match serde_json::from_str(text) {
            Ok(step) => step,
            Err(error) => {
                // A step may span lines in the one form, never in the other: there its line is always the first.
                problems.add(line + error.line().saturating_sub(1), what(&error));
                continue;
            }
        };
        if let Err(problem) = key_part(&step.key) {
            problems.add(line, format!("the key {:?} can't be used: {problem}", step.key));
        }
        if let Some(first) = seen.insert(step.key.clone(), line) {
            problems.add(line, format!("the key {:?} is that of line {first}", step.key));
        }
        steps.push((line, step));
    }
    if steps.is_empty() && problems.is_empty() {
        problems.add(1, "there is no step in it");
    }
    if let Some((line, _)) = steps.get(MAX_STEPS) {
        problems.add(*line, format!("a run has at most {MAX_STEPS} steps: split the plan"));
    }
    plan(name, steps)
}

fn plan(name: &str, steps: Vec<(usize, Step)>) -> Plan {
    let (lines, steps) = steps.into_iter().unzip();
    Plan {
        steps,
        concurrency: None,
        rate: None,
        source: Source {
            name: name.into(),
            lines,
        },
    }
}

/// The line on which a part of `text` begins.
fn line_of(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
}

/// serde_json's words without its place, which would count from the step's own beginning.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} (column {})", error.column()),
        None => text,
    }
}

impl Source {
    /// The place of what the server refused by this JSON pointer into the plan, if it is a step.
    pub fn place(&self, pointer: &str) -> Option<String> {
        let index: usize = pointer.strip_prefix("/steps/")?.split('/').next()?.parse().ok()?;
        Some(format!("{}:{}", self.name, self.lines.get(index)?))
    }
}

struct Problems<'a> {
    name: &'a str,
    listed: String,
    count: usize,
}

impl<'a> Problems<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            listed: String::new(),
            count: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, line: usize, what: impl std::fmt::Display) {
        self.count += 1;
        if self.count <= LISTED {
            let _ = writeln!(self.listed, "{}:{line}: {what}", self.name);
        }
    }

    fn or(mut self, plan: Plan) -> Result<Plan, Problem> {
        if self.is_empty() {
            return Ok(plan);
        }
        if self.count > LISTED {
            let _ = writeln!(self.listed, "and {} more", self.count - LISTED);
        }
        self.listed.push_str("Nothing was sent.");
        Err(Problem::new(Exit::Usage, self.listed))
    }
}

#[cfg(test)]
mod tests;
