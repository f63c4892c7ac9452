//! The run's row, and the changes that are allowed on it.

use crate::log::{Epoch, Event, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Queued,
    Running,
    Lost,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub epoch: Epoch,
    pub status: Status,
    /// The lease ran out. There is no clock here: it may run out at any moment.
    pub lapsed: bool,
    pub stopping: bool,
    /// A stop was written on the row alone, and the log doesn't have it yet.
    pub unlogged: bool,
}

/// A change of the row, with the events that tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    pub row: Row,
    pub event: Event,
    pub rider: Option<Event>,
}

impl Row {
    pub const QUEUED: Row = Row {
        epoch: 0,
        status: Status::Queued,
        lapsed: false,
        stopping: false,
        unlogged: false,
    };

    pub fn running(self) -> bool {
        self.status == Status::Running
    }

    pub fn ended(self) -> bool {
        self.status == Status::Ended
    }

    /// Someone's lease is good.
    fn held(self) -> bool {
        self.running() && !self.lapsed
    }

    pub fn claim(self) -> Option<Row> {
        let free = !self.held() && !self.ended() && !self.stopping;
        free.then(|| Row {
            epoch: self.epoch + 1,
            status: Status::Running,
            lapsed: false,
            ..self
        })
    }

    pub fn lapse(self) -> Option<Row> {
        self.held().then_some(Row { lapsed: true, ..self })
    }

    /// A beat that comes late still finds the lease its own if nobody took it.
    pub fn late_beat(self) -> Option<Row> {
        (self.running() && self.lapsed).then_some(Row { lapsed: false, ..self })
    }

    /// A first stop tells the holder, if there is one. A second, or one that nobody could hear, ends the run.
    pub fn stop(self) -> Option<Change> {
        if self.ended() {
            return None;
        }
        if self.held() && !self.stopping {
            let row = Row { stopping: true, ..self };
            return Some(Change {
                row,
                event: Event::StopRequested,
                rider: None,
            });
        }
        Some(self.cancel())
    }

    /// What a stop does that lost the race for the tail too often.
    pub fn stop_unlogged(self) -> Option<Row> {
        (self.held() && !self.stopping).then_some(Row {
            stopping: true,
            unlogged: true,
            ..self
        })
    }

    /// The holder puts into the log what only the row said.
    pub fn log_the_stop(self) -> Option<Change> {
        let row = Row {
            unlogged: false,
            ..self
        };
        self.unlogged.then_some(Change {
            row,
            event: Event::StopRequested,
            rider: None,
        })
    }

    /// The sweep, at a lease that ran out.
    pub fn sweep(self) -> Option<Change> {
        if !self.running() || !self.lapsed {
            return None;
        }
        if self.stopping {
            return Some(self.cancel());
        }
        let row = Row {
            status: Status::Lost,
            lapsed: false,
            ..self
        };
        Some(Change {
            row,
            event: Event::Lost,
            rider: None,
        })
    }

    pub fn hand_off(self) -> Option<Change> {
        let row = Row {
            status: Status::Queued,
            lapsed: false,
            ..self
        };
        (!self.stopping).then_some(Change {
            row,
            event: Event::HandedOff,
            rider: None,
        })
    }

    /// The holder's end of the run, by what it read in the log and by what the row says.
    pub fn finish(self, stop_in_log: bool) -> Change {
        if stop_in_log {
            self.end(Outcome::Cancelled)
        } else if self.stopping {
            self.cancel()
        } else {
            self.end(Outcome::Completed)
        }
    }

    /// Ends the run as cancelled; a stop that the log doesn't have yet goes in first.
    fn cancel(self) -> Change {
        let cancelled = self.end(Outcome::Cancelled);
        if self.stopping && !self.unlogged {
            return cancelled;
        }
        let row = Row {
            stopping: true,
            unlogged: false,
            ..cancelled.row
        };
        Change {
            row,
            event: Event::StopRequested,
            rider: Some(cancelled.event),
        }
    }

    fn end(self, outcome: Outcome) -> Change {
        let row = Row {
            status: Status::Ended,
            lapsed: false,
            ..self
        };
        Change {
            row,
            event: Event::Ended(outcome),
            rider: None,
        }
    }
}
