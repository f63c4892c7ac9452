//! Documents name tests and link to files: both must be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shown::root;

#[test]
fn a_test_that_is_named_exists() {
    let mut functions = BTreeSet::new();
    for folder in ["shared", "cli", "tests", "functions"] {
        for file in files_of(&root().join(folder), "rs") {
            let text = fs::read_to_string(file).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|after| after.split_once('('));
            functions.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    let guarantees = fs::read_to_string(root().join("docs/GUARANTEES.md")).unwrap();
    let named: Vec<&str> = guarantees
        .split('`')
        .skip(1)
        .step_by(2)
        // Three underscores: a sentence, as tests have for a name.
        .filter(|name| name.matches('_').count() >= 3 || name.starts_with("on_"))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !functions.contains(**name)).collect();
    assert!(
        missing.is_empty(),
        "docs/GUARANTEES.md names tests that are not there: {missing:?}"
    );
}

#[test]
fn a_link_leads_somewhere() {
    let mut documents = files_of(&root().join("docs"), "md");
    documents.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)));
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|after| after.split_once(')'));
        for (target, _) in targets.filter(|(target, _)| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let linked = fs::read_to_string(&path);
            let is_there = path.is_dir() || linked.is_ok_and(|text| heading.is_empty() || has_heading(&text, heading));
            if !is_there {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// A heading's anchor, as GitHub makes it: lower case, `-` for a space, without punctuation.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .any(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-") == anchor
        })
}

fn files_of(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_of(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files
}
