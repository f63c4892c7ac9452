//! How far it is, and what came out.

use std::time::Instant;

use outlast_core::digest::sha256_hex;

/// A line a stage, with the time since the beginning, on stderr.
pub struct Progress {
    began: Instant,
}

impl Progress {
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }

    pub fn say(&self, text: &str) {
        let seconds = self.began.elapsed().as_secs();
        eprintln!("[{:>2}m{:02}s] {text}", seconds / 60, seconds % 60);
    }
}

/// What was compared.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
    /// Of what isn't as promised: what may help to find out why.
    hints: Vec<String>,
}

struct Row {
    what: String,
    bytes: String,
    sha256: String,
    came_out: &'static str,
}

impl Report {
    /// These bytes are the same as others, or not.
    pub fn compared(&mut self, what: String, bytes: &[u8], hint: Option<String>) {
        self.rows.push(Row {
            bytes: bytes.len().to_string(),
            // Enough to tell two apart, and to find it in a manifest.
            sha256: sha256_hex(bytes)[..16].to_owned(),
            came_out: came_out(hint.is_none(), "equal"),
            what,
        });
        self.hints.extend(hint);
    }

    /// Something else holds, or not.
    pub fn holds(&mut self, what: impl Into<String>, hint: Option<String>) {
        self.rows.push(Row {
            what: what.into(),
            bytes: String::new(),
            sha256: String::new(),
            came_out: came_out(hint.is_none(), "yes"),
        });
        self.hints.extend(hint);
    }

    /// The table on stdout. Whether everything is as promised.
    pub fn print(&self) -> bool {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>9}  {:16}", "what", "bytes", "sha256");
        for row in &self.rows {
            println!(
                "{:width$}  {:>9}  {:16}  {}",
                row.what, row.bytes, row.sha256, row.came_out
            );
        }
        for hint in &self.hints {
            println!("\n{hint}");
        }
        match self.hints.is_empty() {
            true => println!("\nThe splitter changes nothing but what it is asked for."),
            false => println!("\nNot as promised: {} of {}.", self.hints.len(), self.rows.len()),
        }
        self.hints.is_empty()
    }
}

fn came_out(well: bool, word: &'static str) -> &'static str {
    if well { word } else { "NO" }
}
