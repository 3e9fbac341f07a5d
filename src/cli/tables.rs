//! Tables and numbers for people. Cells may come from elsewhere, so they are made harmless for the
//! terminal.

use std::fmt::{self, Formatter};
use std::iter;

use unicode_width::UnicodeWidthStr;

use crate::base::terminal::harmless;

/// A number of things.
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Bytes in the largest unit of which there is one.
pub(super) fn bytes(n: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, bits)| n >> bits > 0);
    unit.map_or_else(
        || format!("{n} B"),
        |(unit, bits)| format!("{:.1} {unit}", n as f64 / (1_u64 << bits) as f64),
    )
}

/// Writes rows under a head, in aligned columns; writes nothing if there are no rows.
pub(super) fn table<const N: usize>(
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
