//! The plots of a report: one panel per measure, with a bar and its spread for each contender.

use std::path::Path;

use anyhow::Context;
use plotters::prelude::*;

use super::document::Report;
use super::text;
use crate::bench::figures::{Spread, Who};
use crate::report::page::Page;

const WIDTH: u32 = 1_080;
const COLUMNS: usize = 3;
const PANEL: u32 = 190;
const HEAD: u32 = 60;

/// Writes the plots to an `.svg` file, or together with the table to an `.html` file.
pub(crate) fn write(report: &Report, file: &Path) -> anyhow::Result<()> {
    let svg = draw(report)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("the plots")?;
    page(report, svg).write(file)
}

fn draw(report: &Report) -> Result<String, Box<dyn std::error::Error>> {
    let lines = text::lines(report);
    let height = HEAD + PANEL * (lines.len().div_ceil(COLUMNS).max(1) as u32);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        head.draw_text(
            "loadtest bench",
            &("sans-serif", 20).into_text_style(&head),
            (12, 8),
        )?;
        head.draw_text(
            &text::machine(report),
            &("sans-serif", 13).into_text_style(&head),
            (12, 36),
        )?;
        let panels = body.split_evenly((lines.len().div_ceil(COLUMNS).max(1), COLUMNS));
        for (panel, (row, measure, unit)) in panels.iter().zip(&lines) {
            bars(report, panel, (row, measure, unit))?;
        }
        root.present()?;
    }
    Ok(svg)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn bars(
    report: &Report,
    panel: &Panel<'_>,
    (row, measure, unit): (&str, &str, &str),
) -> Result<(), Box<dyn std::error::Error>> {
    let found: Vec<(Who, Spread)> = [Who::Rollcall, Who::Bare, Who::Naive]
        .into_iter()
        .filter_map(|who| {
            Some((
                who,
                Spread::of(&finite(&report.run.find(row, measure, who)?.rounds))?,
            ))
        })
        .collect();
    let scale = Scale::of(found.iter().map(|(_, spread)| *spread));
    let title = if unit.is_empty() {
        format!("{row}: {measure}")
    } else {
        format!("{row}: {measure}, {unit}")
    };
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 12))
        .margin(6)
        .x_label_area_size(20)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..3.0, scale.axis())?;
    let label = |height: &f64| text::short(scale.value(*height));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(4)
        .y_label_formatter(&label)
        .draw()?;
    for (place, (who, spread)) in found.iter().enumerate() {
        let left = place as f64 + 0.2;
        let color = match who {
            Who::Rollcall => RGBColor(37, 99, 235),
            Who::Bare => RGBColor(120, 120, 120),
            Who::Naive => RGBColor(217, 119, 6),
        };
        let [median, min, max] =
            [spread.median, spread.min, spread.max].map(|value| scale.height(value));
        chart.draw_series([
            Rectangle::new([(left, 0.0), (left + 0.6, median)], color.filled()),
            Rectangle::new([(left + 0.29, min), (left + 0.31, max)], BLACK.filled()),
        ])?;
        let text = format!("{} {}", who.as_str(), text::short(spread.median));
        chart.draw_series([Text::new(
            text,
            (left, max.max(0.0) + 0.08),
            ("sans-serif", 11),
        )])?;
    }
    Ok(())
}

/// The table shows infinite and undefined values; a picture cannot.
fn finite(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect()
}

/// Maps measured values to heights from -1 to 1. The plotting library panics on an axis without
/// length and on a value far outside its axis, and the difference between two readings may be zero,
/// negative or absurdly large.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The value whose height is 1.
    unit: f64,
    /// The height of the lowest value, if it is below zero.
    lowest: f64,
}

impl Scale {
    fn of(spreads: impl Iterator<Item = Spread>) -> Self {
        let (min, max) = spreads.fold((0.0, 0.0), |(min, max): (f64, f64), s| {
            (min.min(s.min), max.max(s.max))
        });
        let unit = max.max(-min);
        // A division by a subnormal number gives infinity.
        let unit = if unit.is_normal() { unit } else { 1.0 };
        Self {
            unit,
            lowest: min / unit,
        }
    }

    /// The axis has room for a label above the highest bar.
    fn axis(&self) -> std::ops::Range<f64> {
        self.lowest * 1.15..1.15
    }

    fn height(&self, value: f64) -> f64 {
        value / self.unit
    }

    fn value(&self, height: f64) -> f64 {
        height * self.unit
    }
}

fn page(report: &Report, svg: String) -> Page<'static> {
    let mut table = Vec::new();
    for judged in &report.budgets {
        table.push([
            text::mark(judged.verdict).to_owned(),
            text::in_words(judged),
        ]);
    }
    Page {
        title: "loadtest bench",
        machine: text::machine(report),
        table,
        svg,
        text: report.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Figures;
    use crate::proc_stats::Machine;

    fn report(rounds: &[&[f64]]) -> Report {
        let mut run = Figures::default();
        for (number, rounds) in rounds.iter().enumerate() {
            for value in *rounds {
                run.note(
                    "row",
                    Who::Rollcall,
                    (&format!("measure {number}"), "B"),
                    *value,
                );
                run.note(
                    "row",
                    Who::Naive,
                    (&format!("measure {number}"), "B"),
                    -*value,
                );
            }
        }
        Report {
            version: "0",
            machine: Machine::read(),
            redis: String::new(),
            quick: true,
            budgets: Vec::new(),
            run,
        }
    }

    #[test]
    fn whatever_was_measured_can_be_drawn_and_written() {
        let odd = report(&[
            &[0.0],
            &[-0.0, 0.0],
            &[-4_096.0],
            &[-1.0, 2.0],
            &[1e-320],
            &[f64::MIN_POSITIVE],
            &[f64::MAX, f64::MAX],
            &[f64::MIN, f64::MAX, 1.0],
            &[1e-300, 1e300],
            &[f64::NAN],
            &[f64::INFINITY, 1.0],
            &[f64::NEG_INFINITY],
        ]);
        let svg = draw(&odd).unwrap();
        assert!(svg.contains("measure 11") && !svg.contains("NaN"), "{svg}");
        assert!(page(&odd, svg).html().contains("-4096"));
        let empty = report(&[]);
        assert!(page(&empty, draw(&empty).unwrap()).html().contains("<svg"));
    }

    #[test]
    fn values_below_zero_hang_from_it() {
        let spread = |min, max| Spread {
            median: max,
            min,
            max,
        };
        let scale = Scale::of([spread(-2.0, 4.0), spread(1.0, 3.0)].into_iter());
        assert_eq!(
            (scale.height(4.0), scale.height(-2.0), scale.axis()),
            (1.0, -0.5, -0.575..1.15)
        );
        assert_eq!(
            Scale::of([spread(-8.0, -2.0)].into_iter()).axis(),
            -1.15..1.15
        );
    }
}
