//! A plan, shown.

use std::io::IsTerminal as _;

use comfy_table::{ContentArrangement, Table, presets};

use crate::manifest;
use crate::plan::Function;

/// For stdout.
pub fn shown(functions: &[Function]) -> String {
    let width = std::io::stdout().is_terminal().then(|| Table::new().width()).flatten();
    render(functions, width)
}

/// A row a file, without lines between them; as wide as it likes without a width.
fn render(functions: &[Function], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["FILE", "LIMITS", "PATHS", "ENVIRONMENT"]);
    for function in functions {
        let what = format!(
            "{}\n  app {}\n  {}\n  {}",
            function.file, function.app, function.role, function.arch
        );
        let limits = format!(
            "soft cap {} s\ntimeout {} s\nmemory {} MB",
            function.soft_cap_ms / 1000,
            function.timeout_seconds,
            function.memory_mb
        );
        let public = match function.routes.as_slice() {
            [] => String::from("no URL"),
            routes => routes.join("\n"),
        };
        let environment: Vec<_> = function
            .environment
            .iter()
            .map(|setting| setting.name.as_str())
            .collect();
        table.add_row([what, limits, public, environment.join("\n")]);
    }
    table.add_row([manifest::FILE]);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arch, Role, plan, tests::package};

    fn functions() -> Vec<Function> {
        let packages = [
            package("foreground", "assistant", Role::Foreground),
            package("background", "assistant", Role::Background),
        ];
        plan(&packages, &[Role::Foreground, Role::Background], Arch::X86_64).unwrap()
    }

    #[test]
    fn a_plan_fits_into_a_terminal() {
        let table = render(&functions(), Some(80));
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_program_gets_it_as_wide_as_it_is() {
        let table = render(&functions(), None);
        let files: Vec<_> = table.lines().filter(|line| line.contains(".zip")).collect();
        assert_eq!(files.len(), 2, "{table}");
    }
}
