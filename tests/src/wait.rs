//! Waiting for what another process or task does. A sleep is too short on a busy machine and too long on an idle one;
//! a condition with a limit is neither. This is the only file of the tests that may sleep.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

const EVERY: Duration = Duration::from_millis(10);

/// Polls `condition` every 10 ms until it holds. After `timeout` it fails the test, and says `what` was waited for.
/// It takes the machine's clock, not tokio's, so that a test with paused time still waits for another process.
pub async fn wait_until(what: impl Display, timeout: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + timeout;
    while !condition().await {
        assert!(Instant::now() < limit, "waited {timeout:?} in vain until {what}");
        tokio::time::sleep(EVERY).await;
    }
}

/// The same for code outside of any runtime.
pub fn wait_until_blocking(what: impl Display, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < limit, "waited {timeout:?} in vain until {what}");
        std::thread::sleep(EVERY);
    }
}

/// How the store's retries wait where a test talks to a real server: as in production.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealPause;

#[async_trait::async_trait]
impl outlast_store::Pause for RealPause {
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn draw(&self) -> f64 {
        // The low bits of a fresh UUID are random.
        f64::from(uuid::Uuid::now_v7().as_u128() as u32) / f64::from(u32::MAX)
    }
}

/// For fixtures that stand for what takes its time: a wall, a late delivery. Tests themselves wait for conditions.
pub async fn after(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_until_the_condition_holds() {
        let mut polls = 0;
        wait_until("the third poll", Duration::from_secs(5), async || {
            polls += 1;
            polls == 3
        })
        .await;
        assert_eq!(polls, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "in vain until pigs fly")]
    async fn names_what_never_came() {
        wait_until("pigs fly", Duration::from_millis(30), async || false).await;
    }

    #[test]
    #[should_panic(expected = "in vain until pigs fly")]
    fn names_what_never_came_outside_of_a_runtime() {
        wait_until_blocking("pigs fly", Duration::from_millis(30), || false);
    }
}
