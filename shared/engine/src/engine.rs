//! The parts that every verb works with.

use std::sync::Arc;

use outlast_core::dispatch_token::DispatchKeys;
use outlast_core::limits::Timing;
use outlast_store::Store;
use tokio_util::sync::CancellationToken;

use crate::agent::Agents;
use crate::dispatch::Dispatcher;
use crate::hints::Hints;
use crate::seams::Seams;

/// One process's engine: what every verb is called with. It holds no state of any run; whatever it knows can be lost with
/// the process.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) beat_store: Store,
    pub(crate) seams: Seams,
    pub(crate) agents: Agents,
    pub(crate) dispatcher: Arc<dyn Dispatcher>,
    pub(crate) dispatch_keys: DispatchKeys,
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
    pub dispatcher: Arc<dyn Dispatcher>,
    pub dispatch_keys: DispatchKeys,
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
            dispatcher,
            dispatch_keys,
            timing,
            holder,
        } = parts;
        let hints = Hints::default();
        Arc::new(Engine {
            store,
            beat_store,
            seams,
            agents,
            dispatcher,
            dispatch_keys,
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
