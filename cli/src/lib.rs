//! The `outlast` command line.
//!
//! - [`args`]: the commands
//! - [`demo`]: a real table is imported while its server is killed and started again
//! - [`dev`]: all of Outlast in one process, for a laptop; as a library, with any app
//! - [`run`], [`tail`], [`ls`], [`show`], [`stop`], [`control`], [`remainder`], [`answer`]: what a server is asked, through
//!   [`client`], with a [`credential`]
//! - [`keys`]: the API keys of a deployment, straight in its table
//! - [`tables`], [`sweep`]: what a deployment on this machine needs besides its functions
//! - [`plan_file`]: a plan, checked before it is sent
//! - [`sse`]: following a run's events; [`follow`], [`progress`] and [`screen`] show them
//! - [`table`]: tables that people and programs can read
//! - [`exit`]: how the program ends

pub mod answer;
pub mod args;
pub mod client;
pub mod control;
pub mod credential;
pub mod demo;
pub mod dev;
pub mod exit;
pub mod follow;
pub mod keys;
pub mod ls;
pub mod plan_file;
pub mod progress;
pub mod remainder;
pub mod run;
pub mod screen;
pub mod show;
pub mod sse;
pub mod stop;
pub mod sweep;
pub mod table;
pub mod tables;
pub mod tail;
pub mod wire;
