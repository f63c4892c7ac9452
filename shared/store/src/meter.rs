//! Counts requests and the capacity they used.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast_core::Cost;

/// What was asked of the tables. Each try of a request counts, answered or not.
#[derive(Debug, Default)]
pub struct Meter {
    write_requests: AtomicU64,
    read_requests: AtomicU64,
    write_deci_units: AtomicU64,
    read_deci_units: AtomicU64,
}

impl Meter {
    /// One write request, and the capacity it says it used.
    pub fn wrote(&self, units: f64) {
        self.write_requests.fetch_add(1, Ordering::Relaxed);
        self.write_deci_units.fetch_add(deci(units), Ordering::Relaxed);
    }

    /// One read request, and the capacity it says it used.
    pub fn read(&self, units: f64) {
        self.read_requests.fetch_add(1, Ordering::Relaxed);
        self.read_deci_units.fetch_add(deci(units), Ordering::Relaxed);
    }

    pub fn cost(&self) -> Cost {
        Cost {
            write_requests: self.write_requests.load(Ordering::Relaxed),
            read_requests: self.read_requests.load(Ordering::Relaxed),
            write_deci_units: self.write_deci_units.load(Ordering::Relaxed),
            read_deci_units: self.read_deci_units.load(Ordering::Relaxed),
        }
    }
}

fn deci(units: f64) -> u64 {
    (units * 10.0).round().max(0.0) as u64
}
