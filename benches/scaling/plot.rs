//! Measured points and the model's line, as SVG.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::model::{Fit, Point};

fn varied_value(varied: &str, point: &Point) -> f64 {
    match varied {
        "bytes" => point.mib,
        "pes" => point.pes as f64,
        "group" => point.group as f64,
        _ => point.parity as f64,
    }
}

fn label(varied: &str) -> &'static str {
    match varied {
        "bytes" => "MiB saved by each PE",
        "pes" => "PEs on this machine",
        "group" => "PEs in a parity group",
        _ => "parities of a stripe",
    }
}

/// Draws times against what was varied, both axes logarithmic.
pub fn draw(path: &Path, varied: &str, points: &[Point], fit: &Fit) -> Result<(), Box<dyn Error>> {
    let along = |point: &Point| varied_value(varied, point);
    let times = points.iter().flat_map(|p| [p.save, p.rebuild, fit.at(p).0, fit.at(p).1]);
    let (least, most) = times.fold((f64::MAX, 0f64), |(a, b), t| (a.min(t), b.max(t)));
    let ends = points.iter().map(along).fold((f64::MAX, 0f64), |(a, b), x| (a.min(x), b.max(x)));
    let root = SVGBackend::new(path, (640, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (ends.0 * 0.9..ends.1 * 1.1).log_scale(),
            (least.max(0.01) * 0.7..most * 1.4).log_scale(),
        )?;
    chart.configure_mesh().x_desc(label(varied)).y_desc("milliseconds").draw()?;
    let series =
        [("checkpoint", RGBColor(0, 90, 160)), ("rebuild of one PE", RGBColor(190, 80, 0))];
    for (index, (name, colour)) in series.into_iter().enumerate() {
        let measured = |p: &Point| [p.save, p.rebuild][index];
        let expected = |(save, rebuild): (f64, f64)| [save, rebuild][index];
        let dots = points.iter().map(|p| Circle::new((along(p), measured(p)), 4, colour.filled()));
        chart
            .draw_series(dots)?
            .label(name)
            .legend(move |(x, y)| Circle::new((x + 10, y), 4, colour.filled()));
        let line = points.iter().map(|p| (along(p), expected(fit.at(p))));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(1)))?
            .label(format!("{name}, model"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
}
