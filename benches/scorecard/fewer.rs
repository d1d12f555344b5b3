//! Shrink mode: updates of two copies compared with one, meetings compared with the usual ones, a
//! displaced ring before and after a loss, and the last checkpoint of a lost PE compared with its
//! rebuild.
//!
//! The latencies in the ring are also written to `target/fewer`, as a table and as plots.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::chart::{self, Axes, Series};
use super::figure::{Figure, median, ratios};
use super::programs::{Bench, Trouble, millis_of_rebuild, value};

const ON: [(&str, &str); 3] = [
    ("SHMEM_FT_SUBSTITUTE", "shrink"),
    ("SHMEM_FT_ROLLBACK", "none"),
    ("SHMEM_SYMMETRIC_SIZE", "1G"),
];
const RAID5: [(&str, &str); 2] =
    [("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_SYMMETRIC_SIZE", "1G")];

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("benches/fewer.c")?;
    let mut figures = twice(bench, &program)?;
    let meet = |settings: &[(&str, &str)]| bench.job(64, settings, &[], &program, &["meet", "5"]);
    figures.extend(meetings(bench, "64 PEs", meet)?);
    figures.extend(rings(bench, &program)?);
    figures.push(read(bench, &program)?);
    Ok(figures)
}

/// Returns the time of updating two copies relative to a put and quiet to one, in alternation.
fn twice(bench: &Bench, program: &Path) -> Result<Vec<Figure>, Trouble> {
    let round = |_| bench.job(3, &ON, &[], program, &["twice"]);
    let rounds: Vec<String> = (0..bench.rounds()).map(round).collect::<Result<_, _>>()?;
    let figure = |(name, line): (&str, &str)| {
        let ratio = |text: &String| {
            Ok(value(text, &format!("put2_{line}_ns"))? / value(text, &format!("put_{line}_ns"))?)
        };
        let ratios = rounds.iter().map(ratio).collect::<Result<Vec<f64>, Trouble>>()?;
        let name = format!("{name} update of two copies / put and quiet");
        Ok(Figure::at_most(&name, 2.2, &ratios, "a put to one of them").with_limit(2.0))
    };
    [("8-byte", "8"), ("1 MiB", "1M")].into_iter().map(figure).collect()
}

/// Returns the time of a barrier and of a reduction of `whom` relative to those of the usual modes,
/// in alternation. `run` runs the program with settings.
pub fn meetings(
    bench: &Bench,
    whom: &str,
    run: impl Fn(&[(&str, &str)]) -> Result<String, Trouble>,
) -> Result<[Figure; 2], Trouble> {
    let none = ("SHMEM_FT_BACKUP_MODE", "none");
    let mut times = [const { [const { Vec::new() }; 2] }; 2];
    for _ in 0..bench.rounds() {
        for (into, settings) in times.iter_mut().zip([&[none][..], &[ON[0], ON[1], none]]) {
            let text = run(settings)?;
            into[0].push(value(&text, "sync_ns")?);
            into[1].push(value(&text, "reduce_ns")?);
        }
    }
    let [usual, living] = times;
    let figure = |at: usize, what: &str| {
        let name = format!("{what} of {whom}, shrink / usual");
        Figure::at_most(&name, 2.0, &ratios(&living[at], &usual[at]), "the usual modes")
    };
    Ok([figure(0, "barrier"), figure(1, "8-byte reduction")])
}

/// The operations in the ring: name, and the program's name for it.
const OPERATIONS: [(&str, &str); 3] = [("put", "put"), ("get", "get"), ("accumulate", "acc")];
/// Sizes of an operation: for display, for the program, and for file names.
const SIZES: [(&str, &str, &str); 2] = [("8-byte", "8", "small"), ("1 MiB", "1M", "large")];

/// The latency of an operation in a ring of `pes` PEs, in microseconds.
struct Latency {
    pes: usize,
    operation: &'static str,
    size: &'static str,
    /// Before and after a loss.
    micros: [f64; 2],
}

/// Returns the folder of the latency tables.
pub fn folder(bench: &Bench) -> PathBuf {
    bench.target().join("fewer")
}

