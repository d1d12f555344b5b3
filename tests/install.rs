//! `make install`, and its result for a user: compilers, pkg-config, headers, man pages.
//!
//! - the installed files compile and run programs by themselves, with the wrappers and with
//!   pkg-config, and need nothing from the build folder;
//! - CMake finds the library by `find_package(OpenSHMEM)`, and by a version of the specification;
//! - `DESTDIR` is prepended to every path and appears in no file;
//! - debug symbols are left out, or in files of their own, where addr2line finds them;
//! - `make uninstall` leaves only what was there before;
//! - the wrappers answer `-show` and `--showme` questions with the installed places, and `--help`
//!   and `--version` before their compilers do;
//! - `make deb` looks for what it needs before it builds;
//! - the man pages have no errors, and name every option and every setting.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "support/built.rs"]
mod built;
#[path = "support/skip.rs"]
mod skip;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PAGES: &[&str] = &[
    "man1/oshrun.1",
    "man1/oshcc.1",
    "man1/oshc++.1",
    "man1/oshinfo.1",
    "man1/oshadvise.1",
    "man1/oshreport.1",
    "man3/shmem_checkpoint_all.3",
    "man3/shmem_query_fault.3",
    "man3/shmem_restart_pes.3",
    "man3/shmem_ft_algo_init.3",
    "man7/raidshmem.7",
];

/// Returns the fault-tolerance calls: the thesis' ones, and those that `shmem_ft.h` declares.
fn calls() -> Vec<String> {
    let header = fs::read_to_string(Path::new(ROOT).join("include/shmem_ft.h")).expect("a header");
    let declared = header.lines().filter(|line| line.ends_with(");"));
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("shmemx_ft_").then(|| name.to_owned())
    };
    let thesis = PAGES.iter().filter_map(|page| page.strip_prefix("man3/")?.strip_suffix(".3"));
    declared.filter_map(name).chain(thesis.map(str::to_owned)).collect()
}

/// Returns the page of a call, and its name there: the gets of all types share one, as in
/// OpenSHMEM.
fn documented(call: &str) -> (&str, String) {
    if call.starts_with("shmemx_ft_set_") {
        return ("shmemx_ft_set_open", call.to_owned());
    }
    let typed = |end: &str| call.strip_prefix("shmemx_ft_")?.strip_suffix(end).map(str::len);
    match ["_iget", "_get"].into_iter().find(|end| typed(end).is_some()) {
        Some(end) => ("shmemx_ft_get", format!("shmemx_ft_TYPE{end}")),
        None => (call, call.to_owned()),
    }
}

/// Makes an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install").join(name);
    let _ = fs::remove_dir_all(&folder); // it may not exist
    fs::create_dir_all(&folder).expect("a folder below the target folder");
    folder
}

/// Runs a command without the variables that lead to the build folder, and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("SHMEM_")) {
        command.env_remove(name);
    }
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{errors}", output.status);
    printed
}

/// Runs `make` for a target, with variables.
fn make(target: &str, variables: &[(&str, &str)]) -> String {
    let set = variables.iter().map(|(name, value)| format!("{name}={value}"));
    run(Command::new("make").args(["--no-print-directory", "-C", ROOT, target]).args(set))
}

/// Runs `make install` for the programs built with this test.
fn install(into: &Path, prefix: &Path, destdir: &str) {
    install_with(into, prefix, &[("DESTDIR", destdir)]);
}

fn install_with(into: &Path, prefix: &Path, more: &[(&str, &str)]) {
    let built = built::gather(into);
    let (from, to) = (built.display().to_string(), prefix.display().to_string());
    make("install", &[&[("BUILT", from.as_str()), ("PREFIX", to.as_str())], more].concat());
    // No installed file may need it.
    fs::remove_dir_all(built).expect("it was just made");
}

/// Returns every file and link below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let below = |path: PathBuf| match path.is_dir() && !path.is_symlink() {
        true => files(&path),
        false => BTreeSet::from([path]),
    };
    entries.flat_map(below).collect()
}

#[test]
fn the_installation_can_be_removed() {
    let prefix = folder("removed");
    let foreign = prefix.join("include/mpp/other.h");
    fs::create_dir_all(foreign.parent().expect("a folder")).expect("below the target folder");
    fs::write(&foreign, "").expect("a file below the target folder");
    install_with(&prefix, &prefix, &[("SYMBOLS", "yes"), ("LIB", "lib64")]);
    assert!(files(&prefix).len() > 50 && prefix.join("lib64/.debug").is_dir());
    let to = prefix.display().to_string();
    let uninstall = || make("uninstall", &[("PREFIX", &to), ("LIB", "lib64")]);
    uninstall();
    assert_eq!(files(&prefix), BTreeSet::from([foreign]));
    assert!(!prefix.join("lib64/cmake/OpenSHMEM").exists(), "an empty folder of its own is left");
    uninstall(); // nothing is there: no error
}

