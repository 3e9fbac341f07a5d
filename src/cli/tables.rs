//! Tables and numbers for people. Cells may come from other programs, so [`table`] makes them
//! harmless for the terminal.

use std::fmt::{self, Formatter};
use std::iter;

use unicode_width::UnicodeWidthStr;

use crate::base::terminal::harmless;

/// A number of things, such as `2 lives`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Bytes in the largest unit that gives at least 1, such as `1.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    for (unit, bits) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if n >> bits > 0 {
            return format!("{:.1} {unit}", n as f64 / (1_u64 << bits) as f64);
        }
    }
    format!("{n} B")
}

/// Writes rows under a head, in aligned columns. Writes nothing if there are no rows.
pub(crate) fn table<const N: usize>(
    f: &mut Formatter<'_>,
    head: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let rows = rows
        .iter()
        .map(|row| std::array::from_fn(|column| harmless(&row[column])));
    let rows: Vec<[String; N]> = iter::once(head.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    });
    writeln!(f)?;
    for row in &rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| cell.clone() + &" ".repeat(width - cell.width()));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
