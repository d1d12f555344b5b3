//! The program `oshreport`: makes an HTML page from the output of `oshrun --report`.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::exit;

use clap::{CommandFactory, Parser};
use raidshmem::usage;
use raidshmem_report::page::page;
use raidshmem_report::record::Record;
use raidshmem_sys::input::{self, Pipes};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// Turns a report of oshrun into one HTML page, which needs no network.
#[derive(Debug, Parser)]
#[command(name = "oshreport", version, override_usage = "oshreport [OPTIONS] REPORT")]
struct Args {
    /// Report of oshrun --report; - is standard input.
    report: PathBuf,
    /// Page to write; - is standard output [default: REPORT with the ending .html].
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
    /// Print a script that completes command lines in a shell: bash, zsh, fish or others.
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<String>,
}

fn main() {
    raidshmem_sys::inherited::begin();
    usage::print_completions("oshreport", Args::command);
    let args = Args::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        refuse(&usage::line("oshreport", &error))
    });
    let name = args.report.display().to_string();
    let name = name.escape_debug();
    let text = read(&args.report).unwrap_or_else(|error| refuse(&format!("{name}: {error}")));
    let record = Record::read(&text).unwrap_or_else(|error| refuse(&format!("{name}: {error}")));
    let html = page(&record);
    let to = args.output.unwrap_or_else(|| default_page(&args.report));
    if to == Path::new("-") || is_standard_output(&to) {
        // The reader may have seen enough.
        let _ = std::io::stdout().write_all(html.as_bytes());
        return;
    }
    let shown = to.display().to_string();
    let shown = shown.escape_debug();
    if to == args.report {
        refuse(&format!("{shown}: the report itself; expected another name after --output"));
    }
    if let Err(error) = std::fs::write(&to, html) {
        refuse(&format!("{shown}: {error}"));
    }
    println!("{shown}");
}

/// Returns true for the file that a shell redirected standard output to (`oshreport run.json >
/// run.html`): the name of the page would be printed into it.
fn is_standard_output(path: &Path) -> bool {
    let place = |file: Metadata| (file.dev(), file.ino());
    let out = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let out = out.and_then(|out| out.metadata()).map(place);
    out.is_ok_and(|out| std::fs::metadata(path).is_ok_and(|file| place(file) == out))
}

/// Returns the default path of the page.
fn default_page(report: &Path) -> PathBuf {
    if report == Path::new("-") { report.to_owned() } else { report.with_extension("html") }
}

fn read(path: &Path) -> std::io::Result<String> {
    let bytes = match path.to_str() {
        Some("-") => input::all(std::io::stdin(), LONGEST),
        _ => input::bytes(path, LONGEST, Pipes::Read),
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let long = format!("longer than {} MiB: expected a report", LONGEST >> 20);
            std::io::Error::other(long)
        }
        _ => error,
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn refuse(why: &str) -> ! {
    eprintln!("oshreport: {why}");
    exit(2)
}
