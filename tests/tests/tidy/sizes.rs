//! How long a file may be: one that is read in a sitting.

use crate::{FUNCTIONS, none, sources::sources};

const MOST_LINES: usize = 600;
const USUAL_LINES: usize = 400;

#[test]
fn files_are_small() {
    let sizes: Vec<_> = sources("")
        .map(|source| (source.text.lines().count(), source.path))
        .collect();
    let over = |limit| {
        sizes
            .iter()
            .filter(move |(lines, _)| *lines > limit)
            .map(|(lines, path)| format!("{path}: {lines} lines"))
    };
    let how = "split it by what its parts are about";
    none("a file has at most 600 lines", how, over(MOST_LINES).collect());
    let long: Vec<_> = over(USUAL_LINES).collect();
    if long.len() * 10 > sizes.len() {
        none("nine in ten files have at most 400 lines", how, long);
    }
}

#[test]
fn functions_are_thin() {
    let mains = FUNCTIONS.map(|function| format!("functions/{function}/src/main.rs"));
    let broken =
        sources("functions/").filter(|source| mains.contains(&source.path) && source.text.lines().count() >= 40);
    let broken = broken.map(|source| source.path).collect();
    none(
        "a function's main.rs has less than 40 lines",
        "move the code to assistant or runtime",
        broken,
    );
}
