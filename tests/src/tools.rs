//! The tools that `cargo xtask fetch` gets.

use std::{env, path::PathBuf};

/// What `cargo xtask test` announces in `variable`; without it, what `cargo xtask fetch` left in the target folder, in
/// which this test lies too.
pub fn find(variable: &str, name: &str) -> Result<PathBuf, String> {
    let announced = env::var_os(variable).map(PathBuf::from);
    let test = env::current_exe().map_err(|error| error.to_string())?;
    let fetched = || {
        test.ancestors()
            .map(|folder| folder.join("tools").join(name))
            .find(|tool| tool.exists())
    };
    announced
        .or_else(fetched)
        .ok_or_else(|| format!("tools/{name}, which this test needs, is lacking"))
}
