//! The engine: what is done to runs, one verb a file, over ports. In the order of a run's life:
//!
//! 1. [`accept`]: a request becomes a run; one transaction
//! 2. [`dispatch`]: ids and a token, to where the work will happen
//! 3. [`process`] checks what arrives, [`carry`] is one chunk from claim to close;
//!    [`continue_inline`]: its client asks for it
//! 4. [`claim`]: taking the lease, reading the log, `run.claimed`
//! 5. [`work`]: one chunk, from its claim to its hand-off or its end; [`ctx`] is what an agent's code sees of it
//! 6. [`step`]: a unit of work, started once it is in the log and committed once
//!    [`mod@wait`] and [`ask`] are what a run may wait for, points in time and answers; [`mod@parallel`] runs branches
//! 7. [`append`]: the holder's pages, one in flight
//! 8. [`heartbeat`]: the lease, on its own
//! 9. [`close`]: the hand-off, the park, the finish: row and page in one transaction; [`owed`]: what only the holder can log
//! 10. [`follow`] serves readers
//! 11. [`sweep`], [`control`]: what everyone else may do to a run: look at what is due, stop; [`answer`] what it asks
//! 12. [`show`], [`remainder`]: what a run looks like from outside, and what is left to do; [`retry`]: a new run does it
//!
//! Time, randomness and threads are [`seams`]: nothing here reads a clock of its own.

pub mod accept;
pub mod agent;
pub mod answer;
pub mod append;
pub mod ask;
pub mod carry;
pub mod claim;
pub mod close;
pub mod continue_inline;
pub mod control;
pub mod ctx;
pub mod dispatch;
pub mod engine;
pub mod error;
pub mod follow;
pub mod heartbeat;
pub mod hints;
pub mod owed;
pub mod parallel;
pub mod process;
pub mod remainder;
pub mod retry;
pub mod seams;
pub mod show;
pub mod step;
pub mod sweep;
pub mod wait;
pub mod work;

mod chunk;
mod lease;
mod own_wakes;
mod quiet;

pub use agent::{Agent, Agents, BadInput, Returned};
pub use ask::{Ask, Question};
pub use ctx::Ctx;
pub use engine::{Engine, EngineParts};
pub use error::EngineError;
pub use parallel::{Branch, Limits, Parallel};
pub use step::{BodyError, StepCall, StepError};
