//! The table as it should be, written by hand, against the table as it is.

use std::collections::BTreeSet;

use super::*;

/// Which arm of [`Command`] it is; a new one breaks this match, and then the test that goes through [`KINDS`].
pub fn kind(command: &Command) -> &'static str {
    match command {
        Command::Claim(_) => "claim",
        Command::Beat(_) => "beat",
        Command::HandOff { .. } => "hand off",
        Command::Park { .. } => "park",
        Command::Finish { .. } => "finish",
        Command::Answer { .. } => "answer",
        Command::Pause => "pause",
        Command::Resume { .. } => "resume",
        Command::Stop { .. } => "stop",
        Command::Due { .. } => "due",
        Command::DispatchFailed { .. } => "dispatch failed",
        Command::DeclareLapsed => "declare lapsed",
    }
}

pub const KINDS: [&str; 12] = [
    "claim",
    "beat",
    "hand off",
    "park",
    "finish",
    "answer",
    "pause",
    "resume",
    "stop",
    "due",
    "dispatch failed",
    "declare lapsed",
];

/// A command in a situation: what a row of the table speaks of.
pub struct Case {
    pub name: &'static str,
    pub command: fn() -> Command,
    pub situation: fn(&mut Run),
}

const fn case(name: &'static str, command: fn() -> Command) -> Case {
    Case {
        name,
        command,
        situation: |_| {},
    }
}

const fn case_when(name: &'static str, command: fn() -> Command, situation: fn(&mut Run)) -> Case {
    Case {
        name,
        command,
        situation,
    }
}

fn time_is_up(run: &mut Run) {
    run.ends_at = NOW;
}

/// "me" is the token of the run's last claim.
pub const CASES: [Case; 37] = [
    case("claim", || claim_as("other")),
    case("claim, the holder's own again", || claim_as("me")),
    case("claim by an old dispatch", || {
        let Command::Claim(claim) = claim_as("other") else {
            unreachable!()
        };
        Command::Claim(Claim {
            expected_epoch: Some(1),
            ..claim
        })
    }),
    case_when("claim, time is up", || claim_as("other"), time_is_up),
    case_when(
        "claim, third crash in a row",
        || claim_as("other"),
        |run| run.counters.crashes_in_a_row = 2,
    ),
    case("beat", || beat_as("me")),
    case("beat, superseded", || beat_as("old")),
    case("hand off", || hand_off_as("me", true)),
    case_when(
        "hand off, third without progress",
        || hand_off_as("me", false),
        |run| run.counters.stalled = 2,
    ),
    case_when(
        "hand off, 500th chunk",
        || hand_off_as("me", true),
        |run| run.counters.chunks = 500,
    ),
    case_when("hand off, time is up", || hand_off_as("me", true), time_is_up),
    case("hand off, superseded", || hand_off_as("old", true)),
    case("park", || park_as("me", Some(NOW + secs(600)))),
    case("park for an answer", || park_as("me", None)),
    case("park, superseded", || park_as("old", None)),
    case("finish, completed", || finish_as("me", None)),
    case("finish, steps failed", || finish_as("me", Some(Reason::StepsFailed))),
    case("finish, agent's error", || finish_as("me", Some(Reason::AgentError))),
    case("finish, superseded", || finish_as("old", None)),
    case("answer", || Command::Answer {
        awaited: false,
        timing: TIMING,
    }),
    case("answer that is waited for", || Command::Answer {
        awaited: true,
        timing: TIMING,
    }),
    case("pause", || Command::Pause),
    case("resume", || RESUME),
    case("stop", || STOP),
    case("stop by force", || Command::Stop { force: true }),
    case("due", || due(0)),
    case_when("due, too early", || due(0), |run| run.due_at = Some(NOW + secs(1))),
    case_when("due, time is up", || due(0), time_is_up),
    case_when(
        "due, no claim for 2 hours",
        || due(0),
        |run| run.dispatch.first_at = Some(NOW - secs(7200)),
    ),
    case_when(
        "due, third crash in a row",
        || due(0),
        |run| run.counters.crashes_in_a_row = 2,
    ),
    case_when(
        "due, third crash, but a step since",
        || due(1),
        |run| run.counters.crashes_in_a_row = 2,
    ),
    case_when("due, 25th crash", || due(1), |run| run.counters.crashes = 24),
    case_when("due, inline", || due(0), |run| run.executor = Executor::Inline),
    case_when("due, external", || due(0), |run| run.executor = Executor::External),
    case("dispatch failed", || Command::DispatchFailed {
        epoch: 2,
        stage: DispatchStage::Refused,
        error: "throttled".into(),
    }),
    case("dispatch failed, an old one", || Command::DispatchFailed {
        epoch: 1,
        stage: DispatchStage::Refused,
        error: "throttled".into(),
    }),
    case("declare lapsed", || Command::DeclareLapsed),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    None,
    Paused,
    Stopping,
    Blocked,
}

