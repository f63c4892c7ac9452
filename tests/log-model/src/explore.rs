//! Runs the checker: over every state, or up to the shortest way to break one property.

use crate::model::{Action, LogModel, State};
use crate::timeline::Timeline;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};
use std::collections::BTreeSet;

/// What there was to see in all states that the bounds allow.
#[derive(Debug)]
pub struct Exploration {
    pub unique_states: usize,
    pub transitions: usize,
    pub longest_path: usize,
    /// The properties that some state violates.
    pub broken: BTreeSet<&'static str>,
    /// The situations that no state shows.
    pub never_reached: BTreeSet<&'static str>,
}

pub fn explore(model: LogModel) -> Exploration {
    let checker = model.checker().threads(2).spawn_dfs().join();
    let found = checker.discoveries();
    let properties = checker.model().properties();
    let (sometimes, always): (Vec<_>, Vec<_>) = properties
        .iter()
        .partition(|property| property.expectation == Expectation::Sometimes);
    Exploration {
        unique_states: checker.unique_state_count(),
        transitions: checker.state_count(),
        longest_path: checker.max_depth(),
        broken: always
            .iter()
            .map(|property| property.name)
            .filter(|name| found.contains_key(name))
            .collect(),
        never_reached: sometimes
            .iter()
            .map(|property| property.name)
            .filter(|name| !found.contains_key(name))
            .collect(),
    }
}

/// The shortest way to a state that violates the property.
pub fn counterexample(model: LogModel, property: &'static str) -> Option<Timeline> {
    let mut shortest = shallow_counterexample(model, property, None)?;
    // The checker works in blocks and reports the last violation of a block. So ask again for less, until there is none.
    while let Some(shorter) = shallow_counterexample(model, property, Some(shortest.clone().into_actions().len())) {
        shortest = shorter;
    }
    Some(Timeline::new(property, shortest))
}

fn shallow_counterexample(
    model: LogModel,
    property: &'static str,
    shorter_than: Option<usize>,
) -> Option<Path<State, Action>> {
    let mut builder = model
        .checker()
        .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property])));
    if let Some(actions) = shorter_than {
        // A path of n actions has n + 1 states, and the checker leaves out the depth that it is given.
        builder = builder.target_max_depth(actions + 1);
    }
    builder.spawn_bfs().join().discovery(property)
}
