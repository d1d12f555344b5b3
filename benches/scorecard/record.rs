//! The place and time of measurements, kept with the figures under `benches/record`.

use std::path::{Path, PathBuf};
use std::process::Command;

use raidshmem_codec::kernel::Kernel;
use serde::Serialize;

use super::figure::Figure;
use super::programs::{Bench, Trouble, output};

/// The conditions under which the figures were measured.
#[derive(Serialize)]
pub struct Context {
    date: String,
    commit: String,
    quick: bool,
    processor: String,
    /// The codec's kernel, which distinguishes variants of a processor.
    kernel: &'static str,
    processors: usize,
    memory_mib: u64,
    system: String,
    compilers: Vec<String>,
    peers: Vec<String>,
    load_before: String,
    load_after: String,
}

#[derive(Serialize)]
struct Record<'a> {
    context: Context,
    figures: &'a [Figure],
}

fn first_line(program: &str, words: &[&str]) -> String {
    let text = output(Command::new(program).args(words)).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').to_owned())
}

/// Returns the processor's name, and on x86 family and model: virtual machines keep those even if
/// they shorten the name.
fn processor() -> String {
    let of = |name: &str| field("/proc/cpuinfo", name);
    let name = of("model name").unwrap_or("unknown".into());
    match (of("cpu family"), of("model\t")) {
        (Some(family), Some(model)) => format!("{name}, family {family}, model {model}"),
        _ => name,
    }
}

/// Returns the load of the machine over the last minute.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

impl Context {
    /// Collects the context. `load_before` is the load when the measurements began.
    pub fn new(quick: bool, load_before: String) -> Context {
        let memory = field("/proc/meminfo", "MemTotal:");
        let kib = memory.and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok());
        let release = field("/etc/os-release", "PRETTY_NAME").unwrap_or_default();
        let dirty = output(Command::new("git").args(["status", "--porcelain", "src", "codec"]));
        let mark = if dirty.is_ok_and(|text| text.is_empty()) { "" } else { "+" };
        Context {
            date: first_line("date", &["-u", "+%Y-%m-%d %H:%M:%S UTC"]),
            commit: first_line("git", &["rev-parse", "--short", "HEAD"]) + mark,
            quick,
            processor: processor(),
            kernel: Kernel::best().name(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.unwrap_or(0) / 1024,
            system: format!("{}, {release}", first_line("uname", &["-sr"])),
            compilers: vec![first_line("cc", &["--version"]), first_line("rustc", &["--version"])],
            peers: vec![
                first_line("/usr/bin/oshrun", &["--version"]),
                "ISA-L ".to_owned()
                    + &first_line("dpkg-query", &["-W", "-f", "${Version}", "libisal2"]),
            ],
            load_before,
            load_after: load(),
        }
    }
}

/// Writes `figures` with their context to `benches/record/<processor>-<kernel>/<date>.json`.
pub fn write(bench: &Bench, context: Context, figures: &[Figure]) -> Result<(), Trouble> {
    let (folder, name) = place(bench, &context);
    let text = serde_json::to_string_pretty(&Record { context, figures }).map_err(Trouble::new)?;
    save(&folder, &format!("{name}.json"), &(text + "\n"))
}

/// Returns the folder for records of this processor, and the name of a record of this time.
pub fn place(bench: &Bench, context: &Context) -> (PathBuf, String) {
    let plain = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.join("-").to_ascii_lowercase()
    };
    let kind = plain(&format!("{} {}", context.processor, context.kernel));
    let folder = bench.root().join("benches/record").join(kind);
    (folder, plain(&context.date.replace(" UTC", "")))
}

/// Keeps the files of a folder as `<name>-<date>` next to the records.
pub fn keep(bench: &Bench, context: &Context, (name, of): (&str, &Path)) -> Result<(), Trouble> {
    let (kind, date) = place(bench, context);
    let into = kind.join(format!("{name}-{date}"));
    for entry in std::fs::read_dir(of).map_err(Trouble::new)? {
        let path = entry.map_err(Trouble::new)?.path();
        let text = std::fs::read_to_string(&path).map_err(Trouble::new)?;
        save(&into, &path.file_name().unwrap_or_default().to_string_lossy(), &text)?;
    }
    Ok(())
}

/// Writes a file of a record.
pub fn save(folder: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Trouble::new(format!("{}: {error}", path.display())))?;
    println!("recorded in {}", path.display());
    Ok(())
}
