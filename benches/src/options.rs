//! What the benchmarks can be told.

use std::path::PathBuf;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench", about = "Measures each figure beside its floor")]
pub struct Options {
    /// Only figures whose name contains one of these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Fewer samples: to see that everything works
    #[arg(long)]
    pub quick: bool,
    /// What `deploy-builder build --out` has put out: for bundle-size and cold-start, which are left out without it
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
    /// Say which figures there are
    #[arg(long)]
    pub list: bool,
    /// Be the server of a reader on this table endpoint; how this program starts itself
    #[arg(long, hide = true, value_name = "URL")]
    pub serve_reader: Option<String>,
    /// What cargo tells every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }

    /// Whether there is what this figure measures; one that is asked for by name says itself what it lacks.
    pub fn has_what_it_takes(&self, name: &str) -> bool {
        let is_of_bundle = matches!(name, "bundle-size" | "cold-start");
        !is_of_bundle || self.bundle.is_some() || !self.names.is_empty()
    }

    /// How many samples: all of them, or few.
    pub fn samples(&self, all: usize, few: usize) -> usize {
        if self.quick { few } else { all }
    }
}
