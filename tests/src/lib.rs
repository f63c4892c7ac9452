//! What tests share.
//!
//! - [`dynamodb_local`]: Amazon's DynamoDB Local, started for a test and gone after it;
//! - [`embedded`]: the embedded server of `outlast dev`, likewise;
//! - [`wait`]: waiting for a condition instead of sleeping.

pub mod dynamodb_local;
pub mod embedded;
pub mod wait;
