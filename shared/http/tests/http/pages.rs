//! Every code has its page, and every page its code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use outlast_http::Code;

/// What the agents of this repository say of inputs that they refuse.
const OF_AGENTS: [&str; 4] = ["invalid_plan", "plan_too_large", "unknown_tool", "invalid_tool_input"];

#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("docs/errors is there") {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        if name == "README" {
            continue;
        }
        assert!(text.starts_with(&format!("# {name}\n")), "{name} begins with its code");
        for part in ["## What happened\n", "## What to do\n"] {
            assert!(text.contains(part), "{name} has {part}");
        }
        pages.insert(name);
    }
    let codes: BTreeSet<String> = Code::ALL
        .iter()
        .map(|code| code.as_str())
        .chain(OF_AGENTS)
        .map(str::to_owned)
        .collect();
    assert_eq!(pages, codes);
    let index = fs::read_to_string(folder.join("README.md")).expect("an index");
    for code in Code::ALL {
        let line = format!(
            "| [{code}]({code}.md) | {status} |",
            code = code.as_str(),
            status = code.status().as_u16()
        );
        assert!(index.contains(&line), "README.md has {line}");
    }
}
