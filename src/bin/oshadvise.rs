//! The program `oshadvise`: determines from a program's source which memory its checkpoints must
//! hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::exit;

use clap::{CommandFactory, Parser};
use raidshmem::advise::bind::bind;
use raidshmem::advise::{self, VARIABLE};
use raidshmem::usage;
use raidshmem_advise::advise::{Scope, study};
use raidshmem_advise::ir::Module;
use raidshmem_advise::leave::Leave;
use raidshmem_advise::report::Report;
use raidshmem_advise::scratch::Scratch;
use raidshmem_advise::sizes::Given;
use raidshmem_advise::{html, json, text};
use raidshmem_sys::input::{self, FILE_MAX, Pipes};

/// The exit status for wrong usage or invalid input.
const STATUS_MISUSE: i32 = 2;
/// The exit status if there are warnings.
const STATUS_WARNINGS: i32 = 1;

/// Lists the memory that checkpoints of a program must hold, and mistakes that a loss would show.
#[derive(Debug, Parser)]
#[command(name = "oshadvise", version, override_usage = "oshadvise [OPTIONS] FILE...")]
#[command(after_help = "Options of the compiler (-I, -D, -U, -std=, -f.., -m.., -W.., -include) \
    are passed on to clang. Ends with status 1 if there are warnings.")]
struct Args {
    /// Every source file of one program, in C or C++, or .ll files of clang.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only checkpoints and findings, as text.
    #[arg(long)]
    brief: bool,
    /// Treat all memory as live where a function returns, as an analysis of one function at a time
    /// must (for comparison).
    #[arg(long, conflicts_with = "plan")]
    within: bool,
    /// The value of a variable, or of shmem_n_pes, for the bytes that are printed. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value)]
    set: Vec<(String, u64)>,
    /// Write the report as JSON; - is standard output, without text.
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0, which editors show.
    #[arg(long, value_name = "FILE|-")]
    sarif: Option<PathBuf>,
    /// Write one HTML page of the annotated source.
    #[arg(long, value_name = "FILE|-")]
    html: Option<PathBuf>,
    /// Write a plan of what checkpoints leave out, for SHMEM_FT_PLAN; needs --program.
    #[arg(short = 'o', value_name = "FILE|-", requires = "program")]
    plan: Option<PathBuf>,
    /// The program that the plan is for, built from these files with -g.
    #[arg(long, value_name = "PROGRAM", requires = "plan")]
    program: Option<PathBuf>,
    /// Print a script that completes command lines in a shell: bash, zsh, fish or others.
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<String>,
}

fn main() {
    raidshmem_sys::inherited::begin();
    usage::print_completions("oshadvise", Args::command);
    let (compiler, own) = split(std::env::args_os());
    let args = Args::try_parse_from(own).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        refuse(&usage::line("oshadvise", &error))
    });
    let sources = args.files.iter().any(|file| !is_ir(file));
    let clang = if sources { clang() } else { String::new() };
    let module = |file: &PathBuf| advise::module(&clang, &compiler, file);
    let modules: Result<Vec<_>, _> = args.files.iter().map(module).collect();
    let modules = modules.unwrap_or_else(|error| refuse(&error.to_string()));
    let scope = if args.within { Scope::Function } else { Scope::Program };
    let scratch = scratch(&modules);
    let found = study(modules, &advise::routines(), scope, &given(&args), &scratch);
    let (report, leave) = found.unwrap_or_else(|error| refuse(&error.to_string()));
    let plan = plan(&args, &leave);
    if !outputs(&args, &report, plan) {
        print(&text::text(&report, args.brief));
    }
    if report.warnings() > 0 {
        exit(STATUS_WARNINGS);
    }
}

fn value(text: &str) -> Result<(String, u64), String> {
    let expected = || "expected NAME=VALUE, a variable and a whole number".to_owned();
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
    Ok((name.to_owned(), value.parse().map_err(|_| expected())?))
}

fn given(args: &Args) -> Given {
    let mut given = Given::new();
    for (name, value) in &args.set {
        if given.insert(name.clone(), *value).is_some_and(|before| before != *value) {
            refuse(&format!("--set {name}: expected one value of each variable"));
        }
    }
    given
}

/// Returns the scratch memory declared in comments of the files, except system files.
fn scratch(modules: &[Module]) -> Scratch {
    let functions = modules.iter().flat_map(|module| &module.functions);
    let files: BTreeSet<&str> = functions.map(|function| function.place.file.as_str()).collect();
    let mut scratch = Scratch::default();
    for file in files.into_iter().filter(|file| !file.starts_with("/usr/")) {
        let text = std::fs::read(file).unwrap_or_default(); // IR may come without its source
        scratch.add(file, &String::from_utf8_lossy(&text));
    }
    scratch
}

/// Makes the plan, if requested.
fn plan(args: &Args, leave: &Leave) -> Option<String> {
    let (_, program) = args.plan.as_ref().zip(args.program.as_ref())?;
    let plan = bind(program, leave).unwrap_or_else(|error| refuse(&error.to_string()));
    leave.notes.iter().for_each(|note| eprintln!("oshadvise: {note}"));
    Some(plan.text())
}

/// Writes the requested outputs; returns true if one went to standard output.
fn outputs(args: &Args, report: &Report, plan: Option<String>) -> bool {
    let json = args.json.as_ref().map(|to| (to, json::json(report)));
    let sarif = args.sarif.as_ref().map(|to| (to, json::sarif(report, env!("CARGO_PKG_VERSION"))));
    let html = args.html.as_ref().map(|to| (to, html::page(report, &sources(report))));
    let mut printed = false;
    let plan = args.plan.as_ref().zip(plan);
    for (to, text) in [json, sarif, html, plan].into_iter().flatten() {
        if to == Path::new("-") {
            print(&text);
            printed = true;
        } else if let Err(error) = std::fs::write(to, text) {
            refuse(&format!("{}: {error}", to.display().to_string().escape_debug()));
        }
    }
    printed
}

/// Returns the texts of the files that the report names, except system files.
fn sources(report: &Report) -> BTreeMap<String, String> {
    let files = html::files(report).into_iter().filter(|file| !file.starts_with("/usr/"));
    let read = |file: &str| input::text(Path::new(file), FILE_MAX, Pipes::Refused);
    files.filter_map(|file| Some((file.to_owned(), read(file).ok()?))).collect()
}

fn clang() -> String {
    let named = std::env::var(VARIABLE).ok();
    advise::clang(named).unwrap_or_else(|error| refuse(&error.to_string()))
}

fn is_ir(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "ll")
}

/// Prints to standard output; ignores a reader that closed it.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Separates compiler options from our own arguments.
fn split(args: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<OsString>) {
    const BEGINNINGS: &[&str] = &["-I", "-D", "-U", "-std=", "-f", "-m", "-W", "-pthread", "-isys"];
    const TAKE_ONE: &[&str] = &["-I", "-D", "-U", "-include", "-isystem"];
    let (mut compiler, mut own) = (Vec::new(), Vec::new());
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy().into_owned();
        let takes = TAKE_ONE.contains(&text.as_str());
        if takes || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) {
            compiler.push(arg);
            compiler.extend(if takes { args.next() } else { None });
        } else {
            own.push(arg);
        }
    }
    (compiler, own)
}

fn refuse(why: &str) -> ! {
    eprintln!("oshadvise: {why}");
    exit(STATUS_MISUSE)
}
