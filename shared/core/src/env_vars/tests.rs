//! `docs/CONFIGURATION.md` lists the variables as they are here, not as somebody remembers them.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

const BEGIN: &str = "<!-- begin generated: variables -->\n";
const END: &str = "<!-- end generated: variables -->";

#[test]
fn configuration_is_documented_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the file has the line that begins what is generated");
    let (checked_in, after) = rest
        .split_once(END)
        .expect("the file has the line that ends what is generated");
    let listed = format!("\n{}\n", table());
    if std::env::var_os("OUTLAST_TEST_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{listed}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        checked_in, listed,
        "docs/CONFIGURATION.md is out of date: OUTLAST_TEST_WRITE_DOCS=1 cargo test -p outlast-core configuration"
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
