//! The report as text: the table on standard output, and the words that the plots share with it.

use std::fmt::{self, Display, Formatter};

use super::document::{Judged, Report};
use crate::bench::budgets::Verdict;
use crate::bench::figures::{Spread, Who};
use crate::bench::rows;

const CONTENDERS: [Who; 3] = [Who::Rollcall, Who::Bare, Who::Naive];

/// Enough digits to tell figures apart, no more.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        // Not a number, or a ratio to nothing.
        size if !size.is_finite() => value.to_string(),
        size if size >= 10_000.0 => {
            let digits = format!("{value:.0}");
            let (sign, digits) = digits
                .strip_prefix('-')
                .map_or(("", &*digits), |rest| ("-", rest));
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .filter_map(|group| std::str::from_utf8(group).ok())
                .collect();
            format!("{sign}{}", groups.join(","))
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size < 0.000_005 => "0".to_owned(),
        _ => format!("{value:.5}"),
    }
}

fn spread(spread: Spread) -> String {
    if spread.min == spread.max {
        return short(spread.median);
    }
    format!(
        "{} ({}–{})",
        short(spread.median),
        short(spread.min),
        short(spread.max)
    )
}

/// A line for each budget that is broken or was not measured.
pub(crate) fn broken_budgets(report: &Report) -> Vec<String> {
    report
        .budgets
        .iter()
        .filter(|judged| judged.verdict != Verdict::Kept)
        .map(in_words)
        .collect()
}

/// A budget and its verdict in one line.
pub(super) fn in_words(judged: &Judged) -> String {
    let budget = &judged.budget;
    let bound = match (budget.at_least, budget.at_most) {
        (Some(least), _) => format!("≥ {}", short(least)),
        (_, Some(most)) => format!("≤ {}", short(most)),
        _ => String::new(),
    };
    let of = budget
        .of
        .map_or(String::new(), |of| format!(" × {}", of.as_str()));
    let found = judged.found.map_or("not measured".to_owned(), |found| {
        format!("{}{of}", spread(found))
    });
    format!(
        "{}: {}: {found}, must be {bound}{of}",
        budget.row, budget.measure
    )
}

pub(super) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "ok",
        Verdict::Broken => "NOT REACHED",
        Verdict::NotMeasured => "NOT MEASURED",
    }
}

/// The cells of one line of the table: what each contender has.
fn columns(report: &Report, row: &str, measure: &str) -> [String; 3] {
    CONTENDERS.map(|who| {
        let figure = report.run.find(row, measure, who);
        figure
            .and_then(|figure| Spread::of(&figure.rounds))
            .map_or(String::new(), spread)
    })
}

/// Row and measure of every figure, each once, in order.
pub(super) fn lines(report: &Report) -> Vec<(&str, &str, &str)> {
    let mut lines: Vec<(&str, &str, &str)> = Vec::new();
    for figure in &report.run.figures {
        if !lines
            .iter()
            .any(|(row, measure, _)| *row == figure.row && *measure == figure.measure)
        {
            lines.push((&figure.row, &figure.measure, &figure.unit));
        }
    }
    // A measure that its row noted late still stands beside the row's other measures.
    let order: Vec<&str> = lines.iter().map(|line| line.0).collect();
    lines.sort_by_key(|line| order.iter().position(|row| *row == line.0));
    lines
}

pub(super) fn machine(report: &Report) -> String {
    let machine = &report.machine;
    format!(
        "{} × {}, {:.0} GiB, Linux {}, Redis {}; server and generator share it",
        machine.cores,
        machine.cpu_model,
        machine.memory_bytes as f64 / (1_u64 << 30) as f64,
        machine.kernel,
        report.redis
    )
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", machine(self))?;
        if self.quick {
            writeln!(out, "QUICK: numbers too small to say anything about speed")?;
        }
        writeln!(out, "median (lowest–highest of the rounds)\n")?;
        let lines = lines(self);
        let width = lines
            .iter()
            .map(|(_, measure, unit)| label(measure, unit).chars().count())
            .max()
            .unwrap_or(0);
        let mut last = "";
        for (row, measure, unit) in lines {
            if row != last {
                let what = rows::ALL
                    .iter()
                    .find(|known| known.name == row)
                    .map_or("", |known| known.what);
                writeln!(out, "{row}: {what}")?;
                writeln!(
                    out,
                    "  {:<width$} {:>30} {:>30} {:>30}",
                    "", "rollcall", "bare", "naive"
                )?;
                last = row;
            }
            let [ours, bare, naive] = columns(self, row, measure);
            writeln!(
                out,
                "  {:<width$} {ours:>30} {bare:>30} {naive:>30}",
                label(measure, unit)
            )?;
        }
        for (row, why) in &self.run.not_run {
            writeln!(out, "{row}: NOT MEASURED: {why}")?;
        }
        if !self.budgets.is_empty() {
            writeln!(out, "\nbudgets")?;
        }
        for judged in &self.budgets {
            writeln!(out, "  {:<13} {}", mark(judged.verdict), in_words(judged))?;
        }
        Ok(())
    }
}

/// A measure with its unit, if it has one.
fn label(measure: &str, unit: &str) -> String {
    match unit {
        "" => measure.to_owned(),
        unit => format!("{measure}, {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Figures;

    #[test]
    fn figures_have_the_digits_they_need() {
        let shown = [153_000.4, 9_200.0, 68.04, 5.712, 0.005, 0.0, -12_345.0].map(short);
        assert_eq!(
            shown,
            ["153,000", "9200", "68.0", "5.71", "0.00500", "0", "-12,345"]
        );
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            1e-300,
            -0.25,
            -123_456_789.0,
        ]
        .map(short);
        assert_eq!(
            odd,
            ["NaN", "inf", "-inf", "0", "0", "-0.25000", "-123,456,789"]
        );
        assert_eq!(
            spread(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }),
            "2.00 (1.00–3.00)"
        );
        assert_eq!(
            spread(Spread {
                median: 2.0,
                min: 2.0,
                max: 2.0
            }),
            "2.00"
        );
    }

    #[test]
    fn a_table_has_a_line_for_each_measure_whatever_its_values_are() {
        let machine = crate::proc_stats::Machine::read();
        let mut run = Figures::default();
        assert!(table(&machine, Figures::default()).contains("median"));
        for (number, value) in [-1.0, 0.0, f64::MAX, f64::MIN, f64::NAN, f64::NEG_INFINITY]
            .into_iter()
            .enumerate()
        {
            run.note(
                "row",
                Who::Rollcall,
                (&format!("measure {number}"), "B"),
                value,
            );
            run.note(
                "row",
                Who::Rollcall,
                (&format!("measure {number}"), "B"),
                -value,
            );
        }
        let table = table(&machine, run);
        assert!(
            (0..6).all(|number| table.contains(&format!("measure {number}, B"))),
            "{table}"
        );
        assert!(table.contains("0 (-1.00–1.00)"), "{table}");
    }

    fn table(machine: &crate::proc_stats::Machine, run: Figures) -> String {
        let (machine, redis, budgets) = (machine.clone(), String::new(), Vec::new());
        Report {
            version: "0",
            machine,
            redis,
            quick: true,
            budgets,
            run,
        }
        .to_string()
    }
}
