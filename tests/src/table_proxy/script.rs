//! Which fault a request meets: by a rule, or as the chances fall.

use std::time::Duration;

use outlast_engine::seams::Random as _;
use outlast_store::schema::TableNames;

use super::Asked;
use crate::rig::TestRandom;

/// What may happen to a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 400, `ThrottlingException`; nothing is done.
    Throttled,
    /// 400, `ProvisionedThroughputExceededException`; nothing is done.
    Exceeded,
    /// 400, as if another transaction were at it; nothing is done.
    Conflict,
    /// 500, with DynamoDB's own words; nothing is done.
    ServerError,
    /// 503, from something in between that speaks no JSON; nothing is done.
    Unavailable,
    /// The connection closes; nothing is done.
    LostRequest,
    /// It is done, and the connection closes.
    LostReply,
    /// It is done, and no reply ever comes: the client gives up by its own limit.
    NoReply,
    /// It is done, and its reply waits until [`super::TableProxy::release`].
    HeldReply,
    /// It takes this long, and then it is done and answered.
    Slow(Duration),
    /// The connection closes, and it is done when [`super::TableProxy::land`] says so: long after its client gave up.
    Late,
}

/// A fault for some requests, in the order in which they come.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    operation: &'static str,
    table: Option<String>,
    with: Vec<String>,
    without: Vec<String>,
    skip: u64,
    times: u64,
}

impl Rule {
    /// For the first request of this operation.
    pub fn on(operation: &'static str, fault: Fault) -> Self {
        Self {
            fault,
            operation,
            table: None,
            with: Vec::new(),
            without: Vec::new(),
            skip: 0,
            times: 1,
        }
    }

    /// For any operation.
    pub fn any(fault: Fault) -> Self {
        Self::on("", fault)
    }

    /// The put of a page that holds such an event.
    pub fn page_with(event: &str, fault: Fault) -> Self {
        Self::on("PutItem", fault)
            .of(TableNames::default().events)
            .with(&quoted(event))
    }

    /// The transaction of a row and a page that holds such an event.
    pub fn transaction_with(event: &str, fault: Fault) -> Self {
        Self::on("TransactWriteItems", fault).with(&quoted(event))
    }

    /// A claim's write of the row.
    pub fn claim(fault: Fault) -> Self {
        Self::on("UpdateItem", fault)
            .of(TableNames::default().runs)
            .with(&quoted("claim_token"))
    }

    /// A heartbeat.
    pub fn beat(fault: Fault) -> Self {
        Self::on("UpdateItem", fault)
            .of(TableNames::default().runs)
            .with(&quoted("lease_expires_at"))
            .without(&quoted("claim_token"))
    }

    /// Of this table only.
    pub fn of(self, table: impl Into<String>) -> Self {
        Self {
            table: Some(table.into()),
            ..self
        }
    }

    /// Whose JSON contains this.
    pub fn with(mut self, text: &str) -> Self {
        self.with.push(text.to_owned());
        self
    }

    /// Whose JSON doesn't.
    pub fn without(mut self, text: &str) -> Self {
        self.without.push(text.to_owned());
        self
    }

    /// Not for the first ones.
    pub fn after(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Until the proxy is told to be calm.
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    pub(super) fn meets(&mut self, asked: &Asked) -> Option<Fault> {
        let fits = (self.operation.is_empty() || self.operation == asked.operation)
            && self.table.as_ref().is_none_or(|table| asked.is_of(table))
            && self.with.iter().all(|text| asked.text.contains(text))
            && !self.without.iter().any(|text| asked.text.contains(text));
        if !fits || self.times == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.fault)
    }
}

/// Names are values in a request's JSON: whole ones, not parts of others.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Faults in turn, each kind as often as the others, at distances that are drawn. Only for Outlast's own tables.
pub struct Chances {
    faults: Vec<Fault>,
    /// At most this many requests pass between two faults.
    most_between: u64,
    passes: u64,
    next: usize,
    random: std::sync::Arc<TestRandom>,
}

impl Chances {
    pub fn seeded(seed: u64, most_between: u64, faults: &[Fault]) -> Self {
        let mut chances = Self {
            faults: faults.to_vec(),
            most_between,
            passes: 0,
            next: 0,
            random: TestRandom::seeded(seed),
        };
        for last in (1..chances.faults.len()).rev() {
            let other = chances.draw(last as u64 + 1) as usize;
            chances.faults.swap(last, other);
        }
        chances.passes = chances.draw(most_between + 1);
        chances
    }

    pub(super) fn fall(&mut self, asked: &Asked) -> Option<Fault> {
        if !asked.is_ours() {
            return None;
        }
        if self.passes > 0 {
            self.passes -= 1;
            return None;
        }
        let fault = self.faults[self.next % self.faults.len()];
        // What only makes sense for a write waits for one.
        if matches!(fault, Fault::Late | Fault::Conflict) && !asked.is_write() {
            return None;
        }
        self.next += 1;
        self.passes = self.draw(self.most_between + 1);
        Some(fault)
    }

    fn draw(&self, below: u64) -> u64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(operation: &str, text: &str) -> Asked {
        Asked {
            operation: operation.into(),
            tables: [TableNames::default().events].into(),
            index: None,
            consistent: false,
            text: text.into(),
        }
    }

    #[test]
    fn a_rule_meets_what_it_names_as_often_as_it_says() {
        let mut rule = Rule::page_with("run.claimed", Fault::LostReply).after(1).times(2);
        let page = asked("PutItem", r#"{"S":"run.claimed"}"#);
        let met: Vec<_> = (0..4).map(|_| rule.meets(&page).is_some()).collect();
        assert_eq!(met, [false, true, true, false]);
        let mut rule = Rule::page_with("run.claimed", Fault::LostReply);
        for other in [
            asked("UpdateItem", r#"{"S":"run.claimed"}"#),
            asked("PutItem", "run.claimed.x"),
        ] {
            assert_eq!(rule.meets(&other), None);
        }
    }

    #[test]
    fn chances_fall_the_same_from_the_same_seed_and_each_kind_has_its_turn() {
        let kinds = [Fault::Throttled, Fault::LostReply, Fault::Late];
        let fall = |seed| {
            let mut chances = Chances::seeded(seed, 3, &kinds);
            (0..60).map(|_| chances.fall(&asked("PutItem", ""))).collect::<Vec<_>>()
        };
        assert_eq!(fall(1), fall(1));
        assert_ne!(fall(1), fall(2));
        for kind in kinds {
            assert!(fall(1).iter().filter(|fault| **fault == Some(kind)).count() >= 4);
        }
    }
}
