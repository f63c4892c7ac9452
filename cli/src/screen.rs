//! How a person sees progress: a bar on a terminal, plain lines on a pipe.

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::wire::Totals;

/// Where progress is shown: stdout.
pub enum Screen {
    Bar(ProgressBar),
    /// A line each tenth.
    Lines {
        tenths: u64,
    },
}

impl Screen {
    pub fn on_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Screen::Lines { tenths: 0 };
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stdout());
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} · {elapsed}{wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Screen::Bar(bar)
    }

    pub fn line(&self, text: &str) {
        match self {
            Screen::Bar(bar) => bar.println(text),
            Screen::Lines { .. } => say(text),
        }
    }

    /// For what matters while it lasts: beside the bar, or a line.
    pub fn note(&self, text: &str) {
        match self {
            Screen::Bar(bar) if text.is_empty() => bar.set_message(""),
            Screen::Bar(bar) => bar.set_message(format!(" · {text}")),
            Screen::Lines { .. } if !text.is_empty() => say(text),
            Screen::Lines { .. } => {}
        }
    }

    pub fn update(&mut self, totals: Totals) {
        match self {
            Screen::Bar(bar) => {
                bar.set_length(totals.planned);
                bar.set_position(totals.committed);
            }
            Screen::Lines { tenths } => {
                let reached = (totals.committed * 10).checked_div(totals.planned).unwrap_or(0);
                if reached > *tenths {
                    *tenths = reached;
                    say(&format!("{} of {}", totals.committed, totals.planned));
                }
            }
        }
    }

    /// Leaves what was drawn standing.
    pub fn done(&self) {
        if let Screen::Bar(bar) = self {
            bar.abandon();
        }
    }
}

/// A line on stdout, now; a reader that has gone is no reason to panic.
pub fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}
