//! How holders and control writers write: this is where the rules are.

use crate::holder::{Holder, Phase, Why};
use crate::log::{Epoch, Event, Log, Page, Put, Writer};
use crate::model::{Halves, LogModel, State};
use crate::row::Change;

impl LogModel {
    pub(crate) fn fits(&self, page: Page) -> bool {
        page.last() <= self.bounds.seqs
    }

    pub(crate) fn put(&self, log: &mut Log, page: Page) -> Put {
        if self.rules.conditional_puts {
            log.put_if_absent(page)
        } else {
            log.put_blindly(page)
        }
    }

    /// Rule 3, first half. The page goes to the place after what was folded, wherever the log ends by then.
    pub(crate) fn fold(&self, state: &mut State, epoch: Epoch) {
        let log = state.log;
        let holder = state.holder(epoch);
        if let Some(why) = self.fence(&log, holder) {
            return holder.leave(why);
        }
        holder.fold(&log);
        if !self.rules.claimed_comes_first {
            holder.phase = Phase::Ready;
            return;
        }
        holder.phase = Phase::Claiming;
        let page = holder.page(Event::Claimed, None);
        holder.sent[0] = self.fits(page).then_some(page);
    }

    pub(crate) fn answer(&self, state: &mut State, epoch: Epoch, page: Page) {
        let mut outcome = self.put(&mut state.log, page);
        if outcome == Put::Own && !self.rules.same_write_id {
            outcome = Put::Taken;
        }
        let holder = state.holder(epoch);
        let rest = holder.sent.into_iter().flatten().find(|sent| *sent != page);
        holder.sent = [rest, None];
        if holder.out() {
            return;
        }
        if outcome == Put::Taken {
            self.collided(state, epoch, Some(page));
        } else {
            holder.page_landed(page);
        }
    }

    /// Rule 5, and the second half of rule 3.
    fn collided(&self, state: &mut State, epoch: Epoch, page: Option<Page>) {
        let log = state.log;
        let holder = state.holder(epoch);
        if let Some(why) = self.fence(&log, holder) {
            return holder.leave(why);
        }
        let folds = match holder.phase {
            Phase::Claiming => self.rules.claim_folds_then_claims,
            _ => self.rules.collision_reads_on,
        };
        if folds {
            holder.fold(&log);
        } else {
            holder.tail = log.tail();
        }
        let Some(again) = page
            .and_then(|page| holder.rebuild(page))
            .filter(|again| self.fits(*again))
        else {
            return;
        };
        if let Some(free) = holder.sent.iter_mut().find(|sent| sent.is_none()) {
            *free = Some(again);
        }
    }

    /// Why what lies behind its tail forbids this holder to go on, if it does.
    fn fence(&self, log: &Log, holder: &Holder) -> Option<Why> {
        let mut unread = log.pages_after(holder.tail);
        unread.find_map(|page| {
            let lost = page.has(Event::Lost) && page.epoch == holder.epoch;
            if self.rules.tail_is_fence && page.ends_the_run() {
                Some(Why::RunEnded)
            } else if self.rules.tail_is_fence && page.epoch > holder.epoch {
                Some(Why::NewerEpoch)
            } else if self.rules.collision_reads_on && self.rules.lost_fences && lost {
                Some(Why::OwnLoss)
            } else {
                None
            }
        })
    }

    /// The holder's own transactions: like a control writer's, at the tail that the holder knows.
    /// True if it went through.
    pub(crate) fn holder_transaction(&self, state: &mut State, epoch: Epoch, change: Change) -> Option<bool> {
        if state.row.epoch != epoch || !state.row.running() {
            state.holder(epoch).leave(Why::LeaseLost);
            return Some(false);
        }
        let tail = state.holder(epoch).tail;
        if state.log.tail() != tail {
            self.collided(state, epoch, None);
            return Some(false);
        }
        self.transaction(state, Writer::Holder, change)?;
        Some(true)
    }

    pub(crate) fn control(&self, state: &mut State, change: Change) -> Option<()> {
        self.transaction(state, Writer::Control, change)
    }

    /// Rule 2. It names the row's version and the free place that it read, so its reading and its writing are one
    /// moment here. Without the rule they are three: what was read, then the page, then the row.
    fn transaction(&self, state: &mut State, writer: Writer, change: Change) -> Option<()> {
        let Change { row, event, rider } = change;
        let page = Page {
            first: state.log.tail() + 1,
            epoch: row.epoch,
            writer,
            event,
            rider,
        };
        let fenced = self.rules.tail_is_fence && state.log.ended();
        if fenced || !self.fits(page) || state.halves.is_some() {
            return None;
        }
        if self.rules.control_by_transaction {
            state.log.put_if_absent(page);
            state.row = row;
        } else {
            state.halves = Some(Halves {
                read: state.row,
                becomes: row,
                page,
                page_landed: false,
            });
        }
        Some(())
    }

    pub(crate) fn page_half(&self, state: &mut State) {
        let landed = state.halves.map(|halves| self.put(&mut state.log, halves.page)) == Some(Put::Landed);
        state.halves = state.halves.filter(|_| landed).map(|halves| Halves {
            page_landed: true,
            ..halves
        });
    }
}

/// The row's own rule still holds: a write names the version that was read, and is refused if there is another.
pub(crate) fn row_half(state: &mut State) {
    if let Some(halves) = state.halves.take()
        && state.row == halves.read
    {
        state.row = halves.becomes;
    }
}
