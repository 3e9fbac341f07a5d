//! Plots: a panel for each figure, and in it a line for each of those that are compared.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: u32 = 1_080;
const COLUMNS: usize = 2;
const HEIGHT: u32 = 240;
/// The plotting library panics on an axis that is far longer than what is drawn.
const FARTHEST: f64 = 1e15;

/// A figure, and what it was.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) lines: Vec<PlotLine>,
}

/// The figure of one of those that are compared, over time or by rounds.
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws the panels as one SVG.
pub(crate) fn draw(panels: &[Panel]) -> anyhow::Result<String> {
    draw_all(panels).map_err(|error| anyhow!("the plots: {error}"))
}

fn draw_all(panels: &[Panel]) -> Result<String, Box<dyn std::error::Error>> {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let mut svg = String::new();
    {
        let size = (WIDTH, HEIGHT * rows as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, panel) in root.split_evenly((rows, COLUMNS)).iter().zip(panels) {
            draw_panel(area, panel)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    // It panics on an axis without length, too.
    let mut right = 1.0_f64;
    let mut low = 0.0_f64;
    let mut high = 0.0_f64;
    for (x, y) in panel.lines.iter().flat_map(PlotLine::drawn) {
        right = right.max(x);
        low = low.min(y);
        high = high.max(y);
    }
    if high - low < 1e-9 {
        high = low + 1.0;
    }
    let room = (high - low) * 0.1;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 13))
        .margin(8)
        .x_label_area_size(22)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right * 1.15, low..high + room)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(5)
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in panel.lines.iter().enumerate() {
        let color = Palette99::pick(number);
        chart.draw_series(LineSeries::new(line.drawn(), color.filled()).point_size(2))?;
        if let Some(last) = line.drawn().last() {
            let text = Text::new(line.name.clone(), last, ("sans-serif", 11));
            chart.draw_series([text])?;
        }
    }
    Ok(())
}

impl PlotLine {
    /// A table may show infinite and undefined values; a picture cannot.
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> {
        let finite = self.points.iter().filter(|(_, y)| y.is_finite());
        finite.map(|(x, y)| (*x, y.clamp(-FARTHEST, FARTHEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_measured_can_be_drawn() {
        let values: [&[f64]; 8] = [
            &[],
            &[-0.0, 0.0],
            &[-4_096.0],
            &[1e-320],
            &[f64::MIN, f64::MAX, 1.0],
            &[1e-300, 1e300],
            &[f64::NAN],
            &[f64::INFINITY, 1.0],
        ];
        let panels = values.map(|values| Panel {
            title: "measure".to_owned(),
            lines: vec![PlotLine {
                name: "ours".to_owned(),
                points: (1..).map(f64::from).zip(values.iter().copied()).collect(),
            }],
        });
        let svg = draw(&panels).unwrap();
        assert!(svg.contains("measure") && !svg.contains("NaN"), "{svg}");
        assert!(draw(&[]).unwrap().contains("<svg"));
    }
}
