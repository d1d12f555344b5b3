//! An external client: shmem4py, the Python bindings, and its own test suite.
//!
//! pip fetches the source distribution from PyPI, by its checksum, into a virtual environment below
//! the target folder; its extension module is built with our `oshcc`; and its whole suite runs
//! under `oshrun` with 1, 2 and 4 PEs. Every test must pass on every PE, or be listed in
//! `shmem4py/known.txt` with the reason why shmem4py is wrong and not this library.
//!
//! The package of this repository (`python/`) builds on it, installed by pip into a folder of its
//! own: its programs lose PEs and nodes by SIGKILL, and end with the bytes of a run without losses.
//!
//! `PYTHON` names another interpreter than `python3`. The build is reused until the headers, the
//! interpreter, the library's place or the requirements change. Needs the network the first time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const OSHCC: &str = env!("CARGO_BIN_EXE_oshcc");
const OSHRUN: &str = env!("CARGO_BIN_EXE_oshrun");
/// The limit after which a run counts as hung; an idle machine takes two seconds.
const LIMIT: Duration = Duration::from_secs(180);
/// Tests in the suite of version 1.0.0.
const TESTS: usize = 110;
/// shmem4py knows five libraries by name; it suffices to claim that ours has all that Sandia's has.
const FLAGS: &str = "-O0 -g0 -DPySHMEM_VENDOR_Sandia=1";

/// Returns the folder of everything that is kept.
fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("shmem4py")
}

fn ours(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/shmem4py").join(name)
}

fn in_venv(program: &str) -> PathBuf {
    home().join("venv/bin").join(program)
}

fn source() -> PathBuf {
    home().join("source")
}

/// Runs a command to its end and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{errors}", output.status);
    printed
}

