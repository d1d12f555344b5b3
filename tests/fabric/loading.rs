//! Loading of network libraries: only the processes that use a library load it; if it cannot be
//! loaded, one line names the missing file or function and the remedy, before anything starts.
//!
//! `LD_LIBRARY_PATH` leads the loader to another library: an empty file, or one in C with the
//! functions under test.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{Job, Outcome, has_ofi_too, has_ucx_too, program};

const UCX: &str = "libucp.so.0";
const VERBS: &str = "libibverbs.so.1";
const OFI: &str = "libfabric.so.1";
const NEEDS: [(&str, &str); 3] = [
    ("ucx", "UCX 1.13 or newer (Debian: apt-get install libucx0)"),
    ("verbs", "libibverbs (Debian: apt-get install libibverbs1 ibverbs-providers)"),
    ("ofi", "libfabric 1.17 or newer (Debian: apt-get install libfabric1)"),
];

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loading").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for libraries");
    folder
}

/// Makes a folder in which all libraries are invalid files.
fn broken() -> PathBuf {
    let folder = folder("broken");
    for library in [UCX, VERBS, OFI] {
        std::fs::write(folder.join(library), "").expect("a file");
    }
    folder
}

/// Makes a folder with a library of these functions, which reports `version`.
fn made(name: &str, library: &str, functions: &[&str], version: (u32, u32)) -> PathBuf {
    let folder = folder(name);
    let mut source = String::new();
    for function in functions {
        let (major, minor) = version;
        let _ = match *function {
            "ucp_get_version" => writeln!(
                source,
                "void {function}(unsigned *a, unsigned *b, unsigned *c) \
                 {{ *a = {major}; *b = {minor}; *c = 0; }}"
            ),
            "fi_version" => {
                writeln!(source, "unsigned {function}(void) {{ return {major} << 16 | {minor}; }}")
            }
            _ => writeln!(source, "void {function}(void) {{}}"),
        };
    }
    let file = folder.join("library.c");
    std::fs::write(&file, source).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join(library)).arg(&file);
    assert!(compiler.status().expect("cc runs").success(), "{library} of {name}");
    folder
}

