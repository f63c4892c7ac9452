//! Following a run's events across broken connections and a server that goes away and comes back: each event once, in
//! order, from the last one seen.

use std::pin::Pin;
use std::time::Duration;

use eventsource_stream::{Event as SseEvent, Eventsource as _};
use futures::{Stream, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, Failure, Started};
use crate::exit::{Exit, Problem};
use crate::wire::Event;

/// How to wait for a server that is away.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Doubles up to `most`.
    pub first: Duration,
    pub most: Duration,
    pub in_all: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            most: Duration::from_secs(2),
            in_all: Duration::from_secs(10 * 60),
        }
    }
}

/// Behind a hand-off, how long somebody else has to go on with the run before its carrier asks for the next chunk: a log that
/// is read from its beginning is full of hand-offs that were followed by more.
const HANDED_OFF_FOR: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub enum Heard {
    Event(Event),
    /// The server can't be reached any more, for this reason; it is tried again and again.
    Away(String),
    /// It is back; what was missed follows.
    Back,
}

type Events = Pin<Box<dyn Stream<Item = Result<SseEvent, String>> + Send>>;

/// One reader of one run.
pub struct Follow {
    client: Client,
    run: String,
    patience: Patience,
    seen: u64,
    repeated: u64,
    events: Option<Events>,
    /// Since when the server is away, how often it was tried, and why it failed.
    away: Option<Away>,
    was_there: bool,
    /// Connections in a row that ended without an event and without the request to come back.
    fruitless: u32,
    /// Whether this reader carries the run: asks for its chunks.
    carries: bool,
    /// A chunk is to be asked for.
    to_continue: bool,
    /// The last event was a hand-off.
    handed_off: bool,
    ended: bool,
}

struct Away {
    since: Instant,
    tries: u32,
}

impl Follow {
    pub fn new(client: Client, run: &str, after: u64) -> Self {
        Self {
            client,
            run: run.into(),
            patience: Patience::default(),
            seen: after,
            repeated: 0,
            events: None,
            away: None,
            was_there: false,
            fruitless: 0,
            carries: false,
            to_continue: false,
            handed_off: false,
            ended: false,
        }
    }

    /// From the first event on, by the stream that came with the run's start; an inline run is carried to its end.
    pub fn started(client: Client, started: Started) -> Self {
        Self {
            carries: started.is_inline,
            was_there: true,
            events: started.events.map(sse_of),
            ..Self::new(client, &started.run, 0)
        }
    }

    /// Also asks for the run's chunks, now and at each hand-off, as long as it turns out to be an inline one.
    pub fn carrying(self) -> Self {
        Self {
            carries: true,
            to_continue: true,
            ..self
        }
    }

    /// Whether it is this reader that asks for the run's chunks.
    pub fn carries(&self) -> bool {
        self.carries
    }

    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The seq of the last event handed out.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Events that came although they had been seen, and were left out.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// `None` behind the run's last event. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> anyhow::Result<Option<Heard>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let Some(events) = &mut self.events else {
                if let Some(heard) = self.connect().await? {
                    return Ok(Some(heard));
                }
                continue;
            };
            let next = events.next();
            let next = match self.carries && self.handed_off {
                true => tokio::time::timeout(HANDED_OFF_FOR, next).await,
                false => Ok(next.await),
            };
            let Ok(next) = next else {
                (self.events, self.to_continue) = (None, true);
                continue;
            };
            match next {
                Some(Ok(sse)) if sse.event == "reconnect" => {
                    (self.events, self.fruitless) = (None, 0);
                    // A wait may be over, or a holder gone: nobody else need be there to find out.
                    self.to_continue = self.carries;
                    if let Some(wait) = sse.retry {
                        tokio::time::sleep(wait).await;
                    }
                }
                Some(Ok(sse)) => {
                    if let Some(event) = self.fresh(sse)? {
                        (self.ended, self.fruitless) = (event.is_terminal(), 0);
                        self.handed_off = event.kind == "auto_continue";
                        return Ok(Some(Heard::Event(event)));
                    }
                }
                // A broken connection and one that the server ended are one: the next says what is the matter.
                Some(Err(_)) | None => {
                    (self.events, self.fruitless) = (None, self.fruitless + 1);
                    self.to_continue = self.carries && self.handed_off;
                }
            }
        }
    }

    /// How long to wait before the next connection: none after one that brought something.
    fn pause(&self) -> Duration {
        let tries = self.away.as_ref().map(|away| away.tries + 1);
        let tries = tries.unwrap_or(0).max(self.fruitless.saturating_sub(1));
        match tries {
            0 => Duration::ZERO,
            tries => (self.patience.first * (1 << tries.min(8))).min(self.patience.most),
        }
    }

    async fn connect(&mut self) -> anyhow::Result<Option<Heard>> {
        tokio::time::sleep(self.pause()).await;
        let answered = match self.to_continue {
            true => self.client.continue_run(&self.run, self.seen).await,
            false => self.client.events(&self.run, self.seen).await,
        };
        let failure = match answered {
            Ok(answer) => {
                (self.was_there, self.to_continue) = (true, false);
                match answer {
                    Some(response) => self.events = Some(sse_of(response)),
                    None => self.ended = true,
                }
                return Ok(self.away.take().map(|_| Heard::Back));
            }
            // Somebody else carries it by now, or nobody may: its events tell.
            Err(Failure::Refused(refusal)) if self.to_continue => {
                (self.to_continue, self.handed_off) = (false, false);
                self.carries &= refusal.code != "not_inline";
                return Ok(None);
            }
            Err(failure) => failure,
        };
        let why = match &failure {
            Failure::Away(why) if self.was_there => why.clone(),
            Failure::Failing { status, message } if self.was_there => format!("{status}: {message}"),
            _ => return Err(failure.into_problem(&self.client).into()),
        };
        match &mut self.away {
            None => {
                self.away = Some(Away {
                    since: Instant::now(),
                    tries: 0,
                });
                Ok(Some(Heard::Away(why)))
            }
            Some(away) if away.since.elapsed() < self.patience.in_all => {
                away.tries += 1;
                Ok(None)
            }
            Some(_) => Err(failure.into_problem(&self.client).into()),
        }
    }

    /// The event, unless it was seen before. A gap is no run that one can rely on.
    fn fresh(&mut self, sse: SseEvent) -> anyhow::Result<Option<Event>> {
        let fields: Value = serde_json::from_str(&sse.data).map_err(|error| self.broken(&error.to_string()))?;
        let seq = fields["seq"].as_u64().or_else(|| sse.id.parse().ok());
        let seq = seq.ok_or_else(|| self.broken("an event without a seq"))?;
        // One entry may stand for several events that can't be read any more.
        let first = fields["first_seq"].as_u64().unwrap_or(seq);
        if seq <= self.seen {
            self.repeated += 1;
            return Ok(None);
        }
        if first > self.seen + 1 {
            return Err(self
                .broken(&format!("event {first} follows event {}", self.seen))
                .into());
        }
        self.seen = seq;
        Ok(Some(Event {
            seq,
            kind: sse.event,
            line: sse.data,
            fields,
        }))
    }

    fn broken(&self, what: &str) -> Problem {
        let text = format!(
            "the stream of run {} can't be trusted: {what}.\nThis is a fault of the server: please report it.",
            self.run
        );
        Problem::new(Exit::Error, text)
    }
}

fn sse_of(response: reqwest::Response) -> Events {
    let events = response.bytes_stream().eventsource();
    Box::pin(events.map(|event| event.map_err(|error| error.to_string())))
}

#[cfg(test)]
mod tests;
