//! The samples as plots: a panel for each figure, a line in it for each gateway.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::document::Report;
use super::text;
use crate::report::page::Page;
use crate::soak::sampler::{Figures, Sample};

const WIDTH: u32 = 1_080;
const COLUMNS: usize = 2;
const PANEL: u32 = 240;
const HEAD: u32 = 60;
const MIB: f64 = (1 << 20) as f64;

/// A figure over time: its name, and a line for each gateway, or one.
struct Panel {
    name: &'static str,
    lines: Vec<Vec<(f64, f64)>>,
}

/// Writes the plots to a file, together with the text if it is an .html file.
pub(crate) fn write(report: &Report, file: &Path) -> anyhow::Result<()> {
    page(report)?.write(file)
}

/// The report as a page.
pub(super) fn page(report: &Report) -> anyhow::Result<Page<'static>> {
    let verdict = if report.check.passed {
        "passed"
    } else {
        "failed"
    };
    let mut table = vec![[verdict.to_owned(), "check".to_owned()]];
    table.extend(
        report
            .check
            .failures
            .iter()
            .map(|failure| ["failed".to_owned(), failure.clone()]),
    );
    table.extend(
        report
            .undecided
            .iter()
            .map(|what| ["undecided".to_owned(), what.clone()]),
    );
    Ok(Page {
        title: "loadtest soak",
        machine: text::machine(report),
        table,
        svg: draw(report)
            .map_err(|error| anyhow!("{error}"))
            .context("the plots")?,
        text: report.to_string(),
    })
}

fn panels(report: &Report) -> Vec<Panel> {
    vec![
        of_gateways(report, "resident memory, MiB", |figures| {
            figures.rss_bytes as f64 / MIB
        }),
        of_gateways(report, "sockets", |figures| figures.sockets as f64),
        of_gateways(report, "tasks", |figures| figures.tasks as f64),
        of_gateways(report, "open files", |figures| figures.open_files as f64),
        of_redis(report, "keys in Redis", |sample| {
            sample.keys.values().sum::<u64>() as f64
        }),
        of_redis(report, "memory of Redis, MiB", |sample| {
            sample.redis_bytes as f64 / MIB
        }),
    ]
}

/// A line for each gateway.
fn of_gateways(report: &Report, name: &'static str, figure: fn(&Figures) -> f64) -> Panel {
    Panel {
        name,
        lines: (0..report.settings.gateways)
            .map(|gateway| line(report, |sample| sample.gateways.get(gateway).map(figure)))
            .collect(),
    }
}

/// One line, for Redis.
fn of_redis(report: &Report, name: &'static str, figure: fn(&Sample) -> f64) -> Panel {
    Panel {
        name,
        lines: vec![line(report, |sample| Some(figure(sample)))],
    }
}

/// Minutes and values.
fn line(report: &Report, value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    report
        .samples
        .iter()
        .filter_map(|sample| Some((sample.seconds / 60.0, value(sample)?)))
        .collect()
}

fn draw(report: &Report) -> Result<String, Box<dyn std::error::Error>> {
    let panels = panels(report);
    let rows = panels.len().div_ceil(COLUMNS);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEAD + PANEL * rows as u32))
            .into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        head.draw_text(
            "loadtest soak",
            &("sans-serif", 20).into_text_style(&head),
            (12, 8),
        )?;
        head.draw_text(
            &text::machine(report),
            &("sans-serif", 13).into_text_style(&head),
            (12, 36),
        )?;
        for (area, panel) in body.split_evenly((rows, COLUMNS)).iter().zip(&panels) {
            plot(area, panel)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn plot(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    // The plotting library panics on an axis without length.
    let mut minutes = 1.0_f64;
    let mut height = 1.0_f64;
    for (minute, value) in panel.lines.iter().flatten() {
        minutes = minutes.max(*minute);
        height = height.max(*value);
    }
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}, by minutes", panel.name), ("sans-serif", 13))
        .margin(8)
        .x_label_area_size(22)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..minutes, 0.0..height * 1.1)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(5)
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in panel.lines.iter().enumerate() {
        chart.draw_series(LineSeries::new(
            line.iter().copied(),
            &Palette99::pick(number),
        ))?;
    }
    Ok(())
}