/// Returns the latencies in a ring after a loss relative to those before it.
fn rings(bench: &Bench, program: &Path) -> Result<Vec<Figure>, Trouble> {
    let sizes: &[usize] = if bench.quick { &[8] } else { &[8, 16, 32] };
    let (mut figures, mut latencies) = (Vec::new(), Vec::new());
    for &pes in sizes {
        let settings = [&ON[..2], &[("SHMEM_SYMMETRIC_SIZE", "4M")]].concat();
        let round = |_| bench.job(pes, &settings, &[], program, &["ring", "500"]);
        let rounds: Vec<String> = (0..bench.rounds()).map(round).collect::<Result<_, _>>()?;
        for (operation, line) in OPERATIONS {
            for (size, bytes, _) in SIZES {
                let of = |when: &str| {
                    let line = format!("{when}_{line}_{bytes}_ns");
                    rounds.iter().map(|text| value(text, &line)).collect::<Result<Vec<f64>, _>>()
                };
                let (whole, fault) = (of("whole")?, of("fault")?);
                let name = format!("{size} {operation} in a ring of {pes}, one fault / none");
                let ratios = ratios(&fault, &whole);
                figures.push(Figure::at_most(&name, 1.1, &ratios, "the same before the loss"));
                let micros = [&whole, &fault].map(|nanos| 1e-3 * median(nanos));
                latencies.push(Latency { pes, operation, size, micros });
            }
        }
    }
    draw(&folder(bench), &latencies)?;
    Ok(figures)
}

/// Writes the latencies as a table, and a plot for each size.
fn draw(folder: &Path, latencies: &[Latency]) -> Result<(), Trouble> {
    std::fs::create_dir_all(folder).map_err(Trouble::new)?;
    let mut table = "pes,operation,size,whole_us,fault_us\n".to_owned();
    for Latency { pes, operation, size, micros: [whole, fault] } in latencies {
        writeln!(table, "{pes},{operation},{size},{whole:.4},{fault:.4}").map_err(Trouble::new)?;
    }
    std::fs::write(folder.join("ring.csv"), table).map_err(Trouble::new)?;
    for (size, _, file) in SIZES {
        let of = |operation: &str, loss: usize| {
            let is = |one: &&Latency| (one.operation, one.size) == (operation, size);
            let points = latencies.iter().filter(is);
            points.map(|one| (one.pes as f64, one.micros[loss])).collect()
        };
        let series = OPERATIONS.iter().flat_map(|(operation, _)| {
            [(0, ""), (1, ", one fault")].map(|(loss, after)| Series {
                name: format!("{operation}{after}"),
                points: of(operation, loss),
            })
        });
        let up = format!("microseconds, {size}");
        let axes = Axes { across: "PEs in the ring", up: &up, logarithmic: true };
        let path = folder.join(format!("{file}.svg"));
        chart::draw(&path, &axes, &series.collect::<Vec<Series>>())?;
    }
    Ok(())
}

/// Returns the bandwidth of the read relative to that of a rebuild of as many bytes.
fn read(bench: &Bench, program: &Path) -> Result<Figure, Trouble> {
    let mib = if bench.quick { "64" } else { "256" };
    let rebuilder = bench.compile("benches/checkpoint.c")?;
    let settings = [&ON[..], &RAID5[..1]].concat();
    let mut ratios = Vec::new();
    for _ in 0..bench.rounds() {
        let text = bench.job(4, &settings, &[], program, &["read", mib])?;
        let launch = ["--nodes", "4", "--kill-node", "1@2"];
        let told = [&RAID5[..], &[("SHMEM_FT_REPORT", "1")]].concat(); // which includes its time
        let lost = bench.job(4, &told, &launch, &rebuilder, &["lose", mib, "node"])?;
        let took: Vec<f64> = lost.lines().filter_map(millis_of_rebuild).collect();
        if took.is_empty() {
            return Err(Trouble::new(format!("no PE was rebuilt: {lost}")));
        }
        ratios.push(median(&took) / value(&text, "read_ms")?);
    }
    let name = format!("degraded read of {mib} MiB, bandwidth / rebuild");
    Ok(Figure::at_least(&name, 0.5, &ratios, "a rebuild of the same bytes"))
}
