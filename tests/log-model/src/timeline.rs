//! A path through the model as a few lines that a person can read.

use crate::holder::{Holder, Phase, Why};
use crate::log::{Epoch, Page};
use crate::model::{Action, State};
use crate::row::Status;
use stateright::Path;
use std::fmt;

#[derive(Debug)]
pub struct Timeline {
    pub property: &'static str,
    pub lines: Vec<String>,
    log: Vec<String>,
}

impl Timeline {
    pub fn new(property: &'static str, path: Path<State, Action>) -> Timeline {
        let log = path
            .last_state()
            .log
            .pages()
            .map(|page| format!("{page} (epoch {})", page.epoch))
            .collect();
        let moments = path.into_vec();
        let lines = moments
            .windows(2)
            .filter_map(|pair| Some(line(&pair[0].0, pair[0].1?, &pair[1].0)))
            .collect();
        Timeline { property, lines, log }
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(f, "  {:>2}. {line}", number + 1)?;
        }
        writeln!(f, "  the log: {}", self.log.join(" | "))?;
        write!(f, "  broken:  {}", self.property)
    }
}

fn line(before: &State, action: Action, after: &State) -> String {
    match action {
        Action::Claim => format!("holder {} claims the row", after.row.epoch),
        Action::Fold(epoch) => format!(
            "holder {epoch} reads the log to its end and {}",
            then(before, after, epoch)
        ),
        Action::Send(epoch, page) => format!("holder {epoch} sends {page}"),
        Action::Answer(epoch, page) => answer(before, after, epoch, page),
        Action::Repeat(epoch) => format!("holder {epoch} gets no answer and sends that page again"),
        Action::LateCopy(epoch) => {
            let fate = if before.log == after.log { "is refused" } else { "lands" };
            let what = holder(before, epoch)
                .late
                .map(|page| page.to_string())
                .unwrap_or_default();
            format!("the first copy of holder {epoch}'s {what} comes late and {fate}")
        }
        Action::BodyBegins(epoch, step) => format!("holder {epoch} begins the body of step {step}"),
        Action::LogTheStop(epoch) => own_transaction(before, after, epoch, ", told by the row of a stop,"),
        Action::HandOff(epoch) | Action::Finish(epoch) => own_transaction(before, after, epoch, ""),
        Action::Lapse => format!("the lease of holder {} runs out", before.row.epoch),
        Action::LateBeat => format!("a late beat of holder {} renews its lease", before.row.epoch),
        Action::Stop => transaction(before, after, "a stop"),
        Action::StopUnlogged => "a stop that never gets the tail writes the row alone".to_owned(),
        Action::Sweep => transaction(before, after, "the sweep"),
        Action::PageHalf => match before.halves {
            Some(halves) if after.halves.is_some() => format!("the page alone: {} lands", halves.page),
            _ => "the page alone is refused".to_owned(),
        },
        Action::RowHalf => match before.row == after.row {
            true => "the row has changed since: its half of the write is refused".to_owned(),
            false => format!("the row alone is written: {}", status(after.row.status)),
        },
    }
}

fn answer(before: &State, after: &State, epoch: Epoch, page: Page) -> String {
    let what = format!("holder {epoch}'s {page}");
    match before.log.at(page.first) {
        None => format!("{what} lands"),
        Some(there) if before.log != after.log => format!("{what} overwrites {there}"),
        Some(there)
            if there == page
                && holder(after, epoch).tail >= page.last()
                && !holder(after, epoch).waits_for_an_answer() =>
        {
            format!("{what} had landed already: success")
        }
        Some(there) => format!(
            "{what} collides with {there}: holder {epoch} {}",
            then(before, after, epoch)
        ),
    }
}

/// What a holder does once it has read.
fn then(before: &State, after: &State, epoch: Epoch) -> String {
    let holder = holder(after, epoch);
    if let Phase::Out(why) = holder.phase {
        return format!("stops: {}", reason(why));
    }
    let seen = if holder.tail == 0 {
        "finds it empty".to_owned()
    } else {
        format!("goes on behind {}", holder.tail)
    };
    let sent_before = self::holder(before, epoch).sent;
    let sent = holder
        .sent
        .iter()
        .flatten()
        .find(|page| !sent_before.contains(&Some(**page)));
    match sent {
        Some(page) => format!("{seen}, sends {page}"),
        None => format!("{seen}, sends nothing"),
    }
}

fn own_transaction(before: &State, after: &State, epoch: Epoch, told: &str) -> String {
    if before.row == after.row && before.log == after.log && before.halves == after.halves {
        return format!("holder {epoch}{told} is refused and {}", then(before, after, epoch));
    }
    transaction(before, after, &format!("holder {epoch}{told}"))
}

fn transaction(before: &State, after: &State, who: &str) -> String {
    let written = after.log.pages().find(|page| before.log.at(page.first).is_none());
    match (written, after.halves) {
        (Some(page), _) => format!("{who} writes row and page: {page}"),
        (None, Some(halves)) => format!("{who} is to write {}, then the row", halves.page),
        (None, None) => format!("{who} is refused"),
    }
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::NewerEpoch => "a newer epoch is in the log",
        Why::RunEnded => "the run has ended",
        Why::OwnLoss => "its epoch was declared lost",
        Why::LeaseLost => "the row has another holder",
        Why::Done => "its work is done",
    }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Queued => "queued",
        Status::Running => "running",
        Status::Lost => "lost",
        Status::Ended => "ended",
    }
}

/// Actions name only holders that exist, before and after.
fn holder(state: &State, epoch: Epoch) -> &Holder {
    state.holders[usize::from(epoch - 1)]
        .as_ref()
        .expect("a holder is made by its claim")
}
