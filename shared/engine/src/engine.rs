//! The parts that every verb works with.

use std::sync::Arc;

use outlast_core::Executor;
use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::Timing;
use outlast_store::Store;
use tokio_util::sync::CancellationToken;

use crate::agent::Agents;
use crate::dispatch::Dispatching;
use crate::hints::Hints;
use crate::seams::Seams;

/// One process's engine: what every verb is called with. It holds no state of any run; whatever it knows can be lost with
/// the process.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) beat_store: Store,
    pub(crate) seams: Seams,
    pub(crate) agents: Agents,
    pub(crate) dispatching: Option<Dispatching>,
    pub(crate) timing: Timing,
    pub(crate) holder: String,
    pub(crate) hints: Hints,
    pub(crate) shut_down: CancellationToken,
}

/// What an engine is made of.
pub struct EngineParts {
    pub store: Store,
    /// The same tables through a client of its own: heartbeats share no connection with work that may block.
    pub beat_store: Store,
    pub seams: Seams,
    pub agents: Agents,
    /// Without it new runs are inline: carried in their clients' requests, and by the sweep.
    pub dispatching: Option<Dispatching>,
    pub timing: Timing,
    /// This process's name for itself, shown to people as the holder of its runs.
    pub holder: String,
}

impl Engine {
    pub fn new(parts: EngineParts) -> Arc<Engine> {
        let EngineParts {
            store,
            beat_store,
            seams,
            agents,
            dispatching,
            timing,
            holder,
        } = parts;
        let hints = Hints::default();
        Arc::new(Engine {
            store,
            beat_store,
            seams,
            agents,
            dispatching,
            timing,
            holder,
            hints,
            shut_down: CancellationToken::new(),
        })
    }

    /// Tells every chunk of this process to hand its run off now, as if its soft cap were reached: nothing new begins, and
    /// steps in hand get a moment to end. For a host that is told to end; there is no way back.
    pub fn shut_down(&self) {
        self.shut_down.cancel();
    }

    /// Of new runs.
    pub(crate) fn executor(&self) -> Executor {
        match self.dispatching {
            Some(_) => Executor::Background,
            None => Executor::Inline,
        }
    }

    /// The deployment's secret, where it dispatches.
    pub fn dispatch_keys(&self) -> Option<&DispatchKeys> {
        self.dispatching.as_ref().map(|dispatching| &dispatching.keys)
    }

    pub fn seams(&self) -> &Seams {
        &self.seams
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn agents(&self) -> &Agents {
        &self.agents
    }
}
