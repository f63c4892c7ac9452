//! Parts of the documentation that are made from the code, and compared with it.

use std::path::Path;

/// `file` of `docs/` holds just `text` between the lines that begin and end what is generated as `name`. To write it there: this
/// test with `OUTLAST_TEST_WRITE_DOCS=1`.
pub fn assert_documented(file: &str, name: &str, text: &str, test: &str) {
    let begin = format!("<!-- begin generated: {name} -->\n");
    let end = format!("<!-- end generated: {name} -->");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let whole = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = whole
        .split_once(&begin)
        .expect("the file has the line that begins what is generated");
    let (checked_in, after) = rest
        .split_once(&end)
        .expect("the file has the line that ends what is generated");
    if std::env::var_os("OUTLAST_TEST_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{text}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        checked_in, text,
        "docs/{file} is out of date: OUTLAST_TEST_WRITE_DOCS=1 cargo test -p outlast-core {test}"
    );
}
