//! A model of how Outlast's event log is written, small enough to be checked in every one of its states.
//!
//! The log is what everybody can see of a run, so it is also what keeps writers apart: a holder that was overtaken
//! learns of it because its page finds its place taken. `docs/LOG-RULES.md` states the rules in words; here they are
//! code, each with a switch that takes it away, so that a test can show what it is for.
//!
//! In reading order: [`log`] and [`row`] are what is stored, [`holder`] is one writer's view of it, [`writes`] is how
//! they write (the rules), [`model`] puts them into one world, [`properties`] says what must hold, [`explore`] looks.

pub mod explore;
pub mod holder;
pub mod log;
pub mod model;
pub mod properties;
pub mod row;
pub mod rules;
pub mod timeline;
mod writes;
