//! The program `oshinfo`: prints the version, the settings in force, the engines, and the kernels
//! chosen.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use raidshmem::{sizing, usage};
use raidshmem_core::settings::{Fabric, Pages, Settings, table};
use raidshmem_disk::answer::{Answer, NoAnswer, answer};
use raidshmem_engines as engines;
use raidshmem_fabric::FabricError;
use raidshmem_launch::handshake::PROBE_ARGUMENT;
use raidshmem_launch::probe;
use raidshmem_sys::huge::{HugeFiles, NoHuge};
use raidshmem_sys::{inherited, memory};

const HELP: &str = "\
Prints the version, what was found of the machine, and every setting with the value in force

Usage: oshinfo [engines | plan OPTIONS | store DIR | OPTION]

Commands:
  engines        Say of each engine between hosts whether it can be loaded here, and what it needs
  plan           Say which mode, group, parity and interval suit a job; see oshinfo plan --help
  store DIR      List checkpoints on disk, check or delete them; see oshinfo store --help

Options:
      --points   Print the steps at which oshrun --kill and --kill-node can kill
      --markdown Print the settings as a table in Markdown
  -V, --version  Print version
  -h, --help     Print help
";

/// Bytes of a block that is copied to measure memory; far exceeds one thread's share of the caches.
const COPIED: usize = 64 << 20;
/// Copies per measurement.
const COPIES: usize = 4;

fn main() {
    inherited::begin();
    let mut words = std::env::args().skip(1);
    let text = match words.next().as_deref() {
        None => all(),
        Some("--markdown") => raidshmem_core::settings::markdown(),
        Some("--points") => points(),
        Some("engines") => engines(),
        Some("plan") => plan(words),
        Some("store") => store(words),
        Some(PROBE_ARGUMENT) => std::process::exit(probe::answer(words.next().as_deref())),
        Some("--version" | "-V") => format!("oshinfo {}\n", env!("CARGO_PKG_VERSION")),
        Some("--help" | "-h") => HELP.to_owned(),
        Some(other) => refuse(&format!(
            "{}: expected engines, plan, store, --points, --markdown or --version; `oshinfo \
             --help` says more",
            other.escape_debug()
        )),
    };
    // A reader that closes the pipe (`oshinfo | head`) has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn refuse(why: &str) -> ! {
    eprintln!("oshinfo: {why}");
    std::process::exit(2)
}

/// Answers `oshinfo store`: the checkpoints of a folder.
fn store(words: impl Iterator<Item = String>) -> String {
    match answer(words) {
        Ok(Answer { text, well: true }) => text,
        Ok(Answer { text, well: false }) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            std::process::exit(1)
        }
        Err(NoAnswer::Words(asked)) if !asked.use_stderr() => asked.to_string(),
        Err(error) => {
            let text = error.to_string();
            refuse(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        }
    }
}

/// Answers `oshinfo plan`: the mode, group, parity and interval that suit a job.
fn plan(words: impl Iterator<Item = String>) -> String {
    match sizing::answer(words, copy_rate) {
        Ok(text) => text,
        Err(error) if error.use_stderr() => {
            refuse(&format!("plan: {}", usage::line("oshinfo plan", &error)))
        }
        Err(help) => help.to_string(),
    }
}

/// Measures the bytes per second that all processors of this machine together copy in memory.
fn copy_rate() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let copy = || {
        let (from, mut to) = (vec![1u8; COPIED], vec![2u8; COPIED]);
        let begun = Instant::now();
        for _ in 0..COPIES {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
        begun.elapsed().as_secs_f64()
    };
    let slowest = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).fold(0.0, f64::max)
    });
    (threads * COPIES * COPIED) as f64 / slowest
}

