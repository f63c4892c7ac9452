//! Draws the table for people: `docs/LIFECYCLE.md` holds what the code does, not what somebody remembers of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::cells::{CASES, Case, Flag, cell, kind, told};
use super::*;
use crate::generated::assert_documented;

#[test]
fn lifecycle_is_drawn_as_it_is() {
    assert_documented(
        "LIFECYCLE.md",
        "lifecycle",
        &format!("\n{}\n{}\n", diagram(), table()),
        "lifecycle",
    );
}

const fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "queued",
        Phase::Live => "running",
        Phase::Lapsed => "lapsed",
        Phase::Waiting => "waiting",
        Phase::Lost => "lost",
        Phase::Ended => "ended",
    }
}

/// A stop that finds no live holder ends the run at once, so only a holder's run is ever stopping.
fn is_possible(phase: Phase, flag: Flag) -> bool {
    flag != Flag::Stopping || matches!(phase, Phase::Live | Phase::Lapsed)
}

fn diagram() -> String {
    let mut edges: BTreeMap<(Phase, &str), BTreeSet<String>> = BTreeMap::new();
    for case in &CASES {
        for phase in Phase::ALL {
            for flag in Flag::ALL.into_iter().filter(|flag| is_possible(phase, *flag)) {
                let (run, command, Ok(change)) = cell(case, phase, flag) else {
                    continue;
                };
                if Phase::of(&change.run, NOW) == Phase::of(&run, NOW) {
                    continue;
                }
                let to = match Phase::of(&change.run, NOW) {
                    Phase::Ended => change.run.status.as_str(),
                    after => name(after),
                };
                let label = match change.run.reason {
                    Some(reason) if reason != Reason::Stopped => format!("{} ({})", kind(&command), reason.as_str()),
                    _ => kind(&command).to_owned(),
                };
                edges.entry((phase, to)).or_default().insert(label);
            }
        }
    }
    let mut lines = String::from("```mermaid\nstateDiagram-v2\n    [*] --> queued\n");
    lines.push_str("    running --> lapsed: the lease runs out\n");
    for ((from, to), labels) in edges {
        let labels: Vec<String> = labels.into_iter().collect();
        let _ = writeln!(lines, "    {} --> {to}: {}", name(from), labels.join(", "));
    }
    for status in [Status::Completed, Status::Incomplete, Status::Failed, Status::Cancelled] {
        let _ = writeln!(lines, "    {} --> [*]", status.as_str());
    }
    lines + "```\n"
}

fn table() -> String {
    let mut lines = String::from("| command |");
    for phase in Phase::ALL {
        let _ = write!(lines, " {} |", name(phase));
    }
    lines.push_str("\n| --- |");
    lines.push_str(&" --- |".repeat(Phase::ALL.len()));
    lines.push('\n');
    for case in &CASES {
        let plain = row(case, Flag::None);
        let _ = writeln!(lines, "| {} | {} |", case.name, plain.join(" | "));
        // What a situation (its name has a comma) comes to under a flag follows from these.
        for flag in Flag::ALL.into_iter().filter(|_| !case.name.contains(',')) {
            let flagged = row(case, flag);
            if flagged
                .iter()
                .zip(&plain)
                .any(|(with, without)| with != "·" && with != without)
            {
                let _ = writeln!(lines, "| {}, {} | {} |", case.name, flag.as_str(), flagged.join(" | "));
            }
        }
    }
    lines
}

fn row(case: &Case, flag: Flag) -> Vec<String> {
    let cells = Phase::ALL.map(|phase| {
        if !is_possible(phase, flag) && phase != Phase::Ended {
            return "·".to_owned();
        }
        let (run, _, result) = cell(case, phase, flag);
        for_people(&told(&run, &result))
    });
    cells.into()
}

fn for_people(told: &str) -> String {
    if let Some(refusal) = told.strip_prefix('!') {
        return format!("refused: `{refusal}`");
    }
    if told == "=" {
        return "–".to_owned();
    }
    let (told, dispatch) = match told.strip_suffix(" > dispatch") {
        Some(told) => (told, ", dispatch"),
        None => (told, ""),
    };
    let (status, logged) = told.split_once(' ').unwrap_or((told, ""));
    let (status, reason) = status.split_once(':').unwrap_or((status, ""));
    let event = match logged {
        "" => String::new(),
        "claimed" | "parked" | "lost" | "paused" | "resumed" => format!(", `run.{logged}`"),
        "stop" => ", `stop.requested`".to_owned(),
        "answer" => ", `answer.recorded`".to_owned(),
        "end" if reason.is_empty() => String::new(),
        "end" => format!(": `{reason}`"),
        logged => format!(", `{logged}`"),
    };
    format!("**{status}**{event}{dispatch}")
}
