//! What tests share.
//!
//! - [`counting`]: an HTTP server that counts each key's requests
//! - [`dev`]: `outlast dev` as a process to kill and start again
//! - [`dynamodb_local`]: Amazon's DynamoDB Local, started for a test and gone after it
//! - [`embedded`]: the embedded server of `outlast dev`, likewise
//! - [`lambda`]: AWS Lambda, for the real binaries of functions
//! - [`log_rules`]: what every log of a run keeps to, as its readers get it
//! - [`reader`]: a reader that reconnects
//! - [`requests`]: counts what really goes out to DynamoDB
//! - [`rig`]: an engine with everything around it in one process
//! - [`table_proxy`]: what goes wrong between a function and DynamoDB
//! - [`tools`]: what `cargo xtask fetch` has got
//! - [`scripted`]: an agent whose code is a test's
//! - [`wait`]: waiting for a condition instead of sleeping
//! - [`watch`]: the real functions under the real `cargo lambda watch`

pub mod counting;
pub mod dev;
pub mod dynamodb_local;
pub mod embedded;
pub mod lambda;
pub mod log_rules;
pub mod reader;
pub mod requests;
pub mod rig;
pub mod scripted;
pub mod table_proxy;
pub mod tools;
pub mod wait;
pub mod watch;
