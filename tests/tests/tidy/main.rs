//! The rules of this workspace that no compiler keeps. Each failure names the place, the rule and what to do.
//!
//! - [`dependencies`]: which way they point, and what is linked with what;
//! - [`sizes`]: how long a file may be;
//! - [`words`]: what only one place may name.

mod dependencies;
mod sizes;
mod sources;
mod words;

use std::path::Path;

const FUNCTIONS: [&str; 2] = ["foreground", "background"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lies in the workspace")
}

fn none(rule: &str, instead: &str, broken: Vec<String>) {
    assert!(
        broken.is_empty(),
        "\nrule: {rule}\nbroken by:\n  {}\nwhat to do: {instead}\n",
        broken.join("\n  ")
    );
}
