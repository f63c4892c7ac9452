//! Following a run's log from a cursor. Data comes from the log only; a word inside the process may wake the reader sooner.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use outlast_core::{Owner, RunId, Status, Timestamp};
use outlast_store::{Store, WireEvent};
use tokio::sync::watch;

use crate::control::owned_run;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::seams::Clock;

/// While events come, and when they don't.
const FAST: Duration = Duration::from_millis(25);
const SLOW: Duration = Duration::from_secs(1);

/// Where a run's log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    pub last_seq: u64,
    /// It will not grow any more.
    pub ended: bool,
    /// The run waits, and until then nothing will follow.
    pub waits_until: Option<Timestamp>,
}

/// The end of the log of a run of this owner. Consistent; an unreadable page does not keep its readers from it.
pub async fn log_end(engine: &Arc<Engine>, owner: &Owner, id: &RunId) -> Result<LogEnd, EngineError> {
    // The row first: if it has ended, the log that is read after it holds the terminal event.
    let run = owned_run(engine, owner, id).await?;
    Ok(LogEnd {
        last_seq: engine.store.last_seq(id).await?,
        ended: run.status.is_terminal(),
        waits_until: run.due_at.filter(|_| run.status == Status::Waiting),
    })
}

/// One reader's place in one run's log.
pub struct Follower {
    store: Store,
    clock: Arc<dyn Clock>,
    run: RunId,
    /// The last seq that was handed out, or that the reader says it has seen.
    seen: u64,
    /// Where the page begins that holds the next event.
    page_from: u64,
    heard: watch::Receiver<u64>,
    wait: Duration,
    ended: bool,
}

impl Follower {
    /// Follows a run of this owner from behind `after`.
    pub async fn new(engine: &Arc<Engine>, owner: &Owner, id: &RunId, after: u64) -> Result<Follower, EngineError> {
        owned_run(engine, owner, id).await?;
        let page_from = match after {
            0 => 1,
            after => engine.store.page_start(id, after + 1, true).await?.unwrap_or(1),
        };
        Ok(Follower {
            store: engine.store.clone(),
            clock: engine.seams.clock.clone(),
            run: id.clone(),
            seen: after,
            page_from,
            heard: engine.hints.listen(id),
            wait: FAST,
            ended: false,
        })
    }

    /// The next events, at least one; waits for them. Empty once the terminal event has been handed out.
    pub async fn next(&mut self) -> Result<Vec<WireEvent>, EngineError> {
        while !self.ended {
            self.heard.borrow_and_update();
            let (events, more) = self.read(false).await?;
            if !events.is_empty() {
                self.wait = FAST;
                return Ok(events);
            }
            if !more {
                self.listen().await;
            }
        }
        Ok(Vec::new())
    }

    /// What one consistent read gives now, and whether another may give more at once.
    pub async fn read_now(&mut self) -> Result<(Vec<WireEvent>, bool), EngineError> {
        loop {
            let (events, more) = self.read(true).await?;
            if !events.is_empty() || !more {
                return Ok((events, more && !self.ended));
            }
        }
    }

    /// What there is now, by a consistent read: for a reader that is about to leave.
    pub async fn drain(&mut self) -> Result<Vec<WireEvent>, EngineError> {
        let mut drained = Vec::new();
        while !self.ended {
            let (events, more) = self.read(true).await?;
            drained.extend(events);
            if !more {
                break;
            }
        }
        Ok(drained)
    }

    /// The terminal event was handed out: nothing will follow.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// One read; whether there may be more right away.
    async fn read(&mut self, consistent: bool) -> Result<(Vec<WireEvent>, bool), EngineError> {
        let slice = self
            .store
            .read_wire_events(&self.run, self.page_from, consistent)
            .await?;
        let mut fresh = Vec::new();
        for event in slice.events {
            if event.seq <= self.seen {
                self.page_from = self.page_from.max(event.seq + 1);
                continue;
            }
            // Pages become visible in any order: what lies behind a gap waits until the gap is filled.
            if event.first_seq > self.seen + 1 {
                return Ok((fresh, false));
            }
            self.seen = event.seq;
            self.page_from = event.seq + 1;
            self.ended |= event.terminal;
            fresh.push(event);
        }
        Ok((fresh, slice.next.is_some()))
    }

    async fn listen(&mut self) {
        let sleep = self.clock.sleep(self.wait);
        let heard = Box::pin(self.heard.changed());
        select(heard, sleep).await;
        self.wait = (self.wait * 2).min(SLOW);
    }
}
