//! The router over an engine on the test double, as clients see it.

mod answers;
mod any_bytes;
mod control;
mod doors;
mod events;
mod inline;
mod internal;
mod lines;
mod pages;
mod read_tokens;
mod route_table;
mod secrets;
mod show;
mod signed;
mod start;
mod stream;
mod stream_faults;
mod support;
