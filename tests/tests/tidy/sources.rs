//! The Rust files of the workspace, and words in them.

use std::{collections::BTreeSet, fs, process::Command};

use crate::root;

pub struct Source {
    /// From the workspace's root.
    pub path: String,
    pub text: String,
}

impl Source {
    /// The lines of code that hold one of these words, each with its place. Comments may name anything.
    pub fn lines_with(&self, words: &[&str]) -> Vec<String> {
        found(&self.path, self.text.lines(), words)
    }

    /// The same without what only tests compile, which by custom stands last in a file or in a file of its own.
    pub fn shipped_lines_with(&self, words: &[&str]) -> Vec<String> {
        if self.path.ends_with("tests.rs") || self.path.contains("/tests/") {
            return Vec::new();
        }
        let tests = |(first, second): (&str, &str)| {
            first.trim() == "#[cfg(test)]" && second.contains("mod ") && second.ends_with('{')
        };
        let mut pairs = self.text.lines().zip(self.text.lines().skip(1));
        let shipped = pairs.position(tests).unwrap_or(usize::MAX);
        found(&self.path, self.text.lines().take(shipped), words)
    }
}

fn found<'a>(path: &str, lines: impl Iterator<Item = &'a str>, words: &[&str]) -> Vec<String> {
    let code = lines
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    let with_word = code.filter(|(_, line)| words.iter().any(|word| has_word(line, word)));
    with_word
        .map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim()))
        .collect()
}

/// Whether the word stands in the line and is not the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The Rust files below a folder: those that git has, and the new ones that it would take.
pub fn sources(below: &str) -> impl Iterator<Item = Source> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.rs",
    ])
    .current_dir(root());
    let output = git.output().expect("git is there");
    assert!(
        output.status.success(),
        "git ls-files failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let paths = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let paths: BTreeSet<String> = paths
        .split_terminator('\0')
        .filter(|path| path.starts_with(below))
        .map(Into::into)
        .collect();
    // One that was deleted and not yet committed as such is still listed.
    paths.into_iter().filter_map(|path| {
        Some(Source {
            text: fs::read_to_string(root().join(&path)).ok()?,
            path,
        })
    })
}

#[test]
fn words_are_found_in_code_only() {
    let check = |text: &str, found: usize| {
        let source = Source {
            path: String::from("a.rs"),
            text: text.into(),
        };
        assert_eq!(source.shipped_lines_with(&["rand::"]).len(), found, "{text}");
    };
    check("let n = rand::random();", 1);
    check("let n = operand::random();", 0);
    check("let n = operand::one() + rand::random();", 1);
    check("// as rand::random() would", 0);
    check("let a = 1;\n#[cfg(test)]\nmod tests {\n    use rand::Rng;\n}", 0);
    check("#[cfg(test)]\nmod tests;\nuse rand::Rng;", 1);
}
