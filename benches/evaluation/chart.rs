//! Charts of points as SVG: lines through points, both axes linear or logarithmic.

#![forbid(unsafe_code)]

use std::path::Path;

use plotters::prelude::*;

use super::programs::Trouble;

/// One line of a chart.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// The axis labels, and the choice between linear and logarithmic axes.
pub struct Axes<'a> {
    pub across: &'a str,
    pub up: &'a str,
    pub logarithmic: bool,
}

const INKS: [RGBColor; 6] = [
    RGBColor(11, 83, 148),
    RGBColor(180, 83, 9),
    RGBColor(56, 118, 29),
    RGBColor(116, 27, 71),
    RGBColor(85, 85, 85),
    RGBColor(14, 116, 144),
];

/// Returns the tick values of a logarithmic axis.
fn round_numbers(from: f64, to: f64) -> Vec<f64> {
    let tens = (-4..7).map(|power| 10f64.powi(power));
    let all = tens.flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * ten));
    all.filter(|number| (from..to).contains(number)).collect()
}

/// Draws `series` into the file `path`.
pub fn draw(path: &Path, axes: &Axes<'_>, series: &[Series]) -> Result<(), Trouble> {
    let points = || series.iter().flat_map(|one| one.points.iter().copied());
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(v), most.max(v)))
    };
    let (left, right) = range(&mut points().map(|(x, _)| x));
    let (low, high) = range(&mut points().map(|(_, y)| y));
    if left > right {
        return Ok(()); // nothing was measured
    }
    let root = SVGBackend::new(path, (640, 420)).into_drawing_area();
    root.fill(&WHITE).map_err(Trouble::new)?;
    let mut builder = ChartBuilder::on(&root);
    builder.margin(16).x_label_area_size(44).y_label_area_size(64);
    let shown = |value: &f64| format!("{}", (value * 1e4).round() / 1e4);
    // The space above the highest point is for the legend.
    if axes.logarithmic {
        let bottom = low.max(1e-4) * 0.7;
        let top = high * (high / bottom).powf(0.4).max(2.5);
        let mut at: Vec<f64> = points().map(|(x, _)| x).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let chart = builder.build_cartesian_2d(
            (left * 0.9..right * 1.1).log_scale().with_key_points(at),
            (bottom..top).log_scale().with_key_points(round_numbers(bottom, top)),
        );
        fill(chart.map_err(Trouble::new)?, axes, series, &shown)?;
    } else {
        let chart = builder.build_cartesian_2d(left * 0.9..right * 1.05, 0.0..high * 1.4);
        fill(chart.map_err(Trouble::new)?, axes, series, &shown)?;
    }
    root.present().map_err(Trouble::new)
}

type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

fn fill<'a, X, Y>(
    mut chart: Chart<'a, X, Y>,
    axes: &Axes<'_>,
    series: &[Series],
    shown: &dyn Fn(&f64) -> String,
) -> Result<(), Trouble>
where
    X: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .x_desc(axes.across)
        .y_desc(axes.up)
        .x_label_formatter(&shown)
        .y_label_formatter(&shown);
    mesh.draw().map_err(Trouble::new)?;
    for (one, ink) in series.iter().zip(INKS.iter().cycle()) {
        let dots = one.points.iter().map(|&point| Circle::new(point, 4, ink.filled()));
        chart.draw_series(dots).map_err(Trouble::new)?;
        let line = LineSeries::new(one.points.iter().copied(), ink.stroke_width(1));
        let drawn = chart.draw_series(line).map_err(Trouble::new)?;
        let legend = |(x, y)| PathElement::new([(x, y), (x + 20, y)], *ink);
        drawn.label(&one.name).legend(legend);
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8));
    labels.draw().map_err(Trouble::new)
}
