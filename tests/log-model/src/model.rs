//! The world of the model: a row, a log, the holders, and what is on its way between them.

use crate::holder::{Body, Holder, Phase, Why};
use crate::log::{Epoch, Log, Page, Seq, Step};
use crate::properties;
use crate::row::Row;
use crate::rules::Rules;
use crate::writes::row_half;
use stateright::{Model, Property};

/// The most holders that any exploration uses.
pub const MAX_HOLDERS: usize = 3;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub holders: usize,
    pub steps: usize,
    pub seqs: Seq,
    /// Keep late copies whose place is taken. The table can only refuse them, so that they change nothing and make
    /// the exploration many times bigger: one exploration does it, to show just that.
    pub keep_refused_copies: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct LogModel {
    pub rules: Rules,
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub row: Row,
    pub log: Log,
    /// By epoch: the holder of epoch 1 is the first.
    pub holders: [Option<Holder>; MAX_HOLDERS],
    /// Only without rule 2.
    pub halves: Option<Halves>,
}

/// A change of the row and its page, written apart because there is no transaction around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Halves {
    pub read: Row,
    pub becomes: Row,
    pub page: Page,
    pub page_landed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Claim,
    Fold(Epoch),
    Send(Epoch, Page),
    /// A sent page reaches the table, and the table's answer reaches the holder.
    Answer(Epoch, Page),
    /// No answer came. The first copy may still be on its way when the second one leaves.
    Repeat(Epoch),
    /// The copy that nobody waits for reaches the table.
    LateCopy(Epoch),
    BodyBegins(Epoch, Step),
    LogTheStop(Epoch),
    HandOff(Epoch),
    Finish(Epoch),
    Lapse,
    LateBeat,
    Stop,
    StopUnlogged,
    Sweep,
    /// The two halves of a transaction that isn't one.
    PageHalf,
    RowHalf,
}

impl Model for LogModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            row: Row::QUEUED,
            log: Log::default(),
            holders: [None; MAX_HOLDERS],
            halves: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if usize::from(state.row.epoch) < self.bounds.holders {
            actions.push(Action::Claim);
        }
        for holder in state.holders.iter().flatten() {
            self.holder_actions(state, holder, actions);
        }
        actions.extend([
            Action::Lapse,
            Action::LateBeat,
            Action::Stop,
            Action::StopUnlogged,
            Action::Sweep,
        ]);
        if let Some(halves) = state.halves {
            actions.push(if halves.page_landed {
                Action::RowHalf
            } else {
                Action::PageHalf
            });
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        match action {
            Action::Claim => {
                state.row = state.row.claim()?;
                state.holders[place(state.row.epoch)] = Some(Holder::new(state.row.epoch));
            }
            Action::Lapse => state.row = state.row.lapse()?,
            Action::LateBeat => state.row = state.row.late_beat()?,
            Action::StopUnlogged => state.row = state.row.stop_unlogged()?,
            Action::Stop => self.control(&mut state, before.row.stop()?)?,
            Action::Sweep => self.control(&mut state, before.row.sweep()?)?,
            Action::PageHalf => self.page_half(&mut state),
            Action::RowHalf => row_half(&mut state),
            Action::Fold(epoch) => self.fold(&mut state, epoch),
            Action::Send(epoch, page) => {
                let free = state.holder(epoch).sent.iter_mut().find(|sent| sent.is_none())?;
                *free = Some(page);
            }
            Action::Answer(epoch, page) => self.answer(&mut state, epoch, page),
            Action::Repeat(epoch) => {
                let holder = state.holder(epoch);
                holder.late = holder.sent[0];
                holder.repeated = true;
            }
            Action::LateCopy(epoch) => {
                let page = state.holder(epoch).late.take()?;
                self.put(&mut state.log, page);
            }
            Action::BodyBegins(epoch, step) => state.holder(epoch).bodies[usize::from(step)] = Body::Begun,
            Action::LogTheStop(epoch) => {
                let change = before.row.log_the_stop()?;
                if self.holder_transaction(&mut state, epoch, change)? {
                    let log = state.log;
                    state.holder(epoch).fold(&log);
                }
            }
            Action::HandOff(epoch) => {
                let change = before.row.hand_off()?;
                if self.holder_transaction(&mut state, epoch, change)? {
                    state.holder(epoch).leave(Why::Done);
                }
            }
            Action::Finish(epoch) => {
                let change = before.row.finish(state.holder(epoch).stop);
                if self.holder_transaction(&mut state, epoch, change)? {
                    state.holder(epoch).leave(Why::Done);
                }
            }
        }
        if self.rules.conditional_puts && !self.bounds.keep_refused_copies {
            state.forget_refused_copies();
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl LogModel {
    fn holder_actions(&self, state: &State, holder: &Holder, actions: &mut Vec<Action>) {
        let epoch = holder.epoch;
        actions.extend(holder.sent.iter().flatten().map(|page| Action::Answer(epoch, *page)));
        if holder.late.is_some() {
            actions.push(Action::LateCopy(epoch));
        }
        if holder.waits_for_an_answer() && !holder.repeated {
            actions.push(Action::Repeat(epoch));
        }
        if holder.phase == Phase::Reading {
            actions.push(Action::Fold(epoch));
        }
        if holder.phase != Phase::Ready {
            return;
        }
        for step in 0..self.bounds.steps {
            if holder.bodies[step] == Body::Due {
                actions.push(Action::BodyBegins(epoch, step as Step));
            }
        }
        if !holder.waits_for_an_answer() || (!self.rules.one_in_flight && holder.sent[1].is_none()) {
            let pages = holder.pages_to_send(self.bounds.steps);
            actions.extend(
                pages
                    .into_iter()
                    .filter(|page| self.fits(*page))
                    .map(|page| Action::Send(epoch, page)),
            );
        }
        if !holder.waits_for_an_answer() {
            actions.push(Action::LogTheStop(epoch));
            if !holder.has_body_in_hand() {
                actions.push(Action::HandOff(epoch));
                if holder.committed_all(self.bounds.steps) || holder.stop || state.row.stopping {
                    actions.push(Action::Finish(epoch));
                }
            }
        }
    }
}

fn place(epoch: Epoch) -> usize {
    usize::from(epoch - 1)
}

impl State {
    /// Actions name only holders that exist.
    pub(crate) fn holder(&mut self, epoch: Epoch) -> &mut Holder {
        self.holders[place(epoch)]
            .as_mut()
            .expect("a holder is made by its claim")
    }

    fn forget_refused_copies(&mut self) {
        for holder in self.holders.iter_mut().flatten() {
            holder.late = holder.late.filter(|copy| self.log.at(copy.first).is_none());
        }
    }
}
