//! The event log as the table keeps it: one item a page, under the sequence number of its first event.

use std::fmt;

pub type Seq = u8;
pub type Epoch = u8;
pub type Step = u8;

/// The most that any exploration uses; `Bounds` says how much of it one exploration does use.
pub const MAX_SEQS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Claimed,
    Started(Step),
    Committed(Step),
    HandedOff,
    StopRequested,
    Lost,
    Ended(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Completed,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    Holder,
    Control,
}

/// One item of the table. Two events are enough to let a `started` ride behind the result before it.
///
/// Equal pages stand for equal write ids: a holder that keeps the rules never has two pages for one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    pub first: Seq,
    pub epoch: Epoch,
    pub writer: Writer,
    pub event: Event,
    pub rider: Option<Event>,
}

impl Page {
    pub fn last(&self) -> Seq {
        self.first + Seq::from(self.rider.is_some())
    }

    pub fn events(self) -> impl Iterator<Item = Event> {
        [Some(self.event), self.rider].into_iter().flatten()
    }

    pub fn has(self, event: Event) -> bool {
        self.events().any(|e| e == event)
    }

    pub fn ends_the_run(self) -> bool {
        self.events().any(|e| matches!(e, Event::Ended(_)))
    }
}

/// What the table says to a conditional put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Landed,
    /// Refused, and the page that is there is the very one: an earlier copy had landed.
    Own,
    Taken,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    pages: [Option<Page>; MAX_SEQS],
    /// A page that a reader may have seen was replaced by another. Never, as long as puts are conditional.
    pub rewritten: bool,
}

impl Log {
    /// A conditional put looks at its own key and at nothing else: the table knows neither gaps nor overlaps.
    pub fn put_if_absent(&mut self, page: Page) -> Put {
        match self.at(page.first) {
            None => {
                self.pages[usize::from(page.first - 1)] = Some(page);
                Put::Landed
            }
            Some(there) if there == page => Put::Own,
            Some(_) => Put::Taken,
        }
    }

    /// What a put without a condition would do. Only a broken variant writes like this.
    pub fn put_blindly(&mut self, page: Page) -> Put {
        self.rewritten |= self.at(page.first).is_some_and(|there| there != page);
        self.pages[usize::from(page.first - 1)] = Some(page);
        Put::Landed
    }

    pub fn at(&self, first: Seq) -> Option<Page> {
        self.pages[usize::from(first - 1)]
    }

    pub fn pages(&self) -> impl DoubleEndedIterator<Item = Page> + '_ {
        self.pages.iter().flatten().copied()
    }

    pub fn pages_after(&self, seq: Seq) -> impl Iterator<Item = Page> + '_ {
        self.pages().filter(move |page| page.first > seq)
    }

    /// Each event with the epoch of its page, in order.
    pub fn events(&self) -> impl Iterator<Item = (Epoch, Event)> + '_ {
        self.pages()
            .flat_map(|page| page.events().map(move |event| (page.epoch, event)))
    }

    pub fn has(&self, epoch: Epoch, event: Event) -> bool {
        self.events().any(|found| found == (epoch, event))
    }

    pub fn tail(&self) -> Seq {
        self.pages().next_back().map_or(0, |page| page.last())
    }

    pub fn ended(&self) -> bool {
        self.pages().any(Page::ends_the_run)
    }

    pub fn stop_requested(&self) -> bool {
        self.events().any(|(_, event)| event == Event::StopRequested)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Claimed => write!(f, "run.claimed"),
            Event::Started(step) => write!(f, "step.started {step}"),
            Event::Committed(step) => write!(f, "step.committed {step}"),
            Event::HandedOff => write!(f, "auto_continue"),
            Event::StopRequested => write!(f, "stop.requested"),
            Event::Lost => write!(f, "run.lost"),
            Event::Ended(Outcome::Completed) => write!(f, "run.completed"),
            Event::Ended(Outcome::Cancelled) => write!(f, "run.cancelled"),
        }
    }
}

/// Its events and its place; who wrote it is for the caller to say.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.event)?;
        if let Some(rider) = self.rider {
            write!(f, " + {rider}")?;
        }
        write!(f, " at {}", self.first)
    }
}
