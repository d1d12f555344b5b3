//! The codec compared with ISA-L: runs `codec/benches/isal.rs`, which interleaves both in one
//! process.

use std::process::Command;

use raidshmem_codec::kernel::Kernel;

use super::figure::Figure;
use super::programs::{Bench, Trouble, output};

/// Figures of the table that `isal` prints, their goals, and the instructions that a goal requires:
/// products without GFNI are table lookups on both sides.
const GOALS: [(&str, f64, Option<&str>); 16] = [
    ("xor 3+1 cache", 1.0, None),
    ("xor 8+1 cache", 1.0, None),
    ("xor 3+1 memory", 1.0, None),
    ("xor 8+1 memory", 1.0, None),
    ("raid6 8+2 cache", 1.1, None),
    ("raid6 8+2 memory", 1.0, None),
    ("encode 8+2 cache", 1.8, Some("gfni")),
    ("encode 10+4 cache", 1.8, Some("gfni")),
    ("encode 8+2 memory", 1.0, Some("gfni")),
    ("encode 10+4 memory", 1.0, Some("gfni")),
    ("rebuild 1 of 8+2 cache", 1.5, Some("gfni")),
    ("rebuild 2 of 8+2 cache", 1.5, Some("gfni")),
    ("rebuild 2 of 10+4 cache", 1.5, Some("gfni")),
    ("rebuild 1 of 8+2 memory", 1.5, Some("gfni")),
    ("rebuild 2 of 8+2 memory", 1.5, Some("gfni")),
    ("rebuild 2 of 10+4 memory", 1.5, Some("gfni")),
];

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(bench.root());
    command.args(["bench", "--quiet", "--package", "raidshmem-codec", "--locked"]);
    command.args(["--bench", "isal"]);
    let rounds = if bench.quick { 5 } else { 11 };
    let table = output(command.env("ROUNDS", rounds.to_string()))?;
    let kernel = Kernel::best().name();
    let figure = |&(name, goal, needs): &(&str, f64, Option<&str>)| {
        let ratio = ratio(&table, name).ok_or(Trouble::new(format!("no figure {name}")))?;
        let name = format!("{name}, throughput / ISA-L");
        let mut figure = Figure::at_least(&name, goal, &[ratio], "ISA-L");
        figure.runs = rounds;
        Ok(match needs {
            Some(needs) => figure.for_kernels(needs, kernel),
            None => figure,
        })
    };
    GOALS.iter().map(figure).collect()
}

/// Returns the fourth column of the line that begins with `name`.
fn ratio(table: &str, name: &str) -> Option<f64> {
    let mut rows = table.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    rows.find(|row| row.first() == Some(&name))?.get(3)?.parse().ok()
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let table = "kernel gfni512\nxor 3+1 cache  |   50.0 |   40.0 |  1.25 | >= 1.0 met\n";
    assert_eq!(ratio(table, "xor 3+1 cache"), Some(1.25));
    assert_eq!(ratio(table, "xor 3+1"), None);
}
