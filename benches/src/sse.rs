//! A reader of a run's stream.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;

/// Whatever a reader waits for comes within this, or something is broken.
const WITHIN: Duration = Duration::from_secs(30);

pub struct Reader {
    stream: BoxStream<'static, Result<Event, EventStreamError<reqwest::Error>>>,
}

impl Reader {
    /// Follows a run from its beginning.
    pub async fn of_run(client: &reqwest::Client, base_url: &str, run: &str) -> anyhow::Result<Reader> {
        Self::open(client.get(format!("{base_url}/api/v1/runs/{run}/events"))).await
    }

    /// Whatever request it is that is answered by a stream.
    pub async fn open(request: reqwest::RequestBuilder) -> anyhow::Result<Reader> {
        let request = request.header("accept", "text/event-stream");
        let response = tokio::time::timeout(WITHIN, request.send()).await??;
        if response.status() != 200 {
            let status = response.status();
            bail!("no stream: {status} {}", response.text().await?);
        }
        Ok(Reader {
            stream: response.bytes_stream().eventsource().boxed(),
        })
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        let next = tokio::time::timeout(WITHIN, self.stream.next());
        let Some(event) = next.await.context("no event within 30 s")? else {
            return Ok(None);
        };
        let event = event?;
        if event.event == "reconnect" {
            bail!("the stream asks to reconnect: the benchmark takes longer than a stream lasts");
        }
        Ok(Some(serde_json::from_str(&event.data)?))
    }

    /// Reads on until this event.
    pub async fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> anyhow::Result<Value> {
        while let Some(event) = self.next().await? {
            if is_it(&event) {
                return Ok(event);
            }
        }
        bail!("the stream ended before the event came")
    }
}

/// Microseconds since 1970: the one clock that all processes of a machine share.
pub fn wall_micros() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}
