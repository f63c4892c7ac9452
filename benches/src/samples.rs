//! Samples of a figure and of its floor, taken in turns, and what they come to.

use std::time::Duration;

/// What the numbers of a figure are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Less is better; a ratio is figure over floor.
    Milliseconds,
    /// More is better.
    PerSecond,
    /// Of 1,000,000 bytes. Less is better.
    Megabytes,
}

/// What a figure should come to.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Of the median, and of the 99th percentile.
    Milliseconds {
        median: f64,
        p99: Option<f64>,
    },
    /// Of the largest sample.
    Megabytes(f64),
    /// Shown to explain another figure.
    None,
}

/// One figure beside its floor.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub unit: Unit,
    pub ours: Vec<f64>,
    pub floor_name: &'static str,
    pub floor: Vec<f64>,
    pub aim: Aim,
}

impl Figure {
    pub fn times(name: &'static str, floor_name: &'static str, aim: Aim) -> Self {
        Self::new(name, Unit::Milliseconds, floor_name, aim)
    }

    pub fn rates(name: &'static str, floor_name: &'static str, aim: Aim) -> Self {
        Self::new(name, Unit::PerSecond, floor_name, aim)
    }

    pub fn sizes(name: &'static str, floor_name: &'static str, aim: Aim) -> Self {
        Self::new(name, Unit::Megabytes, floor_name, aim)
    }

    fn new(name: &'static str, unit: Unit, floor_name: &'static str, aim: Aim) -> Self {
        Self {
            name,
            unit,
            ours: Vec::new(),
            floor_name,
            floor: Vec::new(),
            aim,
        }
    }

    pub fn took(&mut self, time: Duration) {
        self.ours.push(milliseconds(time));
    }

    pub fn floor_took(&mut self, time: Duration) {
        self.floor.push(milliseconds(time));
    }

    pub fn did(&mut self, count: usize, time: Duration) {
        self.ours.push(per_second(count, time));
    }

    pub fn floor_did(&mut self, count: usize, time: Duration) {
        self.floor.push(per_second(count, time));
    }

    /// The median of the pairs' ratios, each sample over the floor's that was taken in the same turn.
    pub fn ratio(&self) -> Option<f64> {
        let pairs = self.ours.iter().zip(&self.floor);
        let ratios: Vec<f64> = pairs.map(|(ours, floor)| ours / floor).collect();
        median(&ratios)
    }

    /// The slow end: of times the 99th percentile, of rates the first.
    pub fn slow_end(&self, samples: &[f64]) -> Option<f64> {
        match self.unit {
            Unit::Milliseconds | Unit::Megabytes => percentile(samples, 0.99),
            Unit::PerSecond => percentile(samples, 0.01),
        }
    }

    /// Whether these samples reach the aim. It is said, and never asserted.
    pub fn reaches_aim(&self) -> Option<bool> {
        match self.aim {
            Aim::None => None,
            Aim::RatioAtMost(most) => self.ratio().map(|ratio| ratio <= most),
            Aim::RatioAtLeast(least) => self.ratio().map(|ratio| ratio >= least),
            Aim::Megabytes(most) => percentile(&self.ours, 1.0).map(|largest| largest <= most),
            Aim::Milliseconds { median: most, p99 } => {
                let slow = self.slow_end(&self.ours)?;
                Some(median(&self.ours)? <= most && p99.is_none_or(|p99| slow <= p99))
            }
        }
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

pub fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 0.5)
}

/// By nearest rank: always one of the samples.
fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).map(f64::from).rev().collect();
        assert_eq!(median(&samples), Some(100.0));
        assert_eq!(percentile(&samples, 0.99), Some(198.0));
        assert_eq!(percentile(&samples, 0.01), Some(2.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
    }

    #[test]
    fn a_ratio_is_judged_by_its_aim() {
        let mut figure = Figure::times("step", "put", Aim::RatioAtMost(1.1));
        figure.took(Duration::from_millis(11));
        figure.floor_took(Duration::from_millis(10));
        assert_eq!(figure.reaches_aim(), Some(true));
        figure.floor = vec![9.0];
        assert_eq!(figure.reaches_aim(), Some(false));
    }
}