fn python() -> String {
    std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Returns everything on which the build depends, as text.
fn ingredients() -> String {
    let version = run(Command::new(python()).args(["-c", "import sys; print(sys.version)"]));
    let link = run(Command::new(OSHCC).arg("--showme"));
    let read = |path: &Path| fs::read_to_string(path).expect("a file of the repository");
    let files = ["shmem.h", "pshmem.h"].map(|name| Path::new(ROOT).join("include").join(name));
    let files = files.into_iter().chain(["requirements.txt", "source.txt"].map(ours));
    files.map(|path| read(&path)).fold(format!("{FLAGS}\n{version}{link}"), |all, text| all + &text)
}

/// Fetches and builds, unless that was done from the same inputs.
fn build() {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (stamp, wanted) = (home().join("stamp"), ingredients());
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return;
    }
    let _ = fs::remove_dir_all(home()); // it may not exist
    fs::create_dir_all(source()).expect("a folder below the target folder");
    run(Command::new(python()).args(["-m", "venv"]).arg(home().join("venv")));
    let pip = || {
        let mut pip = Command::new(in_venv("python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]);
        pip
    };
    run(pip().args(["install", "--requirement"]).arg(ours("requirements.txt")));
    run(pip()
        .args(["download", "--no-deps", "--no-binary", "shmem4py", "--no-build-isolation"])
        .args(["--require-hashes", "--dest"])
        .arg(home())
        .arg("--requirement")
        .arg(ours("source.txt")));
    run(Command::new("tar")
        .args(["-xzf", "shmem4py-1.0.0.tar.gz", "--strip-components=1", "-C"])
        .arg(source())
        .current_dir(home()));
    run(Command::new(in_venv("python"))
        .args(["setup.py", "--quiet", "build", "build_ext", "--inplace"])
        .current_dir(source())
        .env("OSHCC", OSHCC)
        .env("CFLAGS", FLAGS));
    fs::write(stamp, wanted).expect("a file below the target folder");
}

/// Waits for a job, and ends it if it takes too long.
fn wait(mut job: std::process::Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = job.try_wait().expect("the job is ours") {
            return Some(status);
        }
        if begun.elapsed() > LIMIT {
            // The launcher ends its PEs too.
            job.kill().expect("the job is ours");
            job.wait().expect("it was killed");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the result of each test on each PE, and the output of the job.
fn outcomes(pes: usize) -> (Vec<BTreeMap<String, String>>, Option<ExitStatus>, String) {
    let results = home().join(format!("results-{pes}"));
    let _ = fs::remove_dir_all(&results); // it may not exist
    fs::create_dir_all(&results).expect("a folder below the target folder");
    let printed = home().join(format!("printed-{pes}"));
    let file = File::create(&printed).expect("a file below the target folder");
    let mut command = Command::new(OSHRUN);
    // The suite is a program without faults; the folder of cargo's older builds must not come
    // before the library that `oshcc` linked.
    let foreign = std::env::vars_os().map(|(name, _)| name);
    for name in foreign.filter(|name| name.to_string_lossy().starts_with("SHMEM_")) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH");
    command.args(["-n", &pes.to_string()]).arg(in_venv("python")).arg(ours("run.py"));
    command.arg("test").arg(&results).current_dir(source()).env("PYTHONPATH", "src");
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    command.stdout(file.try_clone().expect("one more descriptor")).stderr(file);
    let status = wait(command.spawn().expect("oshrun was built"));
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.expect("readable").path()).expect("readable");
        let pair = |line: &str| line.split_once(' ').map(|(a, b)| (b.to_owned(), a.to_owned()));
        text.lines().filter_map(pair).collect()
    };
    let found = fs::read_dir(results).expect("just made").map(read).collect();
    (found, status, fs::read_to_string(printed).unwrap_or_default())
}

/// Returns the tests that are known to fail with this NumPy.
fn known() -> Vec<String> {
    let script = "import numpy; print(numpy.__version__.split('.')[0])";
    let numpy = run(Command::new(in_venv("python")).args(["-c", script]));
    let list = fs::read_to_string(ours("known.txt")).expect("a file of the repository");
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let fields = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let mut known = Vec::new();
    for field in fields {
        let [when, test, why] = field[..] else { panic!("known.txt: {field:?}: three fields") };
        assert!(!why.is_empty(), "known.txt: {test}: the reason is missing");
        if when == numpy.trim() {
            known.push(test.to_owned());
        }
    }
    known
}

#[track_caller]
fn check(pes: usize) {
    let (found, status, printed) = outcomes(pes);
    let tail = || {
        let lines: Vec<_> = printed.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    };
    let Some(status) = status else { panic!("{pes} PEs: hung\n{}", tail()) };
    assert_eq!(found.len(), pes, "{pes} PEs, but not as many results; {status}\n{}", tail());
    let known = known();
    for outcomes in &found {
        let tests = outcomes.keys().filter(|name| !name.starts_with("setUpClass")).count();
        assert_eq!(tests, TESTS, "{pes} PEs: another number of tests than in the suite");
        for (test, outcome) in outcomes {
            let (passed, listed) = (outcome == "ok", known.contains(test));
            assert!(passed || listed, "{pes} PEs: {test}: {outcome}\n{}", tail());
            assert!(!passed || !listed, "{pes} PEs: {test} passes: remove it from known.txt");
        }
    }
    assert!(status.success() || !known.is_empty(), "{pes} PEs: {status}\n{}", tail());
}

/// Installs our package once with pip, from a copy, since pip leaves files where it builds.
fn package() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(install)
}

fn install() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let _ = fs::remove_dir_all(&folder); // it may not exist
    fs::create_dir_all(&folder).expect("a folder below the target folder");
    run(Command::new("cp").arg("-r").arg(Path::new(ROOT).join("python")).arg(folder.join("copy")));
    run(Command::new(in_venv("python"))
        .args(["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"])
        .args(["--no-build-isolation", "--target"])
        .arg(folder.join("installed"))
        .arg(folder.join("copy")));
    folder.join("installed")
}

/// Returns the command of a program of the package under `oshrun` with these settings and options.
fn job(installed: &Path, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(OSHRUN);
    let foreign = std::env::vars_os().map(|(name, _)| name);
    for name in foreign.filter(|name| name.to_string_lossy().starts_with("SHMEM_")) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH");
    command.env_remove("PYTHONUNBUFFERED"); // a line would be two writes, and other PEs write too
    for option in options {
        match option.split_once('=').filter(|(name, _)| name.starts_with("SHMEM_")) {
            Some((name, value)) => command.env(name, value),
            None => command.arg(option),
        };
    }
    command.arg(in_venv("python")).args(words);
    let path = format!("{}:{}", source().join("src").display(), installed.display());
    command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null()).current_dir(Path::new(ROOT).join("python"));
    command
}