impl Flag {
    pub const ALL: [Flag; 4] = [Flag::None, Flag::Paused, Flag::Stopping, Flag::Blocked];

    pub const fn as_str(self) -> &'static str {
        match self {
            Flag::None => "no flag",
            Flag::Paused => "paused",
            Flag::Stopping => "stopping",
            Flag::Blocked => "blocked",
        }
    }
}

/// A background run of epoch 2 in this phase at `NOW`.
pub fn run_in(phase: Phase, flag: Flag) -> Run {
    let mut run = accepted(Executor::Background);
    run.created_at = NOW - secs(3600);
    run.epoch = 2;
    run.counters.chunks = 2;
    run.last_sign_of_life = Some(NOW - secs(40));
    run.due_at = Some(NOW);
    run.status = match phase {
        Phase::Queued => Status::Queued,
        Phase::Live | Phase::Lapsed => Status::Running,
        Phase::Waiting => Status::Waiting,
        Phase::Lost => Status::Lost,
        Phase::Ended => Status::Completed,
    };
    match phase {
        Phase::Live => run.lease_expires_at = Some(NOW + secs(20)),
        Phase::Lapsed => run.lease_expires_at = Some(NOW - secs(10)),
        Phase::Queued | Phase::Waiting | Phase::Lost | Phase::Ended => {}
    }
    match phase {
        Phase::Live | Phase::Lapsed | Phase::Ended => run.claim_token = Some(token("me")),
        Phase::Queued | Phase::Waiting | Phase::Lost => {}
    }
    match flag {
        Flag::None => {}
        Flag::Paused => run.paused = true,
        Flag::Stopping => {
            run.stopping = true;
            run.stop_requested_at = Some(NOW - secs(5));
        }
        Flag::Blocked => run.blocked = true,
    }
    if phase == Phase::Ended {
        run.due_at = None;
        run.ended_at = Some(NOW - secs(40));
        if flag == Flag::Stopping {
            run.status = Status::Cancelled;
            run.reason = Some(Reason::Stopped);
        }
    }
    run
}

/// What came of it, in one word or a few: `!` a refusal, `=` nothing to do, else the status, what is logged and whether a
/// dispatch follows.
pub fn told(run: &Run, result: &Result<Change, Refusal>) -> String {
    let change = match result {
        Err(refusal) => return format!("!{}", refusal.code()),
        Ok(change) if change.run == *run && change.log == Log::Nothing && change.then == Then::Nothing => {
            return "=".into();
        }
        Ok(change) => change,
    };
    let mut told = change.run.status.as_str().to_owned();
    let logged = match change.log {
        Log::Nothing => "",
        Log::Claimed => " claimed",
        Log::AutoContinue(_) => " auto_continue",
        Log::Parked(_) => " parked",
        Log::Paused => " paused",
        Log::Resumed => " resumed",
        Log::StopRequested => " stop",
        Log::AnswerRecorded => " answer",
        Log::Lost { .. } => " lost",
        Log::Ended(None) => " end",
        Log::Ended(Some(reason)) => {
            told.push(':');
            told.push_str(reason.as_str());
            " end"
        }
    };
    told.push_str(logged);
    if change.then == Then::Dispatch {
        told.push_str(" > dispatch");
    }
    told
}

