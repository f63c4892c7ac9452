//! Tables without lines, that programs can read too.

use comfy_table::Table;

/// The table's lines without padding at their ends; two spaces between columns.
pub fn trimmed(table: &mut Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}