/// Returns the functions that bindings look for.
fn functions(bindings: &'static str) -> Vec<&'static str> {
    let found = bindings.split("library.get(b\"").skip(1);
    let found: Vec<&str> = found.filter_map(|rest| rest.split("\\0").next()).collect();
    assert!(found.len() > 5, "{found:?}");
    found
}

fn shows(job: Job, libraries: &Path) -> Job {
    job.env("LD_LIBRARY_PATH", libraries.to_str().expect("a plain name"))
}

/// Checks that `oshrun` prints only this line, and starts nothing.
#[track_caller]
fn refused(outcome: &Outcome, line: &str) {
    outcome.status(2);
    let expected = format!("oshrun: {line}\n");
    outcome.check(outcome.err == expected, &format!("`{expected}` was expected"));
}

#[test]
fn a_library_that_is_not_there_is_one_line_with_what_would_help() {
    let libraries = broken();
    for ((fabric, needs), library) in NEEDS.into_iter().zip([UCX, VERBS, OFI]) {
        let file = libraries.join(library);
        let line = format!("fabric {fabric}: {}: file too short; expected {needs}", file.display());
        let touch = |job: Job| job.args(&["sh", "-c", "touch started"]);
        let asked = Job::new(2).args(&["--nodes", "2", "--fabric", fabric]);
        refused(&touch(shows(asked, &libraries)).run(), &line);
        let set = Job::new(2).env("SHMEM_FT_FABRIC", fabric);
        refused(&touch(shows(set, &libraries)).run(), &line);
        if fabric == "ucx" {
            let between = Job::of(&["--hosts", "nobody:1,noone:1", "--launch-agent", "{host}"]);
            refused(&touch(shows(between, &libraries)).run(), &line);
        }
    }
    // Over shared memory they are not needed.
    let job = Job::new(2).args(&["--nodes", "2"]).program(&program("litmus"), &["together"]);
    shows(job, &libraries).run().status(0);
}

#[test]
fn a_library_that_lacks_a_function_or_is_too_old_is_named() {
    let (ucx, verbs, ofi) = (
        functions(include_str!("../../ucx-sys/src/bindings.rs")),
        functions(include_str!("../../rdma-sys/src/bindings/x86_64.rs")),
        functions(include_str!("../../ofi-sys/src/lib.rs")),
    );
    for ((fabric, needs), (library, all, missing)) in NEEDS.into_iter().zip([
        (UCX, &ucx, "ucp_put_nbx"),
        (VERBS, &verbs, "ibv_create_srq"),
        (OFI, &ofi, "fi_fabric"),
    ]) {
        let some: Vec<&str> = all.iter().copied().filter(|name| *name != missing).collect();
        assert_eq!(some.len() + 1, all.len());
        let libraries = made(&format!("{fabric}-lacks-one"), library, &some, (1, 13));
        let job = Job::new(2).args(&["--fabric", fabric, "true"]);
        let file = libraries.join(library);
        let why = format!("{}: undefined symbol: {missing}", file.display());
        let line = format!("fabric {fabric}: {why}; expected {needs}");
        refused(&shows(job, &libraries).run(), &line);
    }
    let libraries = made("ucx-old", UCX, &ucx, (1, 12));
    let job = Job::new(2).args(&["--fabric", "ucx", "true"]);
    let line = format!("fabric ucx: {UCX} is of version 1.12; expected {}", NEEDS[0].1);
    refused(&shows(job, &libraries).run(), &line);
    let libraries = made("ofi-old", OFI, &ofi, (1, 16));
    let job = Job::new(2).args(&["--fabric", "ofi", "true"]);
    let line = format!("fabric ofi: {OFI} is of version 1.16; expected {}", NEEDS[2].1);
    refused(&shows(job, &libraries).run(), &line);
}

#[test]
fn oshinfo_reports_which_engines_can_be_loaded() {
    let libraries = broken();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshinfo"));
    let output = command.arg("engines").env("LD_LIBRARY_PATH", &libraries).output();
    let output = output.expect("oshinfo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("fabric shm: "), "{text}");
    for (line, (fabric, needs)) in lines[1..].iter().zip(NEEDS) {
        assert!(
            line.starts_with(&format!("fabric {fabric}: /")) && line.ends_with(needs),
            "{text}"
        );
    }
    if has_ucx_too() {
        let output = Command::new(env!("CARGO_BIN_EXE_oshinfo")).arg("engines").output();
        let text = String::from_utf8_lossy(&output.expect("oshinfo runs").stdout).into_owned();
        assert!(text.contains("\nfabric ucx: can be loaded\n"), "{text}");
    }
}

/// Returns the processes of a job over `fabric` that have this library in memory, and those that do
/// not: by their kind.
fn holders(fabric: &str, library: &str) -> (Vec<String>, Vec<String>) {
    let job = Job::new(2).args(&["--nodes", "2", "--fabric", fabric]).mode("none");
    let run = job.program(&program("steps"), &[]).until("ready");
    let holds = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.expect("it runs").lines().any(|line| line.contains(library))
    };
    let found = run.processes().into_iter().filter(|found| !found.is_zombie());
    let (with, without): (Vec<_>, Vec<_>) = found.partition(|found| holds(found.pid));
    run.end().status(0);
    let [mut with, mut without] =
        [with, without].map(|all| all.into_iter().map(|found| found.name).collect::<Vec<_>>());
    with.sort();
    without.sort();
    (with, without)
}

#[test]
fn only_pes_of_a_job_over_an_engine_load_its_library() {
    let all = || ["exe", "exe", "oshrun", "steps", "steps"].map(str::to_owned).to_vec();
    for library in ["/libucp.so", "/libucs.so", "/libibverbs.so", "/libfabric.so"] {
        assert_eq!(holders("shm", library), (Vec::new(), all()), "{library}");
    }
    if has_ucx_too() {
        let (with, without) = holders("ucx", "/libucp.so");
        assert_eq!(with, ["steps", "steps"]);
        assert_eq!(without, ["exe", "exe", "oshrun"], "agents and launcher");
    }
    if has_ofi_too() {
        let (with, without) = holders("ofi", "/libfabric.so");
        assert_eq!(with, ["steps", "steps"]);
        assert_eq!(without, ["exe", "exe", "oshrun"], "agents and launcher");
    }
}
