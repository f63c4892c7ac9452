//! Where runs and their logs live: the table port, its DynamoDB adapter, and the test double.
//!
//! - [`table`]: the port, a handful of requests in DynamoDB's own terms; every outcome that matters is a type
//! - [`dynamodb`]: the adapter, through the AWS SDK; counts requests and capacity
//! - [`store`]: what the engine calls: rows, pages, transactions of both, indexes; retries what may be retried
//! - [`schema`]: the two tables, as data; [`dynamodb::create_tables`] makes them
//! - [`memory`]: the test double, with a fault script
//! - [`records`]: a user's own table, for `put_record`

mod blobs;
pub mod dynamodb;
mod keys;
pub mod memory;
pub mod meter;
mod pages;
pub mod records;
mod rows;
pub mod schema;
mod size;
pub mod store;
pub mod table;

pub use keys::KeyRecord;
pub use meter::Meter;
pub use store::{
    Acceptance, Accepted, AnswerRecord, AnswerWrite, LogSlice, PagePut, Pause, RowAndPageWrite, RowWrite, RunList,
    Store, StoreError, Turn, TurnRecord, WireEvent, WireSlice,
};
