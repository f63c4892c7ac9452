//! The machine's time, chance and threads, behind the engine's ports.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures::future::BoxFuture;
use outlast_core::Timestamp;
use outlast_engine::seams::{Clock, Random, Seams, Spawner};
use tokio::sync::mpsc;

/// All three. Each call starts a heartbeat thread: make one a process.
pub fn machine() -> Seams {
    Seams {
        clock: Arc::new(SystemClock::default()),
        random: Arc::new(OsRandom),
        spawner: Arc::new(HeartbeatThread::start()),
    }
}

/// The system's clocks, and tokio's timer.
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is wrong anyway; nothing but liveness depends on it.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The operating system's generator.
pub struct OsRandom;

impl Random for OsRandom {
    /// # Panics
    ///
    /// If the system has no randomness to give: a claim token that can be guessed, or comes twice, would be no fence.
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no random bytes: {error}");
        }
    }
}

/// One thread with a runtime of its own, shared by the heartbeats of all chunks of this process: a step that blocks
/// every thread of the main runtime can't hold them up. Their connections must be their own too, because the runtime
/// that makes a connection also drives it: see [`crate::wiring::Wiring::heartbeat_dynamodb`].
///
/// It ends when this is dropped.
pub struct HeartbeatThread {
    heartbeats: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

impl HeartbeatThread {
    /// # Panics
    ///
    /// If the system gives no thread or no event queue, which happens at start-up or not at all.
    pub fn start() -> Self {
        let (heartbeats, arriving) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime for heartbeats: {error}"));
        let thread = std::thread::Builder::new().name("heartbeat".into());
        let started = thread.spawn(move || runtime.block_on(run_all(arriving)));
        if let Err(error) = started {
            panic!("no thread for heartbeats: {error}");
        }
        Self { heartbeats }
    }
}

async fn run_all(mut arriving: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    while let Some(beats) = arriving.recv().await {
        tokio::spawn(beats);
    }
}

impl Spawner for HeartbeatThread {
    fn spawn_chunk(&self, chunk: BoxFuture<'static, ()>) {
        tokio::spawn(chunk);
    }

    fn spawn_heartbeat(&self, beats: BoxFuture<'static, ()>) {
        // The thread ends only after its sender; should it be gone all the same, the beats are dropped, and the chunk
        // ends when its lease is in doubt.
        if self.heartbeats.send(beats).is_err() {
            tracing::error!("the heartbeat thread is gone");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as blocking;

    use super::*;

    #[tokio::test]
    async fn r28_beats_go_on_while_the_only_other_thread_is_blocked() {
        let spawner = HeartbeatThread::start();
        let (beat, beats) = blocking::channel();
        let beating = async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if beat.send(std::thread::current().name().map(String::from)).is_err() {
                    return;
                }
            }
        };
        spawner.spawn_heartbeat(Box::pin(beating));
        // This blocks the one thread of this test's runtime until three beats have come.
        for _ in 0..3 {
            let from = beats.recv_timeout(Duration::from_secs(20)).expect("a beat");
            assert_eq!(from.as_deref(), Some("heartbeat"));
        }
    }

    #[tokio::test]
    async fn two_chunks_beat_on_one_thread() {
        let spawner = HeartbeatThread::start();
        let (beat, beats) = blocking::channel();
        for _ in 0..2 {
            let beat = beat.clone();
            spawner.spawn_heartbeat(Box::pin(async move {
                let _ = beat.send(std::thread::current().id());
            }));
        }
        let ids = [(); 2].map(|()| beats.recv_timeout(Duration::from_secs(20)).expect("a beat"));
        assert_eq!(ids[0], ids[1]);
        assert_ne!(ids[0], std::thread::current().id());
    }

    #[test]
    fn random_bytes_differ() {
        let seams = machine();
        assert_ne!(seams.claim_token(), seams.claim_token());
        assert_ne!(seams.run_id(), seams.run_id());
    }
}
