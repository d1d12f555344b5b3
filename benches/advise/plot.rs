//! The plot of a program: live bytes at each of its safe points, out of all bytes there.

use serde_json::Value;

const BAR: u64 = 14;
const GROUP: u64 = 4 * BAR + 10;
const HIGH: f64 = 200.0;
const LEFT: u64 = 50;

/// Draws bars for each safe point: live by whole-program analysis, live by per-function analysis,
/// all.
pub fn plot(program: &Value) -> String {
    let points = program["points"].as_array().expect("points");
    let width = LEFT + points.len() as u64 * GROUP + 10;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"300\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{}: \
         bytes live at each safe point, of all there are</text>\n",
        program["name"].as_str().unwrap_or_default()
    );
    for percent in [0, 25, 50, 75, 100] {
        let y = 260.0 - HIGH * f64::from(percent) / 100.0;
        text += &format!(
            "<line x1=\"{LEFT}\" x2=\"{width}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{percent} %</text>\n",
            LEFT - 5,
            y + 4.0
        );
    }
    const KINDS: [(&str, &str, &str); 3] = [
        ("live", "#1f77b4", "live (oshadvise)"),
        ("within", "#9ecae1", "live, each function alone"),
        ("all", "#bbbbbb", "all"),
    ];
    for (at, point) in points.iter().enumerate() {
        let x = LEFT + 5 + at as u64 * GROUP;
        let all = point["all"].as_u64().unwrap_or(0).max(1) as f64;
        for (bar, (kind, colour, _)) in KINDS.iter().enumerate() {
            let high = HIGH * point[kind].as_u64().unwrap_or(0) as f64 / all;
            text += &format!(
                "<rect x=\"{}\" y=\"{:.1}\" width=\"{}\" height=\"{high:.1}\" \
                 fill=\"{colour}\"/>\n",
                x + bar as u64 * BAR,
                260.0 - high,
                BAR - 1
            );
        }
        let routine = point["routine"].as_str().unwrap_or_default().replace("shmem_", "");
        text += &format!(
            "<text x=\"{0}\" y=\"273\" text-anchor=\"middle\" font-size=\"9\">{routine}</text>\n\
             <text x=\"{0}\" y=\"285\" text-anchor=\"middle\" font-size=\"9\">{1}</text>\n",
            x + 3 * BAR / 2,
            point["line"]
        );
    }
    for (at, (_, colour, words)) in KINDS.iter().enumerate() {
        let x = LEFT + at as u64 * 170;
        text += &format!(
            "<rect x=\"{x}\" y=\"26\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\n\
             <text x=\"{}\" y=\"35\">{words}</text>\n",
            x + 14
        );
    }
    text + "</svg>\n"
}
