//! Measured points and the model's curve, as SVG.

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

/// Returns the round numbers in a range, for an axis: 1, 2 and 5 times the powers of ten.
fn round_numbers(from: f64, to: f64) -> Vec<f64> {
    let tens = (-3..7).map(|power| 10f64.powi(power));
    let all = tens.flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * ten));
    all.filter(|number| (from..to).contains(number)).collect()
}

/// Draws times against the varied parameter, both axes logarithmic.
pub fn draw(path: &Path, varied: &str, points: &[Point], fit: &Fit) -> Result<(), Box<dyn Error>> {
    let along = |point: &Point| varied_value(varied, point);
    let times = points.iter().flat_map(|p| [p.save, p.rebuild, fit.at(p).0, fit.at(p).1]);
    let (least, most) = times.fold((f64::MAX, 0f64), |(a, b), t| (a.min(t), b.max(t)));
    let ends = points.iter().map(along).fold((f64::MAX, 0f64), |(a, b), x| (a.min(x), b.max(x)));
    let values: Vec<f64> = points.iter().map(along).collect();
    // The space above the highest point is for the legend.
    let bottom = least.max(0.01) * 0.7;
    let top = most * (most / bottom).powf(0.4).max(2.5);
    let root = SVGBackend::new(path, (640, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (ends.0 * 0.9..ends.1 * 1.1).log_scale().with_key_points(values),
            (bottom..top).log_scale().with_key_points(round_numbers(bottom, top)),
        )?;
    chart
        .configure_mesh()
        .x_desc(label(varied))
        .y_desc("milliseconds")
        .x_label_formatter(&|value| value.to_string())
        .y_label_formatter(&|value| value.to_string())
        .draw()?;
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
