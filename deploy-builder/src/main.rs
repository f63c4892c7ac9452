//! The splitter.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
