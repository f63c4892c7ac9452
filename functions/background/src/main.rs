//! The background function.

use outlast_runtime::{Host, lambda};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    lambda::serve(assistant::app(), Host::background()).await
}
