//! Any document as text. Objects that lie side by side become a table with a line for each; a list
//! of numbers shows its median, and how far the numbers reach; everything else is a line.

use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value};

use super::RunReport;

/// Longer tables are for programs.
const MOST_LINES: usize = 50;

impl Display for RunReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.figures {
            write_figure(out, name, value)?;
        }
        let verdict = if self.passed { "passed" } else { "failed" };
        write!(out, "check: {verdict}")?;
        self.wrong().try_for_each(|why| write!(out, "\n  {why}"))
    }
}

fn write_figure(out: &mut Formatter<'_>, name: &str, value: &Value) -> fmt::Result {
    if let Value::Object(tables) = value
        && !tables.is_empty()
        && tables.values().all(|table| lines_of(table).is_some())
    {
        return tables
            .iter()
            .try_for_each(|(name, table)| write_figure(out, name, table));
    }
    match lines_of(value) {
        Some(lines) if lines.len() <= MOST_LINES => write_table(out, name, &lines),
        Some(lines) => writeln!(out, "{name}: {}", lines.len()),
        None => writeln!(out, "{name}: {}", in_words(value)),
    }
}

/// The lines of a table, each with its name; `None` if the value is no table.
fn lines_of(value: &Value) -> Option<Vec<(String, &Map<String, Value>)>> {
    let lines: Option<Vec<_>> = match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(number, item)| Some((number.to_string(), item.as_object()?)))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| Some((name.clone(), field.as_object()?)))
            .collect(),
        _ => None,
    };
    lines.filter(|lines| !lines.is_empty())
}

fn write_table(
    out: &mut Formatter<'_>,
    name: &str,
    lines: &[(String, &Map<String, Value>)],
) -> fmt::Result {
    let mut columns: Vec<&str> = Vec::new();
    for (_, fields) in lines {
        for column in fields.keys() {
            if !columns.contains(&column.as_str()) {
                columns.push(column);
            }
        }
    }
    let mut cells = vec![vec![format!("{name}:")]];
    cells[0].extend(columns.iter().map(|column| (*column).to_owned()));
    for (name, fields) in lines {
        let mut line = vec![format!("  {name}")];
        for column in &columns {
            line.push(fields.get(*column).map(in_words).unwrap_or_default());
        }
        cells.push(line);
    }
    let widths: Vec<usize> = (0..cells[0].len())
        .map(|column| {
            let widths = cells.iter().map(|line| line[column].chars().count());
            widths.max().unwrap_or_default()
        })
        .collect();
    for line in &cells {
        let mut text = format!("{:<width$}", line[0], width = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if number.is_f64() => short(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => match ValueSpread::of_numbers(items) {
            Some(spread) => spread.to_string(),
            None => items.iter().map(in_words).collect::<Vec<_>>().join("; "),
        },
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| match field {
                Value::Object(_) => format!("{name} ({})", in_words(field)),
                _ => format!("{name} {}", in_words(field)),
            });
            fields.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Enough digits to tell figures apart, no more.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size < 0.000_005 => "0".to_owned(),
        _ => format!("{value:.5}"),
    }
}

/// The middle of some values, and how far they reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ValueSpread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl ValueSpread {
    /// `None` of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            sorted.get(middle.checked_sub(1)?)?.midpoint(sorted[middle])
        };
        Some(Self {
            median,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }

    /// A value that is not finite stands as null in a document.
    fn of_numbers(items: &[Value]) -> Option<Self> {
        let numbers: Option<Vec<f64>> = items
            .iter()
            .map(|item| match item {
                Value::Null => Some(f64::NAN),
                item => item.as_f64(),
            })
            .collect();
        Self::of(&numbers?)
    }
}

impl Display for ValueSpread {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", short(self.median))?;
        if self.min < self.max {
            write!(out, " ({}–{})", short(self.min), short(self.max))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_lies_side_by_side_is_a_table_and_the_rest_a_line() {
        let report = RunReport::of(&json!({
            "bench": {"row": {"heartbeats": {"bare": [1.0], "ours": [3.0, 1.0, 2.5]}, "CPU": {"bare": [null]}}},
            "connect": {"connected": 5, "latency_us": {"p50": 3}, "seconds": 0.25},
            "rows": [{"attack": "knocks", "acks": 12}],
            "samples": vec![json!({"tasks": 1}); 60],
        }))
        .unwrap();
        let text = report.to_string();
        for line in [
            "row:          bare              ours\n",
            "  CPU          NaN\n",
            "  heartbeats  1.00  2.50 (1.00–3.00)\n",
            "connect: connected 5, latency_us (p50 3), seconds 0.25000\n",
            "rows:  acks  attack\n",
            "  0      12  knocks\n",
            "samples: 60\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn figures_have_the_digits_they_need() {
        let shown = [153_000.4, 68.04, 0.005, 0.0, -12_345.0, f64::NAN].map(short);
        assert_eq!(shown, ["153000", "68.04", "0.00500", "0", "-12345", "NaN"]);
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(ValueSpread::of(&[]), None);
        let median = |values: &[f64]| ValueSpread::of(values).map(|spread| spread.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }
}
