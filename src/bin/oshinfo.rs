//! The program `oshinfo`: prints the version, the settings in force, the engines, and the kernels
//! chosen.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use raidshmem::inventory::{EngineState, Inventory};
use raidshmem::{sizing, usage};
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_disk::answer::{Answer, NoAnswer, answer};
use raidshmem_launch::handshake::PROBE_ARGUMENT;
use raidshmem_launch::probe;
use raidshmem_sys::inherited;

const HELP: &str = "\
Prints the version, a description of the machine, and every setting with its current value

Usage: oshinfo [engines | plan OPTIONS | store DIR | OPTION]

Commands:
  engines        List the network engines: which can be loaded here, and what the others need
  plan           Recommend mode, group, parity and interval for a job; see oshinfo plan --help
  store DIR      List checkpoints on disk, check or delete them; see oshinfo store --help

Options:
      --json     Print JSON, as docs/schema/info.json describes it; also after plan and store
      --points   Print the steps at which oshrun --kill and --kill-node can kill
      --markdown Print the settings as a table in Markdown
      --completions SHELL
                 Print a script that completes command lines in bash, zsh, fish or others
  -V, --version  Print version
  -h, --help     Print help
";

/// Bytes of a block that is copied to measure memory; far exceeds one thread's share of the caches.
const COPIED: usize = 64 << 20;
/// Copies per measurement.
const COPIES: usize = 4;

fn main() {
    inherited::begin();
    usage::print_completions("oshinfo", command);
    let mut words = std::env::args().skip(1);
    let text = match words.next().as_deref() {
        None => inventory().to_string(),
        Some("--json") => format!("{:#}\n", inventory().json()),
        Some("--markdown") => raidshmem_core::settings::markdown(),
        Some("--points") => points(),
        Some("engines") => engines(),
        Some("plan") => plan(words),
        Some("store") => store(words),
        Some(PROBE_ARGUMENT) => std::process::exit(probe::answer(words.next().as_deref())),
        Some("--version" | "-V") => format!("oshinfo {}\n", env!("CARGO_PKG_VERSION")),
        Some("--help" | "-h") => HELP.to_owned(),
        Some(other) => refuse(&format!(
            "{}: expected engines, plan, store, --json, --points, --markdown or --version; \
             `oshinfo --help` says more",
            other.escape_debug()
        )),
    };
    // A reader that closes the pipe (`oshinfo | head`) has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Describes the command line for shells that complete it.
fn command() -> clap::Command {
    let option = |name: &'static str| clap::Arg::new(name).long(name).num_args(0);
    clap::Command::new("oshinfo")
        .version(env!("CARGO_PKG_VERSION"))
        .args(["json", "points", "markdown"].map(option))
        .subcommand(clap::Command::new("engines").about("Which engines can be loaded here"))
        .subcommand(sizing::command().name("plan"))
        .subcommand(raidshmem_disk::answer::command().name("store"))
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

/// Probes each engine on this machine.
fn engine_states() -> Vec<EngineState> {
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
            Ok(false) => {
                let without = match fabric {
                    Fabric::Ofi => "over TCP here",
                    Fabric::Auto | Fabric::Shm | Fabric::Ucx | Fabric::Verbs => "no device here",
                };
                writeln!(text, "fabric {}: can be loaded; {without}", fabric.name())
            }
            Err(error) => writeln!(text, "{error}"),
        };
    }
    text
}

fn points() -> String {
    let line =
        |point: raidshmem_core::inject::Point| format!("{:<16} {}\n", point.name(), point.doc());
    raidshmem_core::inject::Point::ALL.map(line).concat()
}

/// Describes the machine and the settings in force.
fn inventory() -> Inventory {
    let settings = Settings::from_env(raidshmem_sys::environment())
        .unwrap_or_else(|error| refuse(&error.to_string()));
    Inventory::new(settings, engine_states())
}
