//! What the benchmarks can be told.

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

    /// How many samples: all of them, or few.
    pub fn samples(&self, all: usize, few: usize) -> usize {
        if self.quick { few } else { all }
    }
}
