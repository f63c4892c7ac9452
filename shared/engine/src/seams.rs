//! Ports to what a simulation must control: time, randomness, threads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use outlast_core::{ClaimToken, RunId, Timestamp, WriteId};
use outlast_store::Pause;

/// Time. Only liveness may depend on [`Clock::now`]; a holder's trust in its lease is measured by [`Clock::monotonic`].
#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    /// Since some fixed point of this process; never set back.
    fn monotonic(&self) -> Duration;
    async fn sleep(&self, duration: Duration);
}

/// Chance. Ids and claim tokens are drawn from it: outside of tests it must be unpredictable.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

/// The tasks that are not awaited where they are made.
pub trait Spawner: Send + Sync {
    /// Runs a chunk that goes on when the request that began it is given up.
    fn spawn_chunk(&self, chunk: BoxFuture<'static, ()>);
    /// Runs a heartbeat where a step that blocks its thread can't starve it.
    fn spawn_heartbeat(&self, beats: BoxFuture<'static, ()>);
}

/// The three together.
#[derive(Clone)]
pub struct Seams {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub spawner: Arc<dyn Spawner>,
}

impl Seams {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns at once for a time that has passed.
    pub async fn sleep_until(&self, at: Timestamp) {
        self.clock.sleep(at.since(self.clock.now())).await;
    }

    /// A UUID of version 7 (RFC 9562, 5.7): 48 bits of now in milliseconds, and 74 random ones.
    pub fn run_id(&self) -> RunId {
        let mut random = [0; 10];
        self.random.fill(&mut random);
        RunId::from_parts(u64::try_from(self.now().as_millis()).unwrap_or(0), random)
    }

    /// 16 random bytes in hex.
    pub fn claim_token(&self) -> ClaimToken {
        ClaimToken::new(self.hex::<16>())
    }

    /// Ten random bytes in hex.
    pub fn write_id(&self) -> WriteId {
        WriteId::new(self.hex::<10>())
    }

    /// Uniform in 0..1.
    pub fn draw(&self) -> f64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        // The 53 bits that a double holds exactly.
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn hex<const N: usize>(&self) -> String {
        use std::fmt::Write as _;
        let mut bytes = [0; N];
        self.random.fill(&mut bytes);
        bytes.iter().fold(String::with_capacity(N * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// The store's retries wait in the engine's time.
#[async_trait]
impl Pause for Seams {
    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    fn draw(&self) -> f64 {
        Seams::draw(self)
    }
}
