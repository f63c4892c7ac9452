//! What must hold in every state, and what must be reached in some. All in terms of the log: what a reader can see.

use crate::holder::{Body, Holder, Phase, Why};
use crate::log::{Epoch, Event, Log, Outcome, Step, Writer};
use crate::model::{LogModel, State};
use stateright::Property;

pub const G1_ONE_HOLDER: &str =
    "G1 one holder: no page of an older epoch after a run.claimed, one run.claimed an epoch";
pub const G1_CLAIMED_FIRST: &str = "G1 one holder: no body and no page of a holder before its run.claimed";
pub const G2_ONE_LOG: &str = "G2 one log: no gap, no overlap, nothing rewritten";
pub const G3_ONE_ENDING: &str = "G3 one ending: one terminal event, and nothing after it";
pub const G3_ROW_AGREES: &str = "G3 one ending: the row is ended when the log is, and only then";
pub const G4_COMMIT_ONCE: &str = "G4 commit once: no second commit of a step, no start after its commit";
pub const G6_TRUTH: &str = "G6 truth: completed only when every step is committed, and never after a stop";
pub const G7_STOP: &str = "G7 stop: no start after stop.requested";
pub const G7_STOP_KEPT: &str = "G7 stop: a stop on the row is in the log, or marked as not yet there";
pub const LOST_IS_FINAL: &str = "lost is final: no page of a holder after the run.lost of its epoch";

pub const COMPLETES_AFTER_TAKEOVER: &str = "a run completes after a takeover";
pub const THREE_HOLDERS: &str = "three holders write one log";
pub const LATE_COPY_REFUSED: &str = "a late copy comes to a place that another page has";

pub fn all() -> Vec<Property<LogModel>> {
    vec![
        always(G1_ONE_HOLDER, |_, state| one_holder(&state.log)),
        always(G1_CLAIMED_FIRST, |_, state| claimed_first(state)),
        always(G2_ONE_LOG, |_, state| one_log(&state.log)),
        always(G3_ONE_ENDING, |_, state| one_ending(&state.log)),
        always(G3_ROW_AGREES, |_, state| {
            between_writes(state) || state.row.ended() == state.log.ended()
        }),
        always(G4_COMMIT_ONCE, |_, state| commit_once(&state.log)),
        always(G6_TRUTH, |model, state| truth(&state.log, model.bounds.steps)),
        always(G7_STOP, |_, state| stop(&state.log)),
        always(G7_STOP_KEPT, |_, state| {
            between_writes(state) || state.row.stopping == (state.log.stop_requested() || state.row.unlogged)
        }),
        always(LOST_IS_FINAL, |_, state| lost_is_final(&state.log)),
        sometimes("a run completes", |_, state| completed(&state.log)),
        sometimes(COMPLETES_AFTER_TAKEOVER, |_, state| {
            completed(&state.log) && state.log.has(1, Event::Claimed) && state.log.has(2, Event::Claimed)
        }),
        sometimes("a lost run is taken over", |_, state| {
            state.log.has(1, Event::Lost) && state.log.has(2, Event::Claimed)
        }),
        sometimes("a run is handed off and taken up", |_, state| {
            state.log.has(1, Event::HandedOff) && state.log.has(2, Event::Claimed)
        }),
        sometimes(THREE_HOLDERS, |_, state| state.log.has(3, Event::Claimed)),
        sometimes("a holder meets a newer epoch", |_, state| {
            someone_is(state, Phase::Out(Why::NewerEpoch))
        }),
        sometimes("a holder meets the end", |_, state| {
            someone_is(state, Phase::Out(Why::RunEnded))
        }),
        sometimes("a holder meets its own loss", |_, state| {
            someone_is(state, Phase::Out(Why::OwnLoss))
        }),
        sometimes("a holder finds its lease lost", |_, state| {
            someone_is(state, Phase::Out(Why::LeaseLost))
        }),
        sometimes("a holder meets a stop by collision", |_, state| {
            holders(state).any(met_a_stop(&state.log))
        }),
        sometimes("a stopped holder still commits what was in hand", |_, state| {
            commit_after_stop(&state.log)
        }),
        sometimes("a stop that only the row had is logged by the holder", |_, state| {
            state
                .log
                .pages()
                .any(|page| page.event == Event::StopRequested && page.writer == Writer::Holder)
        }),
        sometimes("a page landed and its holder doesn't know", |_, state| {
            holders(state).any(|holder| {
                holder
                    .sent
                    .iter()
                    .flatten()
                    .any(|page| state.log.at(page.first) == Some(*page))
            })
        }),
        sometimes(LATE_COPY_REFUSED, |_, state| {
            holders(state)
                .filter_map(|holder| holder.late)
                .any(|late| state.log.at(late.first).is_some_and(|it| it != late))
        }),
        sometimes(
            "an old holder's page lands where the new one wanted its run.claimed",
            |_, state| {
                holders(state)
                    .filter(|holder| holder.phase == Phase::Claiming)
                    .any(|holder| beaten(&state.log, holder))
            },
        ),
    ]
}