/// Symbols are twenty times as large as the code they describe.
#[test]
fn symbols_for_debuggers_are_left_out() {
    let prefix = folder("small");
    install(&prefix, &prefix, "");
    let all = files(&prefix);
    assert!(all.iter().all(|file| !file.to_string_lossy().contains(".debug")), "{all:#?}");
    for file in all.iter().filter(|file| file.parent().is_some_and(|of| of.ends_with("bin"))) {
        assert!(!sections(file).contains(".debug_line"), "{} is not stripped", file.display());
    }
}

/// A machine without `dh`, on which apt-get records its arguments.
#[test]
fn packaging_tools_are_checked_before_the_build() {
    let steps = run(Command::new("make").args(["-n", "-C", ROOT, "deb"]));
    let at = |step: &str| steps.find(step).unwrap_or_else(|| panic!("no {step} in\n{steps}"));
    assert!(at(".ci/setup deb") < at("cargo build") && at("cargo build") < at("packaging/deb.sh"));

    let (bin, noted) = (folder("no-dh"), folder("asked").join("noted"));
    let fake = |name: &str, script: &str| {
        let (path, script) = (bin.join(name), format!("#!/bin/sh\n{script}\n"));
        fs::write(&path, script).expect("a file below the target folder");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it was just written");
    };
    fake("apt-get", &format!("echo \"$*\" >> {}", noted.display()));
    // These stand in for the commands that run as root, and change nothing on this machine.
    for name in ["tee", "chmod", "rm"] {
        fake(name, "cat > /dev/null");
    }
    fake("sudo", "exec \"$@\"");
    let path = std::env::var_os("PATH").expect("a path");
    let there = std::env::split_paths(&path).flat_map(fs::read_dir).flatten().flatten();
    for program in there.filter(|program| program.file_name() != "dh") {
        // The first program of a name takes precedence.
        let _ = symlink(program.path(), bin.join(program.file_name()));
    }
    run(Command::new(Path::new(ROOT).join(".ci/setup")).arg("deb").env("PATH", &bin));
    let asked = fs::read_to_string(&noted).expect("apt-get was called");
    assert!(
        asked.lines().any(|line| line.contains("install") && line.contains("debhelper")),
        "{asked}"
    );
}

/// Compiles and runs `examples/count.c` with the installed launcher.
#[track_caller]
fn count(prefix: &Path, program: &Path) {
    let mut oshrun = Command::new(prefix.join("bin/oshrun"));
    oshrun.args(["-n", "4", "--kill", "1@3"]).arg(program).env("SHMEM_FT_BACKUP_MODE", "raid5");
    let printed = run(&mut oshrun);
    assert!(printed.lines().any(|line| line == "sum 760"), "{printed}");
    let needed = run(Command::new("ldd").arg(program));
    let library = prefix.join("lib/libraidshmem.so.0 ").display().to_string();
    assert!(needed.contains(&library), "{needed}");
}

