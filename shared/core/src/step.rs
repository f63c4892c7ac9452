//! Steps: units of work with a stable key, whose result is committed once.

use std::time::Duration;

use crate::outcome::ErrorInfo;
use crate::payload::Payload;
use crate::time::Timestamp;

/// What may be done with a step's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPolicy {
    /// A body that started and has no result may be run again.
    pub idempotent: bool,
    pub max_attempts: u64,
    pub first_backoff: Duration,
    pub max_backoff: Duration,
    /// How long one attempt may take. An `at_most_once` step must say.
    pub timeout: Option<Duration>,
}

impl StepPolicy {
    /// Six attempts, 5 s doubling to 60 s with full jitter.
    pub const IDEMPOTENT: StepPolicy = StepPolicy {
        idempotent: true,
        max_attempts: 6,
        first_backoff: Duration::from_secs(5),
        max_backoff: Duration::from_secs(60),
        timeout: None,
    };

    /// One attempt; if it is interrupted its outcome is unknown, and said to be.
    pub const fn at_most_once(timeout: Duration) -> StepPolicy {
        StepPolicy {
            idempotent: false,
            max_attempts: 1,
            first_backoff: Duration::ZERO,
            max_backoff: Duration::ZERO,
            timeout: Some(timeout),
        }
    }

    /// The wait before attempt number `failed + 1`: full jitter, `draw` in 0..1 drawn once and logged.
    pub fn backoff(&self, failed: u64, draw: f64) -> Duration {
        let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(u32::MAX).min(20);
        let ceiling = self.first_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        ceiling.mul_f64(draw.clamp(0.0, 1.0))
    }
}

/// What the log says of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Declared and not started.
    Planned,
    /// A body was let begin and has no result. `deadline` is when it will have ended at the latest.
    Started {
        epoch: u64,
        deadline: Option<Timestamp>,
    },
    /// An attempt failed; the next one may begin at `not_before`.
    Retrying {
        error: ErrorInfo,
        not_before: Timestamp,
    },
    Committed {
        result: Payload,
    },
    Failed {
        error: ErrorInfo,
    },
    /// Started, interrupted, and not idempotent.
    Unknown,
    /// Not part of N any more, and never to start again.
    Released,
}

impl StepState {
    /// Nothing more will be logged of it.
    pub const fn is_final(&self) -> bool {
        match self {
            StepState::Committed { .. } | StepState::Failed { .. } | StepState::Unknown | StepState::Released => true,
            StepState::Planned | StepState::Started { .. } | StepState::Retrying { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// In the declared plan; otherwise it joined by starting.
    pub planned: bool,
    /// The last attempt that started; an interruption uses up none (the next body is the same attempt).
    pub attempt: u64,
    pub idempotent: bool,
    /// Of its input, from its first `step.started` on.
    pub input_digest: Option<Box<str>>,
    pub state: StepState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_its_ceiling_and_is_drawn_from_zero_on() {
        let seconds = |failed: u64, draw: f64| StepPolicy::IDEMPOTENT.backoff(failed, draw).as_secs_f64();
        let whole: Vec<f64> = (1..=6).map(|failed| seconds(failed, 1.0)).collect();
        assert_eq!(whole, [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]);
        assert_eq!(
            (seconds(1, 0.0), seconds(3, 0.5), seconds(u64::MAX, 1.0)),
            (0.0, 10.0, 60.0)
        );
        let once = StepPolicy::at_most_once(Duration::from_secs(9));
        assert_eq!((once.backoff(1, 1.0), once.max_attempts), (Duration::ZERO, 1));
    }
}