/// Runs a program of the package; returns its success and its output.
fn program(installed: &Path, options: &[&str], words: &[&str]) -> (bool, String, String) {
    let output = job(installed, options, words).output().expect("oshrun was built");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn programs_in_python_survive_losses_with_equal_bytes() {
    build();
    let installed = package();
    let heat = |options: &[&str]| {
        let all = [&["--timeout", "120", "-n", "4", "--mode", "raid5"], options].concat();
        let (well, printed, said) = program(installed, &all, &["examples/heat.py", "40"]);
        assert!(well, "{options:?}: {printed}{said}");
        (printed, said)
    };
    let (whole, _) = heat(&[]);
    assert!(
        whole.starts_with("heat ") && whole.ends_with(" after 40 steps of float64\n"),
        "{whole}"
    );
    // Before the first checkpoint, in the midst, twice, in the recovery, a node, at the end.
    for losses in [
        &["--kill", "1@1"][..],
        &["--kill", "0@2:encode"],
        &["--kill", "2@20", "--kill", "3@21"],
        &["--nodes", "4", "--kill-node", "3@9"],
        &["--kill", "1@41"],
    ] {
        let (printed, said) = heat(losses);
        assert_eq!(printed, whole, "{losses:?}: {said}");
        assert!(said.contains("resume from checkpoint"), "{losses:?}: {said}");
    }
    let calls = ["--timeout", "120", "-n", "4", "--mode", "raid5"];
    let (well, printed, said) = program(installed, &calls, &["tests/calls.py"]);
    assert!(well && said.contains("PE 1 was killed by SIGKILL"), "{printed}{said}");
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["PE 0: ok", "PE 1: ok", "PE 2: ok", "PE 3: ok"]);
}

/// Returns the share of new points that the trained network puts right, in per cent.
fn right(printed: &str) -> f64 {
    let share = printed.split_once(", ").and_then(|(_, rest)| rest.split_once("% of new points"));
    share.and_then(|(share, _)| share.parse().ok()).unwrap_or_else(|| panic!("a share: {printed}"))
}

/// Runs a job, and kills PE 1 from outside, with the script of the chapter about porting, after it
/// has printed this line; returns its success and its output.
fn killed_after(line: &str, mut command: Command) -> (bool, String, String) {
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
    let mut lines = BufReader::new(job.stderr.take().expect("it is piped")).lines();
    let mut said = String::new();
    for text in lines.by_ref().map(|text| text.expect("text") + "\n") {
        said += &text;
        if text.starts_with(line) {
            break;
        }
    }
    let tools = Path::new(OSHRUN).parent().expect("a folder").display();
    let path = format!("{tools}:{}", std::env::var("PATH").unwrap_or_default());
    let script = Path::new(ROOT).join("examples/porting/kill_pe.sh");
    run(Command::new("sh").arg(script).args(["1", &job.id().to_string()]).env("PATH", path));
    said.extend(lines.map(|text| text.expect("text") + "\n"));
    let output = job.wait_with_output().expect("it ends");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

/// The network learns to tell two spirals apart, and its weights have the same bits whichever
/// worker is lost.
#[test]
fn training_that_loses_workers_ends_with_equal_weights() {
    build();
    let installed = package();
    let words = ["examples/train.py", "12"];
    let options = |more: &[&'static str]| {
        [&["--timeout", "120", "-n", "4", "--mode", "raid5", "--verbose"], more].concat()
    };
    let train = |more: &[&'static str]| {
        let (well, printed, said) = program(installed, &options(more), &words);
        assert!(well && printed.starts_with("train loss "), "{more:?}: {printed}{said}");
        (printed, said)
    };
    let (whole, _) = train(&[]);
    assert!(right(&whole) > 95.0, "{whole}");
    for losses in [
        &["--kill", "2@3"][..],
        &["--kill", "0@5:encode", "--kill", "3@8"],
        &["--nodes", "4", "--kill-node", "3@6"],
        &["SHMEM_FT_ROLLBACK=local", "--kill", "1@3:before"],
    ] {
        let (printed, said) = train(losses);
        assert_eq!(printed, whole, "{losses:?}: {said}");
        assert!(said.contains(" was lost") || said.contains(" was killed"), "{losses:?}: {said}");
    }
    let job = job(installed, &options(&[]), &words);
    let (well, printed, said) = killed_after("oshrun: checkpoint 4: ", job);
    assert!(well && printed == whole, "{printed}, expected {whole}{said}");
    assert_eq!(said.matches("all PEs resume from checkpoint ").count(), 1, "{said}");
}

#[test]
fn programs_in_python_continue_with_fewer_pes() {
    build();
    let settings = ["SHMEM_FT_SUBSTITUTE=shrink", "SHMEM_FT_ROLLBACK=none"];
    let options = [&settings[..], &["--timeout", "120", "-n", "4", "--mode", "raid5"]].concat();
    let (well, printed, said) = program(package(), &options, &["tests/fewer.py"]);
    let end = "PE 1 was lost, and the remaining PEs finished";
    assert!(well && said.contains(end), "{printed}{said}");
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["PE 0: ok", "PE 2: ok", "PE 3: ok"]);
}

#[test]
fn the_suite_of_shmem4py_passes_on_1_2_and_4_pes() {
    build();
    for pes in [1, 2, 4] {
        check(pes);
    }
}
