//! Between `<!-- begin shown: FILE -->` and `<!-- end shown -->` the README has that file's text, as it is.

use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "<!-- end shown -->";

#[test]
fn what_is_shown_is_what_is_run() {
    let path = root().join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let mut shown = Vec::new();
    let current = filled_in(&text, &mut shown);
    if std::env::var_os("OUTLAST_TEST_WRITE_DOCS").is_some() {
        fs::write(&path, current).unwrap();
        return;
    }
    assert!(
        text == current,
        "README.md is out of date: OUTLAST_TEST_WRITE_DOCS=1 cargo test -p outlast-tests --test guide shown"
    );
    assert_eq!(shown, ["tests/tests/guide/tool.rs", "tests/tests/guide/agent.rs"]);
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn filled_in(text: &str, shown: &mut Vec<String>) -> String {
    let mut parts = text.split("<!-- begin shown: ");
    let mut current = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let (file, rest) = part.split_once(" -->").expect("the marker ends on its line");
        let (_, after) = rest.split_once(END).expect("what begins ends");
        let code = fs::read_to_string(root().join(file)).unwrap();
        current.push_str(&format!(
            "<!-- begin shown: {file} -->\n\n```rust\n{code}```\n\n{END}{after}"
        ));
        shown.push(file.to_owned());
    }
    current
}
