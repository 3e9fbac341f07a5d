//! Plots: for each measure a bar per contender with its spread, all of a run in one picture.

use std::path::Path;

use anyhow::{Context, bail};
use plotters::prelude::*;

use super::{Report, text};
use crate::bench::figures::{Spread, Who};

const WIDTH: u32 = 1_080;
const COLUMNS: usize = 3;
const PANEL: u32 = 190;
const HEAD: u32 = 60;

pub(super) fn write(report: &Report, file: &Path) -> anyhow::Result<()> {
    let svg = draw(report).map_err(|error| anyhow::anyhow!("{error}")).context("the plots")?;
    let whole = match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => svg,
        Some("html") => page(report, &svg),
        _ => bail!("{}: a report is .html or .svg", file.display()),
    };
    std::fs::write(file, whole).with_context(|| file.display().to_string())
}

fn draw(report: &Report) -> Result<String, Box<dyn std::error::Error>> {
    let lines = text::lines(report);
    let height = HEAD + PANEL * (lines.len().div_ceil(COLUMNS).max(1) as u32);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        head.draw_text("loadtest bench", &("sans-serif", 20).into_text_style(&head), (12, 8))?;
        head.draw_text(&text::machine(report), &("sans-serif", 13).into_text_style(&head), (12, 36))?;
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
        .filter_map(|who| Some((who, Spread::of(&report.run.find(row, measure, who)?.rounds)?)))
        .collect();
    let highest = found.iter().map(|(_, spread)| spread.max).fold(f64::MIN_POSITIVE, f64::max);
    let title = if unit.is_empty() { format!("{row}: {measure}") } else { format!("{row}: {measure}, {unit}") };
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 12))
        .margin(6)
        .x_label_area_size(20)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..3.0, 0.0..highest * 1.15)?;
    let label = |value: &f64| text::short(*value);
    chart.configure_mesh().disable_x_mesh().disable_x_axis().y_labels(4).y_label_formatter(&label).draw()?;
    for (place, (who, spread)) in found.iter().enumerate() {
        let left = place as f64 + 0.2;
        let color = match who {
            Who::Rollcall => RGBColor(37, 99, 235),
            Who::Bare => RGBColor(120, 120, 120),
            Who::Naive => RGBColor(217, 119, 6),
        };
        chart.draw_series([
            Rectangle::new([(left, 0.0), (left + 0.6, spread.median)], color.filled()),
            Rectangle::new([(left + 0.29, spread.min), (left + 0.31, spread.max)], BLACK.filled()),
        ])?;
        let text = format!("{} {}", who.as_str(), text::short(spread.median));
        chart.draw_series([Text::new(text, (left, spread.max + highest * 0.08), ("sans-serif", 11))])?;
    }
    Ok(())
}

fn page(report: &Report, svg: &str) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let budgets: String = report
        .budgets
        .iter()
        .map(|judged| format!("<tr><td>{}<td>{}\n", text::mark(judged.verdict), escape(&text::in_words(judged))))
        .collect();
    format!(
        "<!doctype html><meta charset=utf-8><title>loadtest bench</title>\n\
         <style>body{{font:14px sans-serif;margin:2em}}pre{{overflow-x:auto}}td{{padding:.2em .8em}}</style>\n\
         <h1>loadtest bench</h1><p>{}</p><table>{budgets}</table>{svg}<pre>{}</pre>\n",
        escape(&text::machine(report)),
        escape(&report.to_string())
    )
}