fn always(name: &'static str, condition: fn(&LogModel, &State) -> bool) -> Property<LogModel> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: fn(&LogModel, &State) -> bool) -> Property<LogModel> {
    Property::sometimes(name, condition)
}

/// Row and log can't agree while one half of a write is still to come; whether it comes is what is judged.
fn between_writes(state: &State) -> bool {
    state.halves.is_some()
}

fn one_holder(log: &Log) -> bool {
    let mut newest = 0;
    log.events().all(|(epoch, event)| {
        if event == Event::Claimed {
            let rises = epoch > newest;
            newest = epoch;
            return rises;
        }
        epoch >= newest
    })
}

fn claimed_first(state: &State) -> bool {
    let claimed = |epoch: Epoch| state.log.has(epoch, Event::Claimed);
    let bodies = holders(state).all(|holder| !holder.bodies.contains(&Body::Begun) || claimed(holder.epoch));
    let mut claims = [false; crate::model::MAX_HOLDERS + 1];
    let mut pages = state.log.pages().filter(|page| page.writer == Writer::Holder);
    bodies
        && pages.all(|page| {
            claims[usize::from(page.epoch)] |= page.event == Event::Claimed;
            claims[usize::from(page.epoch)]
        })
}

fn one_log(log: &Log) -> bool {
    let mut end = 0;
    let joined = log.pages().all(|page| {
        let joins = page.first == end + 1;
        end = page.last();
        joins
    });
    joined && !log.rewritten
}

fn one_ending(log: &Log) -> bool {
    log.events()
        .take_while(|(_, event)| !matches!(event, Event::Ended(_)))
        .count()
        + 1
        >= log.events().count()
}

fn commit_once(log: &Log) -> bool {
    (0..crate::holder::MAX_STEPS).all(|step| {
        let step = step as Step;
        let rest = log
            .events()
            .skip_while(|(_, event)| *event != Event::Committed(step))
            .skip(1);
        rest.map(|(_, event)| event)
            .all(|event| event != Event::Committed(step) && event != Event::Started(step))
    })
}

fn truth(log: &Log, steps: usize) -> bool {
    let committed = |step| log.events().any(|(_, event)| event == Event::Committed(step as Step));
    !completed(log) || (!log.stop_requested() && (0..steps).all(committed))
}

fn after_stop(log: &Log) -> impl Iterator<Item = Event> + '_ {
    log.events()
        .map(|(_, event)| event)
        .skip_while(|event| *event != Event::StopRequested)
}

fn stop(log: &Log) -> bool {
    after_stop(log).all(|event| !matches!(event, Event::Started(_)))
}

fn commit_after_stop(log: &Log) -> bool {
    after_stop(log).any(|event| matches!(event, Event::Committed(_)))
}

fn lost_is_final(log: &Log) -> bool {
    let mut lost = 0;
    log.pages().all(|page| {
        let late = page.writer == Writer::Holder && page.epoch <= lost;
        if page.event == Event::Lost {
            lost = page.epoch;
        }
        !late
    })
}

fn completed(log: &Log) -> bool {
    log.events().any(|(_, event)| event == Event::Ended(Outcome::Completed))
}

fn holders(state: &State) -> impl Iterator<Item = &Holder> {
    state.holders.iter().flatten()
}

fn someone_is(state: &State, phase: Phase) -> bool {
    holders(state).any(|holder| holder.phase == phase)
}

/// It was claimed before the stop came, so it can't know from its first fold.
fn met_a_stop(log: &Log) -> impl Fn(&Holder) -> bool + '_ {
    |holder| {
        let by_control = log
            .pages()
            .any(|page| page.event == Event::StopRequested && page.writer == Writer::Control);
        let after_claim = after_stop(log).all(|event| event != Event::Claimed);
        holder.phase == Phase::Ready && holder.stop && by_control && after_claim
    }
}

fn beaten(log: &Log, claiming: &Holder) -> bool {
    let there = claiming.sent[0].and_then(|page| log.at(page.first));
    there.is_some_and(|page| page.writer == Writer::Holder && page.epoch < claiming.epoch)
}
