//! How a person sees a build that takes minutes: a spinner on a terminal, a line now and then elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, at most one line in this time.
const A_LINE_EACH: Duration = Duration::from_secs(60);

/// Of all packages, on stderr.
pub struct Progress {
    packages: usize,
    at: usize,
    began: Instant,
    shown: Shown,
}

enum Shown {
    Spinner(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    pub fn new(packages: usize) -> Self {
        let now = Instant::now();
        let shown = match std::io::stderr().is_terminal() {
            true => Shown::Spinner(ProgressBar::hidden()),
            false => Shown::Lines { last: now },
        };
        Progress {
            packages,
            at: 0,
            began: now,
            shown,
        }
    }

    pub fn begin(&mut self, package: &str) {
        self.at += 1;
        self.began = Instant::now();
        let what = format!("building {package} ({} of {})", self.at, self.packages);
        match &mut self.shown {
            Shown::Spinner(spinner) => {
                *spinner = ProgressBar::new_spinner();
                let style = ProgressStyle::with_template("{spinner} {prefix} · {elapsed}{wide_msg}");
                spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                spinner.set_prefix(what);
                spinner.enable_steady_tick(Duration::from_millis(200));
            }
            Shown::Lines { last } => {
                *last = self.began;
                eprintln!("{what}");
            }
        }
    }

    /// A line of cargo's.
    pub fn said(&mut self, line: &str) {
        let line = line.trim();
        match &mut self.shown {
            Shown::Spinner(spinner) => spinner.set_message(format!(" · {line}")),
            Shown::Lines { last } if last.elapsed() >= A_LINE_EACH => {
                *last = Instant::now();
                eprintln!("  {} s: {line}", self.began.elapsed().as_secs());
            }
            Shown::Lines { .. } => {}
        }
    }

    /// What is printed next must not be drawn over.
    pub fn end(&mut self) {
        match &self.shown {
            Shown::Spinner(spinner) => spinner.finish_and_clear(),
            Shown::Lines { .. } => eprintln!("  took {} s", self.began.elapsed().as_secs()),
        }
    }
}
