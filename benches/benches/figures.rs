//! `cargo bench -p outlast-benches`: see the crate's documentation.

fn main() -> anyhow::Result<()> {
    outlast_benches::main()
}