pub fn cell(case: &Case, phase: Phase, flag: Flag) -> (Run, Command, Result<Change, Refusal>) {
    let mut run = run_in(phase, flag);
    (case.situation)(&mut run);
    let command = (case.command)();
    let result = apply(&run, &command, NOW);
    (run, command, result)
}

/// The table, by hand. A line with a flag (`claim +paused`) stands for that flag, the line without for every flag that has
/// no line of its own. Columns: queued, running, lapsed, waiting, lost, ended.
const TABLE: &str = include_str!("table.txt");

#[track_caller]
fn check(case: &Case, phase: Phase, flag: Flag, expected: &str) {
    let (run, _, result) = cell(case, phase, flag);
    let told = told(&run, &result);
    assert_eq!(told, expected, "{} +{} of {phase:?}", case.name, flag.as_str());
    assert_eq!(Phase::of(&run_in(phase, flag), NOW), phase);
}

#[test]
fn every_cell() {
    let lines: Vec<(&str, Vec<&str>)> = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut cells = line.split('|').map(str::trim);
            (cells.next().unwrap(), cells.collect())
        })
        .collect();
    let mut used = vec![0; lines.len()];
    for case in &CASES {
        for flag in Flag::ALL {
            let flagged = format!("{} +{}", case.name, flag.as_str());
            let at = lines
                .iter()
                .position(|(name, _)| *name == flagged)
                .or_else(|| lines.iter().position(|(name, _)| *name == case.name))
                .unwrap_or_else(|| panic!("table.txt has no line for {flagged}"));
            used[at] += 1;
            for (phase, expected) in Phase::ALL.into_iter().zip(&lines[at].1) {
                check(case, phase, flag, expected);
            }
            assert_eq!(lines[at].1.len(), Phase::ALL.len(), "{flagged}");
        }
    }
    for ((name, _), used) in lines.iter().zip(used) {
        assert!(used > 0, "table.txt: {name:?} speaks of no case");
    }
}

#[test]
fn no_edge_of_the_table_is_left_out() {
    let taken: BTreeSet<(Phase, &str)> = CASES
        .iter()
        .flat_map(|case| Phase::ALL.map(|phase| cell(case, phase, Flag::None)))
        .map(|(run, command, _)| (Phase::of(&run, NOW), kind(&command)))
        .collect();
    let all: BTreeSet<(Phase, &str)> = Phase::ALL
        .into_iter()
        .flat_map(|phase| KINDS.map(|kind| (phase, kind)))
        .collect();
    assert_eq!(taken, all);
}

#[test]
fn what_changes_nothing_says_nothing_and_what_ends_frees_everything() {
    for case in &CASES {
        for phase in Phase::ALL {
            for flag in Flag::ALL {
                let (before, _, result) = cell(case, phase, flag);
                let Ok(Change { run, log, then }) = result else {
                    continue;
                };
                let ended = matches!(log, Log::Ended(_));
                let name = format!("{} +{} of {phase:?}", case.name, flag.as_str());
                assert_eq!(
                    ended,
                    run.status.is_terminal() && !before.status.is_terminal(),
                    "{name}"
                );
                if ended {
                    assert_eq!(
                        (run.due_at, run.lease_expires_at, run.holder),
                        (None, None, None),
                        "{name}"
                    );
                    assert!(run.ended_at.is_some() && run.expires_at.is_some(), "{name}");
                    assert_eq!(then, Then::Nothing, "{name}");
                }
            }
        }
    }
}
