//! The table that is printed.

use comfy_table::{CellAlignment, Table, presets};

use crate::samples::{Aim, Figure, Unit, median};

pub fn print(figures: &[Figure]) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "figure", "n", "median", "p99", "floor", "median", "p99", "ratio", "aim", "reached",
    ]);
    for column in [1, 2, 3, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for figure in figures {
        table.add_row(row(figure));
    }
    println!("\n{table}\n");
    println!(
        "p99 is the slow end: of times the 99th percentile, of rates the first. A ratio is the median of the pairs' ratios."
    );
}

fn row(figure: &Figure) -> [String; 10] {
    let value = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| shown(figure.unit, value));
    let ratio = figure.ratio().map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
    let reached = match figure.reaches_aim() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    [
        figure.name.into(),
        figure.ours.len().to_string(),
        value(median(&figure.ours)),
        value(figure.slow_end(&figure.ours)),
        figure.floor_name.into(),
        value(median(&figure.floor)),
        value(figure.slow_end(&figure.floor)),
        ratio,
        aim(figure.aim),
        reached.into(),
    ]
}

fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Milliseconds if value < 10.0 => format!("{value:.2} ms"),
        Unit::Milliseconds => format!("{value:.0} ms"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Megabytes => format!("{value:.1} MB"),
    }
}

fn aim(aim: Aim) -> String {
    match aim {
        Aim::RatioAtMost(most) => format!("ratio <= {most:.2}"),
        Aim::RatioAtLeast(least) => format!("ratio >= {least:.2}"),
        Aim::Milliseconds { median, p99: None } => format!("{median} ms"),
        Aim::Milliseconds { median, p99: Some(p99) } => format!("{median} / {p99} ms"),
        Aim::Megabytes(most) => format!("{most} MB"),
        Aim::None => String::new(),
    }
}