#[test]
fn the_installation_compiles_and_runs_programs() {
    let prefix = folder("prefix");
    install(&prefix, &prefix, "");
    let source = Path::new(ROOT).join("examples/count.c");
    let (by_wrapper, by_pkg_config) = (prefix.join("by-wrapper"), prefix.join("by-pkg-config"));
    let strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-o"];

    run(Command::new(prefix.join("bin/oshcc")).args(strict).args([&by_wrapper, &source]));
    count(&prefix, &by_wrapper);

    let pkg_config = |question: &str| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let words = run(command.args([question, "raidshmem"]));
        words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(pkg_config("--modversion"), [env!("CARGO_PKG_VERSION")]);
    run(Command::new("cc")
        .args(strict)
        .args([&by_pkg_config, &source])
        .args(pkg_config("--cflags"))
        .args(pkg_config("--libs")));
    count(&prefix, &by_pkg_config);

    let program = "#include <shmem.h>\n#include <mpp/shmem.h>\n#include <cstdio>\n\
                   int main() { shmem_init(); std::printf(\"PEs %d\\n\", shmem_n_pes()); \
                   shmem_finalize(); }\n";
    let (source, target) = (prefix.join("hello.cc"), prefix.join("hello"));
    fs::write(&source, program).expect("a file below the target folder");
    run(Command::new(prefix.join("bin/oshc++")).args(strict).args([&target, &source]));
    let printed = run(Command::new(prefix.join("bin/oshrun")).args(["-n", "2"]).arg(&target));
    assert_eq!(printed, "PEs 2\nPEs 2\n");
    for name in ["oshinfo", "oshreport", "oshadvise"] {
        let version = run(Command::new(prefix.join("bin").join(name)).arg("--version"));
        assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
}

/// Returns the sections of a file, as readelf prints them.
fn sections(file: &Path) -> String {
    run(Command::new("readelf").arg("-SW").arg(file))
}

#[test]
fn symbols_for_debuggers_are_apart() {
    let prefix = folder("symbols");
    install_with(&prefix, &prefix, &[("SYMBOLS", "yes")]);
    let version = env!("CARGO_PKG_VERSION");
    let library = prefix.join(format!("lib/libraidshmem.so.{version}"));
    let link = |name: &str| fs::read_link(prefix.join("lib").join(name)).expect("a link");
    assert_eq!(link("libraidshmem.so"), Path::new("libraidshmem.so.0"));
    assert_eq!(link("libraidshmem.so.0"), Path::new(library.file_name().expect("a name")));
    for file in [library.clone(), prefix.join("bin/oshrun")] {
        let (folder, name) = (file.parent().expect("a folder"), file.file_name().expect("a name"));
        let symbols = folder.join(".debug").join(format!("{}.debug", name.display()));
        assert!(!sections(&file).contains(".debug_line"), "{} is not stripped", file.display());
        assert!(sections(&symbols).contains(".debug_line"), "{}", symbols.display());
    }
    // Debuggers and backtraces resolve an address to a line of our sources.
    let found = run(Command::new("nm").arg("-D").arg(&library));
    let line = found.lines().find(|line| line.contains(" shmem_my_pe@")).expect("it is exported");
    let address = line.split(' ').next().expect("an address");
    let place = run(Command::new("addr2line").arg("-e").arg(&library).arg(address));
    assert!(place.contains(".rs:"), "{place}");
}

#[test]
fn wrappers_answer_with_the_installed_places() {
    let prefix = folder("questions");
    install(&prefix, &prefix, "");
    let shown = prefix.display().to_string();
    let compile = format!("-I{shown}/include");
    let link = format!("-L{shown}/lib -Wl,-rpath,{shown}/lib -lraidshmem -Wl,-z,now");
    let link = format!("{link} -Wl,--build-id");
    let wrappers = [("oshcc", "cc"), ("oshc++", "c++"), ("oshcxx", "c++"), ("oshCC", "c++")];
    for (wrapper, compiler) in wrappers {
        let ask = |words: &[&str]| {
            let mut command = Command::new(prefix.join("bin").join(wrapper));
            command.env_remove("OSHCC_CC").env_remove("OSHCC_CXX");
            run(command.args(words)).trim_end().to_owned()
        };
        assert_eq!(ask(&["--showme:compile"]), compile);
        assert_eq!(ask(&["--showme:link"]), link);
        assert_eq!(ask(&["--showme:incdirs"]), format!("{shown}/include"));
        assert_eq!(ask(&["--showme:libdirs"]), format!("{shown}/lib"));
        assert_eq!(ask(&["--showme:libs"]), "raidshmem");
        for question in ["-show", "--showme"] {
            let whole = format!("{compiler} -c a.c {compile}");
            assert_eq!(ask(&[question, "-c", "a.c"]), whole);
            let whole = format!("{compiler} a.o -o a {compile} {link}");
            assert_eq!(ask(&["a.o", "-o", "a", question]), whole);
        }
        let version = ask(&["--version"]);
        let ours = format!("{} {}", names(wrapper), env!("CARGO_PKG_VERSION"));
        assert!(version.starts_with(&ours), "{version}");
        let theirs = run(Command::new(compiler).arg("--version"));
        assert!(version.ends_with(theirs.trim_end()), "{version}");
        let help = ask(&["--help"]);
        assert!(help.starts_with(&format!("Usage: {} ", names(wrapper))), "{help}");
        for option in ["--advise", "-show", "--showme:compile", "OSHCC_C", "-o <file>"] {
            assert!(help.contains(option), "{option} is not in\n{help}");
        }
    }
}

/// Returns the name that a wrapper prints, under all of its names.
fn names(wrapper: &str) -> &str {
    if wrapper == "oshcc" { wrapper } else { "oshcxx" }
}

#[test]
fn cmake_finds_the_library() {
    if Command::new("cmake").arg("--version").output().is_err() {
        skip::skip("cmake", "there is no cmake");
        return;
    }
    let prefix = folder("cmake");
    install(&prefix, &prefix, "");
    let (source, build) = (prefix.join("source"), prefix.join("build"));
    fs::create_dir_all(&source).expect("a folder below the target folder");
    fs::copy(Path::new(ROOT).join("examples/count.c"), source.join("count.c"))
        .expect("it is there");
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(count C)\n\
                 find_package(OpenSHMEM REQUIRED)\nadd_executable(count count.c)\n\
                 target_link_libraries(count PRIVATE OpenSHMEM::OpenSHMEM)\n";
    fs::write(source.join("CMakeLists.txt"), lists).expect("a file below the target folder");
    let shown = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").arg("-S").arg(&source).arg("-B").arg(&build).arg(&shown));
    run(Command::new("cmake").arg("--build").arg(&build));
    count(&prefix, &build.join("count"));
    let dynamic = run(Command::new("readelf").arg("-d").arg(build.join("count")));
    assert!(dynamic.contains("NOW"), "statics are resolved before the program runs: {dynamic}");

    // The version is that of the specification: earlier ones are accepted.
    let asked = prefix.join("asked");
    fs::create_dir_all(&asked).expect("a folder below the target folder");
    let find = |version: &str, found: bool| {
        let line = format!("find_package(OpenSHMEM {version} QUIET)\n");
        format!(
            "{line}if(NOT \"${{OpenSHMEM_FOUND}}\" STREQUAL \"{}\")\n  message(SEND_ERROR \
             \"{version}: ${{OpenSHMEM_FOUND}}\")\nendif()\n",
            u8::from(found)
        )
    };
    let cases = [
        ("1.4", true),
        ("1.5", true),
        ("1.6", true),
        ("1.6 EXACT", true),
        ("1.5 EXACT", false),
        ("1.7", false),
        ("2.0", false),
        ("0.1", false),
        ("1.4...1.6", true),
        ("1.4...<1.6", false),
        ("1.4...1.5", false),
        ("1.4...2", true),
    ];
    let cases: String = cases.iter().map(|(version, found)| find(version, *found)).collect();
    let lists = format!("cmake_minimum_required(VERSION 3.19)\nproject(asked C)\n{cases}");
    fs::write(asked.join("CMakeLists.txt"), lists).expect("a file below the target folder");
    let build = asked.join("build");
    run(Command::new("cmake").arg("-S").arg(&asked).arg("-B").arg(build).arg(shown));
}

#[test]
fn destdir_is_before_every_path_and_in_no_file() {
    let staging = folder("staging");
    let destdir = staging.display().to_string();
    install(&staging, Path::new("/opt/raidshmem"), &destdir);
    let prefix = staging.join("opt/raidshmem");
    let pc = fs::read_to_string(prefix.join("lib/pkgconfig/raidshmem.pc")).expect("installed");
    assert!(pc.starts_with("prefix=/opt/raidshmem\n") && !pc.contains(&destdir), "{pc}");
    for header in ["shmem.h", "pshmem.h", "shmemx.h", "shmem_ft.h", "shmem_ft.hpp", "mpp/shmem.h"] {
        assert!(prefix.join("include").join(header).is_file(), "{header} is not installed");
    }
    for page in PAGES {
        assert!(prefix.join("share/man").join(page).is_file(), "{page} is not installed");
    }
    assert!(calls().len() > 10);
    for call in calls() {
        let (page, call) = documented(&call);
        let page = prefix.join(format!("share/man/man3/{page}.3"));
        let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{call}: {error}"));
        let name = text.lines().skip_while(|line| *line != ".SH NAME").nth(1).expect("a name");
        assert!(name.split([',', ' ']).any(|word| word == call), "{call}: {name}");
    }
    let others = fs::read_dir(&staging).expect("just made").count();
    assert_eq!(others, 1, "files were installed outside of the prefix");
}

/// The manual's example; the library accepts its recommendations.
#[test]
fn a_plan_recommends_settings_that_the_library_takes() {
    let oshinfo = || Command::new(env!("CARGO_BIN_EXE_oshinfo"));
    let words = "plan --heap 32G --pes 4096 --nodes 128 --mtbf 6h --link 25GB/s";
    let plan = run(oshinfo().args(words.split(' ')));
    let rows: Vec<&str> = plan.lines().filter(|line| line.contains(" %")).collect();
    assert!(rows.len() >= 10, "candidates were expected in\n{plan}");
    let best: Vec<&&str> = rows.iter().filter(|row| row.starts_with("* ")).collect();
    assert_eq!(best.len(), 1, "one best was expected in\n{plan}");
    let export = plan.lines().find_map(|line| line.strip_prefix("export "));
    let pairs: Vec<(&str, &str)> =
        export.expect("settings").split(' ').filter_map(|word| word.split_once('=')).collect();
    let names: Vec<&str> = pairs.iter().map(|&(name, _)| name).collect();
    assert!(names.contains(&"SHMEM_FT_BACKUP_MODE") && names.contains(&"SHMEM_FT_INTERVAL"));
    let shown = run(oshinfo().envs(pairs.clone()));
    for (name, value) in pairs {
        let row = shown.lines().find(|line| line.trim_start().starts_with(name));
        let given = row.and_then(|row| row.split_whitespace().nth(1));
        assert_eq!(given, Some(value), "{name}");
    }
    for (words, says) in [
        ("plan", "oshinfo: plan: --heap <BYTES>, --pes <N>, "),
        ("plan --heap 1G --pes x", "oshinfo: plan: --pes x: expected 2 to 16384"),
        ("plan --mtfb 6h", "oshinfo: plan: --mtfb: no such option, nearest is --mtbf; "),
        ("plam", "oshinfo: plam: expected engines, plan, "),
    ] {
        let output = oshinfo().args(words.split(' ')).output().expect("oshinfo runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.starts_with(says), "`{says}` was expected: {err}");
    }
}

#[test]
fn the_man_pages_are_sound_and_complete() {
    let man = |name: &str| Path::new(ROOT).join("man").join(name);
    let pages = fs::read_dir(Path::new(ROOT).join("man")).expect("a folder").flatten();
    let pages: Vec<PathBuf> = pages.map(|page| page.path()).collect();
    run(Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&pages));
    let of = |name: &str| fs::read_to_string(man(name)).expect("a page").replace('\\', "");
    let (oshrun, oshinfo, oshcc) = (of("oshrun.1"), of("oshinfo.1"), of("oshcc.1"));
    for entry in raidshmem_core::settings::table() {
        assert!(oshrun.contains(entry.name), "oshrun.1 lacks {}", entry.name);
    }
    let help = run(Command::new(env!("CARGO_BIN_EXE_oshrun")).arg("--help"));
    let usage = run(Command::new(env!("CARGO_BIN_EXE_oshinfo")).arg("--help"));
    let is_option = |word: &&str| word.starts_with("--") && word.len() > 2;
    let options = |text: &str| {
        let ends = [' ', '\n', '[', ']', ',', ';'];
        let words = text.split(ends).filter(is_option).map(str::to_owned);
        words.collect::<Vec<_>>()
    };
    assert!(!options(&help).is_empty() && !options(&usage).is_empty());
    for option in options(&help) {
        assert!(oshrun.contains(&option), "oshrun.1 lacks {option}");
    }
    for option in options(&usage) {
        assert!(oshinfo.contains(&option), "oshinfo.1 lacks {option}");
    }
    let plan = run(Command::new(env!("CARGO_BIN_EXE_oshinfo")).args(["plan", "--help"]));
    for option in options(&plan) {
        assert!(oshinfo.contains(&option), "oshinfo.1 lacks {option}");
    }
    let store = run(Command::new(env!("CARGO_BIN_EXE_oshinfo")).args(["store", "--help"]));
    for option in options(&store) {
        assert!(oshinfo.contains(&option), "oshinfo.1 lacks {option}");
    }
    let help = run(Command::new(env!("CARGO_BIN_EXE_oshreport")).arg("--help"));
    for option in options(&help) {
        assert!(of("oshreport.1").contains(&option), "oshreport.1 lacks {option}");
    }
    let known = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.filter(is_option).map(str::to_owned).collect()
    };
    let oshruns = run(Command::new(env!("CARGO_BIN_EXE_oshrun")).arg("--help"));
    let oshinfos = format!("{usage} {plan} {store}");
    for (page, helps) in [("oshinfo.1", &oshinfos), ("oshreport.1", &help)] {
        let there = known(&format!("{helps} {oshruns}"));
        let named = known(&of(page));
        let more: Vec<_> = named.difference(&there).collect();
        assert!(more.is_empty(), "{page} names {more:?}, which --help does not");
    }
    let advice = run(Command::new(env!("CARGO_BIN_EXE_oshadvise")).arg("--help"));
    for option in options(&advice) {
        assert!(of("oshadvise.1").contains(&option), "oshadvise.1 lacks {option}");
    }
    for question in [
        "--help",
        "--version",
        "--advise",
        "-show",
        "--showme:compile",
        ":link",
        ":incdirs",
        ":libdirs",
        ":libs",
    ] {
        assert!(oshcc.contains(question), "oshcc.1 lacks {question}");
    }
}
