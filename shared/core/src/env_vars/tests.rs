//! `docs/CONFIGURATION.md` lists the variables as they are here, not as somebody remembers them.

use std::fmt::Write as _;

use super::*;
use crate::generated::assert_documented;

#[test]
fn configuration_is_documented_as_it_is() {
    assert_documented(
        "CONFIGURATION.md",
        "variables",
        &format!("\n{}\n", table()),
        "configuration",
    );
}

fn table() -> String {
    let mut table = String::from("| variable | default | unit | meaning |\n| --- | --- | --- | --- |\n");
    for variable in ALL {
        let default = variable.default.filter(|default| !default.is_empty());
        let default = default.map(|default| format!("`{default}`")).unwrap_or_default();
        let secret = if variable.secret { " A secret." } else { "" };
        let (name, meaning) = (variable.name, variable.meaning);
        let unit = variable.unit.unwrap_or_default();
        let _ = writeln!(table, "| `{name}` | {default} | {unit} | {meaning}{secret} |");
    }
    table
}

#[test]
fn each_variable_is_listed_once() {
    let mut names: Vec<_> = ALL.iter().map(|variable| variable.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    assert!(ALL.iter().all(|variable| !variable.meaning.is_empty()));
}
