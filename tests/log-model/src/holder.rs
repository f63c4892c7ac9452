//! One holder of the run. It is known by its epoch: a process that claims twice is two holders.

use crate::log::{Epoch, Event, Log, Page, Seq, Step, Writer};

pub const MAX_STEPS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Has the row; hasn't read the log.
    Reading,
    /// Has folded the log; its `run.claimed` is not known to be in it.
    Claiming,
    Ready,
    /// Writes nothing more. What it sent before may still arrive.
    Out(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    NewerEpoch,
    RunEnded,
    OwnLoss,
    LeaseLost,
    Done,
}

/// A step's body in this holder's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    None,
    /// `started` is in the log. The process may freeze here for any time.
    Due,
    /// It began, and its result may be there at any moment.
    Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub epoch: Epoch,
    pub phase: Phase,
    /// Up to where it knows the log.
    pub tail: Seq,
    /// What it knows from the log.
    pub stop: bool,
    pub committed: [bool; MAX_STEPS],
    pub bodies: [Body; MAX_STEPS],
    /// Pages whose answer it waits for. The second place is used only without rule 4.
    pub sent: [Option<Page>; 2],
    /// A copy that it gave up waiting for, still on its way.
    pub late: Option<Page>,
    pub repeated: bool,
}

impl Holder {
    pub fn new(epoch: Epoch) -> Holder {
        Holder {
            epoch,
            phase: Phase::Reading,
            tail: 0,
            stop: false,
            committed: [false; MAX_STEPS],
            bodies: [Body::None; MAX_STEPS],
            sent: [None; 2],
            late: None,
            repeated: false,
        }
    }

    pub fn out(&self) -> bool {
        matches!(self.phase, Phase::Out(_))
    }

    /// Forgets all but what is on its way: nothing else of it matters any more.
    pub fn leave(&mut self, why: Why) {
        let Holder { epoch, sent, late, .. } = *self;
        *self = Holder {
            phase: Phase::Out(why),
            sent,
            late,
            repeated: true,
            ..Holder::new(epoch)
        };
    }

    pub fn waits_for_an_answer(&self) -> bool {
        self.sent[0].is_some()
    }

    pub fn has_body_in_hand(&self) -> bool {
        self.bodies.iter().any(|body| *body != Body::None)
    }

    pub fn committed_all(&self, steps: usize) -> bool {
        self.committed[..steps].iter().all(|committed| *committed)
    }

    /// Reads from its tail to the log's end.
    pub fn fold(&mut self, log: &Log) {
        for event in log.pages_after(self.tail).flat_map(Page::events) {
            match event {
                Event::StopRequested => self.stop = true,
                Event::Committed(step) => self.committed[usize::from(step)] = true,
                // A step that another epoch started and didn't commit is run again.
                Event::Started(_) | Event::Claimed | Event::HandedOff | Event::Lost | Event::Ended(_) => {}
            }
        }
        self.tail = log.tail();
    }

    fn next_place(&self) -> Seq {
        self.sent.iter().flatten().map(Page::last).max().unwrap_or(self.tail) + 1
    }

    pub fn page(&self, event: Event, rider: Option<Event>) -> Page {
        Page {
            first: self.next_place(),
            epoch: self.epoch,
            writer: Writer::Holder,
            event,
            rider,
        }
    }

    fn on_its_way(&self, event: Event) -> bool {
        self.sent.iter().flatten().any(|page| page.has(event))
    }

    /// Steps start in their order, and a second one may start while the first is in hand.
    fn next_start(&self, steps: usize) -> Option<Event> {
        (0..steps)
            .filter(|step| self.bodies[*step] == Body::None && !self.committed[*step] && !self.stop)
            .map(|step| Event::Started(step as Step))
            .find(|start| !self.on_its_way(*start))
    }

    /// The pages that it could send now.
    pub fn pages_to_send(&self, steps: usize) -> Vec<Page> {
        let start = self.next_start(steps);
        let mut pages: Vec<Page> = start.map(|start| self.page(start, None)).into_iter().collect();
        for step in 0..steps {
            let commit = Event::Committed(step as Step);
            if self.bodies[step] != Body::Begun || self.on_its_way(commit) {
                continue;
            }
            pages.push(self.page(commit, None));
            if start.is_some() {
                pages.push(self.page(commit, start));
            }
        }
        pages
    }

    /// Its page is in the log: now, or since an earlier copy.
    pub fn page_landed(&mut self, page: Page) {
        self.tail = self.tail.max(page.last());
        for event in page.events() {
            match event {
                Event::Claimed => self.phase = Phase::Ready,
                Event::Started(step) => self.bodies[usize::from(step)] = Body::Due,
                Event::Committed(step) => {
                    self.bodies[usize::from(step)] = Body::None;
                    self.committed[usize::from(step)] = true;
                }
                Event::HandedOff | Event::StopRequested | Event::Lost | Event::Ended(_) => {}
            }
        }
    }

    /// The same page behind the tail it knows now: results stay, a start that is now forbidden goes.
    pub fn rebuild(&self, page: Page) -> Option<Page> {
        let mut stays = page.events().filter(|event| match event {
            Event::Started(step) => !self.stop && !self.committed[usize::from(*step)],
            _ => true,
        });
        let event = stays.next()?;
        Some(self.page(event, stays.next()))
    }
}
