//! What every log of a run keeps to, read as its readers get it: the guarantees G1 to G4 and G7, of DESIGN.

use std::collections::BTreeSet;

use serde_json::Value;

const ENDS: [&str; 4] = ["run.completed", "run.incomplete", "run.failed", "run.cancelled"];

/// However it ended.
pub fn has_ended(log: &[Value]) -> bool {
    log.last().is_some_and(is_end)
}

pub fn count(log: &[Value], kind: &str) -> usize {
    log.iter().filter(|event| event["type"] == kind).count()
}

/// The epochs that were claimed.
pub fn epochs(log: &[Value]) -> Vec<u64> {
    let claims = log.iter().filter(|event| event["type"] == "run.claimed");
    claims.map(|event| event["epoch"].as_u64().expect("an epoch")).collect()
}

/// Fails the test at the first event that breaks a rule.
pub fn assert_kept(log: &[Value]) {
    let mut epoch = 0;
    let mut committed = BTreeSet::new();
    let mut stopped = false;
    for (index, event) in log.iter().enumerate() {
        let broken = |rule: &str| -> ! { panic!("{rule}, at {event} of {log:#?}") };
        if event["seq"] != index as u64 + 1 {
            broken("the log has no gap");
        }
        if is_end(event) && index + 1 != log.len() {
            broken("nothing follows the end");
        }
        let key = event["key"].as_str();
        match event["type"].as_str() {
            Some("run.claimed") => match event["epoch"].as_u64() {
                Some(claimed) if claimed > epoch => epoch = claimed,
                _ => broken("epochs rise"),
            },
            Some("step.started") if stopped => broken("no step starts after a stop"),
            Some("step.started") if epoch == 0 => broken("no step starts before a claim"),
            Some("step.started") if key.is_some_and(|key| committed.contains(key)) => {
                broken("no step starts after its commit")
            }
            Some("step.committed") if !committed.insert(key.expect("a key")) => broken("a step is committed once"),
            Some("stop.requested") if stopped => broken("a stop is logged once"),
            Some("stop.requested") => stopped = true,
            _ => {}
        }
    }
}

fn is_end(event: &Value) -> bool {
    ENDS.iter().any(|end| event["type"] == *end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(events: Value) -> Vec<Value> {
        let mut events = events.as_array().expect("events").clone();
        for (index, event) in events.iter_mut().enumerate() {
            event["seq"] = (index + 1).into();
        }
        events
    }

    #[test]
    fn a_log_that_breaks_a_rule_is_found() {
        let started = json!({ "type": "step.started", "key": "a" });
        let committed = json!({ "type": "step.committed", "key": "a" });
        let claimed = json!({ "type": "run.claimed", "epoch": 1 });
        let (stop, end) = (json!({ "type": "stop.requested" }), json!({ "type": "run.completed" }));
        assert_kept(&log(json!([claimed, started, started, committed, stop, end])));
        for broken in [
            json!([started]),
            json!([claimed, claimed]),
            json!([claimed, started, committed, committed]),
            json!([claimed, started, committed, started]),
            json!([claimed, stop, started]),
            json!([claimed, stop, stop]),
            json!([claimed, end, committed]),
        ] {
            let log = log(broken.clone());
            assert!(std::panic::catch_unwind(|| assert_kept(&log)).is_err(), "{broken}");
        }
        let mut gap = log(json!([claimed, started]));
        gap.remove(0);
        assert!(std::panic::catch_unwind(|| assert_kept(&gap)).is_err());
    }
}