fn kernel() -> String {
    match raidshmem_codec::kernel::Kernel::chosen() {
        Ok(kernel) => kernel.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Lists the fabrics of this machine, and those that a job on one machine and on several would use.
fn fabrics(settings: &Settings) -> String {
    let known = engine_states();
    let state = |fabric| known.iter().find(|(other, _)| *other == fabric);
    let state = |fabric| state(fabric).map_or(Ok(true), |(_, state)| state.clone());
    let chosen = |one_machine| match engines::choose(settings.fabric, one_machine, state) {
        Ok((fabric, why)) => format!("{} ({why})", fabric.name()),
        Err(error) => error.to_string(),
    };
    let there = Fabric::ALL.into_iter().filter(|&fabric| fabric != Fabric::Auto);
    let there = there.filter(|&fabric| state(fabric).is_ok()).map(Fabric::name);
    let there = there.collect::<Vec<_>>().join(", ");
    let (here, apart) = (chosen(true), chosen(false));
    if here == apart { format!("{there}; {here}") } else { format!("{there}; {here}; {apart}") }
}

/// Probes each engine on this machine.
fn engine_states() -> Vec<(Fabric, Result<bool, FabricError>)> {
    let engines =
        Fabric::ALL.into_iter().filter(|fabric| ![Fabric::Auto, Fabric::Shm].contains(fabric));
    engines.map(|fabric| (fabric, probe::probe(fabric, []))).collect()
}

/// Returns a line per engine: its availability, or its missing prerequisites.
fn engines() -> String {
    let mut text = "fabric shm: needs nothing; between nodes of one machine\n".to_owned();
    for (fabric, state) in engine_states() {
        let _ = match state {
            Ok(true) => writeln!(text, "fabric {}: can be loaded", fabric.name()),
            Ok(false) if fabric == Fabric::Ofi => {
                writeln!(text, "fabric {}: can be loaded; over TCP here", fabric.name())
            }
            Ok(false) => writeln!(text, "fabric {}: can be loaded; no device here", fabric.name()),
            Err(error) => writeln!(text, "{error}"),
        };
    }
    text
}

/// Reports if large heaps and their checkpoints get huge pages here, and why.
fn huge_pages(settings: &Settings) -> String {
    if settings.pages == Pages::Small {
        return "no (SHMEM_FT_PAGES is small)".to_owned();
    }
    let others = memory::huge_pages().unwrap_or_default();
    match (HugeFiles::new(), others.as_str()) {
        (Ok(_), _) => "yes (in a tmpfs of the job's own)".to_owned(),
        (Err(NoHuge::Mount(_)), word @ ("always" | "within_size" | "advise" | "force")) => {
            format!("yes (transparent_hugepage/shmem_enabled is {word})")
        }
        (Err(why @ NoHuge::Mount(_)), word) => {
            format!("no ({why}; transparent_hugepage/shmem_enabled is {word}, advise is enough)")
        }
        (Err(why), _) => format!("no ({why})"),
    }
}

fn points() -> String {
    let line =
        |point: raidshmem_core::inject::Point| format!("{:<16} {}\n", point.name(), point.doc());
    raidshmem_core::inject::Point::ALL.map(line).concat()
}

fn all() -> String {
    let settings = Settings::from_env(raidshmem_sys::environment())
        .unwrap_or_else(|error| refuse(&error.to_string()));
    let mib = |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| format!("{} MiB", b >> 20));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let expedited = raidshmem_sys::futex::register_barrier();
    let mut text = format!("raidshmem {} (OpenSHMEM 1.6)\n", env!("CARGO_PKG_VERSION"));
    let facts = [
        ("processors", processors.to_string()),
        ("memory", format!("{}, {} free", mib(memory::total()), mib(memory::available()))),
        ("huge pages", huge_pages(&settings)),
        ("fabrics", fabrics(&settings)),
        ("parity kernel", kernel()),
        ("waiting", format!("futex, membarrier {}", if expedited { "yes" } else { "no" })),
    ];
    for (what, value) in facts {
        let _ = writeln!(text, "{what:<17} {value}");
    }
    text.push_str("\nsettings\n");
    for entry in table() {
        let value = entry.show(&settings).unwrap_or_else(|| "unset".to_string());
        let (name, doc, allowed) = (entry.name, entry.doc, entry.allowed());
        let _ = writeln!(text, "  {name:<24} {value:<8} {doc} [{allowed}]");
    }
    text
}
