//! A reader of a run's stream that reconnects with the last id it saw, as a browser does.

use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::watch;

/// What a reader has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub events: Vec<Value>,
    /// Connections that were made and broke or ended.
    pub connections: u64,
    /// The stream of a finished run has ended.
    pub ended: bool,
}

impl Seen {
    pub fn last_seq(&self) -> u64 {
        self.events
            .last()
            .map_or(0, |event| event["seq"].as_u64().expect("a seq"))
    }

    pub fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event["type"] == kind).count()
    }

    /// Every seq exactly once, from 1, without a gap.
    pub fn assert_gapless(&self) {
        let seqs: Vec<u64> = self
            .events
            .iter()
            .map(|event| event["seq"].as_u64().expect("a seq"))
            .collect();
        let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
        assert_eq!(seqs, expected);
    }
}

/// Reads a run until its stream ends, across the server's deaths.
pub fn follow(base_url: String, run: String) -> watch::Receiver<Seen> {
    let (sender, receiver) = watch::channel(Seen::default());
    tokio::spawn(async move {
        let client = reqwest::Client::new();
        while !sender.borrow().ended {
            read_once(&client, &base_url, &run, &sender).await;
            tokio::task::yield_now().await;
        }
    });
    receiver
}

async fn read_once(client: &reqwest::Client, base_url: &str, run: &str, seen: &watch::Sender<Seen>) {
    let last = seen.borrow().last_seq();
    let request = client
        .get(format!("{base_url}/api/v1/runs/{run}/events"))
        .header("accept", "text/event-stream")
        .header("last-event-id", last.to_string());
    let Ok(response) = request.send().await else { return };
    if response.status() == 204 {
        seen.send_modify(|seen| seen.ended = true);
        return;
    }
    if !response.status().is_success() {
        return;
    }
    seen.send_modify(|seen| seen.connections += 1);
    let mut stream = response.bytes_stream().eventsource();
    while let Some(Ok(event)) = stream.next().await {
        if event.event == "reconnect" {
            return;
        }
        let data: Value = serde_json::from_str(&event.data).expect("an event's data is JSON");
        assert_eq!(event.id, data["seq"].to_string());
        assert_eq!(data["type"], event.event.as_str());
        let terminal = matches!(
            event.event.as_str(),
            "run.completed" | "run.incomplete" | "run.failed" | "run.cancelled"
        );
        seen.send_modify(|seen| {
            seen.events.push(data);
            seen.ended |= terminal;
        });
    }
}

/// Waits until what was seen satisfies `condition`.
pub async fn wait_for(receiver: &mut watch::Receiver<Seen>, what: &str, condition: impl FnMut(&Seen) -> bool) -> Seen {
    let waiting = receiver.wait_for(condition);
    let limit = std::time::Duration::from_secs(240);
    match tokio::time::timeout(limit, waiting).await {
        Ok(Ok(seen)) => seen.clone(),
        Ok(Err(_)) => panic!("the reader is gone before {what}"),
        Err(_) => panic!("waited {limit:?} in vain until {what}"),
    }
}
