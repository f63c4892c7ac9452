//! The pure core of Outlast: what a run is, what may happen to it, and what its log means.
//!
//! Nothing here reads a clock, awaits, or knows of DynamoDB: time and randomness are arguments. In reading order:
//!
//! 1. [`ids`], [`time`], [`payload`], [`key`]: the words everything else is said in
//! 2. [`run`] and [`transition`]: a run's row, and the one table of what each command does to it
//! 3. [`event`], [`page`], [`fold`]: the event log, and what a holder knows after reading it
//! 4. [`step`], [`outcome`]: units of work, and the computed ending
//! 5. [`time_budget`], [`limits`], [`dispatch_token`], [`digest`]: bounds and proofs
//! 6. [`api_key`], [`read_token`], [`scope`]: who may do what
//! 7. [`paths`], [`env_vars`]: what a deployment is addressed by and told

pub mod api_key;
pub mod digest;
pub mod dispatch_token;
pub mod env_vars;
pub mod event;
pub mod fold;
#[cfg(test)]
mod generated;
pub mod ids;
pub mod key;
pub mod limits;
pub mod outcome;
pub mod page;
pub mod paths;
pub mod payload;
pub mod read_token;
pub mod run;
pub mod scope;
pub mod step;
pub mod time;
pub mod time_budget;
pub mod transition;

pub use event::{Event, EventBody};
pub use fold::{Fold, Tail};
pub use ids::{AgentName, ClaimToken, Owner, RunId, StepKey, ThreadKey, TurnKey, WriteId};
pub use outcome::{Outcome, Reason};
pub use page::{Page, Writer};
pub use payload::Payload;
pub use run::{Cost, Executor, Run, Status, Totals};
pub use scope::{Scope, Scopes};
pub use time::Timestamp;
pub use transition::{Change, Command, Refusal, Then, apply};
