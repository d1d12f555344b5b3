//! `oshadvise` as a user sees it: its output for programs in C and C++, and its errors.
//!
//! Needs clang 19 or newer, and is skipped without it, except for errors found before clang runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The length of the program whose analysis is timed, and the processor time that it may take.
const LINES: usize = 10_000;
const LONGEST: Duration = Duration::from_secs(10);

/// A folder for a test, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("advise-{name}"));
        fs::create_dir_all(&folder).expect("a folder below target");
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("a file of the test");
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oshadvise"));
        command.args(args).current_dir(&self.0).output().expect("oshadvise runs")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// Returns the code block that follows `begin` in the book's page.
fn of_the_book(begin: &str) -> String {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/advise.md")).expect("the page");
    let (_, rest) = page.split_once(&format!("```{begin}\n")).expect("its beginning");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_program_with_three_mistakes_gets_the_documented_advice() {
    needs!(has_clang);
    let folder = Folder::new("book");
    let program: String =
        of_the_book("c").lines().map(|l| format!("{}\n", l.get(4..).unwrap_or(""))).collect();
    folder.write("mistakes.c", &program);
    let output = folder.run(&["--brief", "mistakes.c"]);
    let expected = of_the_book("text");
    let (command, expected) = expected.split_once('\n').expect("a command");
    assert_eq!(command, "$ oshadvise --brief mistakes.c");
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn three_mistakes_mended_are_no_warnings() {
    needs!(has_clang);
    let folder = Folder::new("mended");
    let program: String =
        of_the_book("c").lines().map(|l| format!("{}\n", l.get(4..).unwrap_or(""))).collect();
    let program = program
        .replace("int step = 0;", "static int step;")
        .replace("shmemx_ft_exclude(grid, sizeof grid);", "")
        .replace("100 * sizeof *history);", "800);\n    shmemx_ft_protect(\"h\", history, 800);");
    folder.write("mended.c", &program);
    let output = folder.run(&["--brief", "mended.c"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(!text(&output.stdout).contains("warning"));
}

const SKIPS: &str = "#include <shmem.h>\n#include <shmem_ft.h>\nstatic int n;\n\
    static void save(void) { shmem_checkpoint_all(); }\n\
    int main(void) {\n    shmem_init();\n    int me = shmem_my_pe();\n    while (n++ < 9)\n\
    \x20       if (me == 0)\n            save();\n    shmem_finalize();\n}\n";

#[test]
fn a_checkpoint_that_depends_on_the_pe_number_is_reported() {
    needs!(has_clang);
    let folder = Folder::new("skips");
    folder.write("skips.c", SKIPS);
    let output = folder.run(&["--brief", "skips.c"]);
    let text = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("skips.c:10: warning: some PEs may not come to the checkpoint"),
        "{text}"
    );
    assert!(text.contains("(line 9) [skipped-checkpoint]"), "{text}");
    folder.write("all.c", &SKIPS.replace("me == 0", "n % 2"));
    assert_eq!(folder.run(&["all.c"]).status.code(), Some(0));
}

/// Returns a program that protects its private memory before its loop.
fn protecting(declared: &str, protects: &str) -> String {
    format!(
        "#include <shmem.h>\n#include <shmem_ft.h>\n#include <stdlib.h>\nstatic int step;\n\
         {declared}\nint main(void) {{\n    shmem_init();\n    double *p = malloc(80);\n\
         \x20   {protects}\n    while (step < 9) {{\n\
         \x20       if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {{\n\
         \x20           shmem_restart_pes(NULL, 0);\n            continue;\n        }}\n\
         \x20       p[0] += step++;\n    }}\n    double last = p[0];\n    free(p);\n\
         \x20   shmem_finalize();\n    return last < 0;\n}}\n"
    )
}

#[test]
fn memory_that_a_substitute_does_not_protect_is_reported() {
    needs!(has_clang);
    let folder = Folder::new("protects");
    let keep = "static void keep(double *p) { shmemx_ft_protect(\"p\", p, 80); }";
    let told = |declared: &str, protects: &str| {
        folder.write("form.c", &protecting(declared, protects));
        let output = folder.run(&["--brief", "form.c"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(i32::from(said.contains("warning"))), "{said}");
        said.matches("[skipped-protect]").count()
    };
    let protect = "shmemx_ft_protect(\"p\", p, 80);";
    for wrong in [
        format!("if (shmem_ft_algo_init()) {protect}"),
        format!("if (!shmem_ft_algo_init()) {protect}"),
        format!("int fresh = shmem_ft_algo_init(); p[1] = 2; if (fresh) {{ p[0] = 1; {protect} }}"),
        "if (shmem_ft_algo_init()) keep(p);".to_owned(),
        "if (shmem_ft_algo_init()) shmemx_ft_register(p, 80);".to_owned(),
        format!("if (!shmem_ft_algo_init()) goto on; {protect} on:;"),
        format!("if (shmem_ft_algo_init()) {protect} else shmemx_ft_protect(\"q\", p, 80);"),
    ] {
        assert!(told(keep, &wrong) > 0, "no advice about {wrong}");
    }
    for right in [
        protect.to_owned(),
        format!("if (shmem_ft_algo_init()) p[0] = 1; {protect}"),
        format!("if (shmem_ft_algo_init()) {{ p[0] = 1; {protect} }} else {protect}"),
        "if (shmem_ft_algo_init()) { p[0] = 1; keep(p); } else { keep(p); }".to_owned(),
        format!("if (shmem_n_pes() > 1) {protect} else p[0] = 1;"),
    ] {
        assert_eq!(told(keep, &right), 0, "{right}");
    }
}

/// A comment declares memory as scratch, by its name, and silences nothing else.
#[test]
fn scratch_memory_is_silenced_by_a_comment_that_names_it() {
    needs!(has_clang);
    let folder = Folder::new("scratch");
    let told = |declared: &str| {
        let program =
            protecting(declared, "double q = 1;").replace("p[0] +=", "q += p[1]; p[0] +=");
        folder.write("form.c", &program.replace("p[0];\n    free", "p[0] + q;\n    free"));
        let output = folder.run(&["form.c"]);
        let said = text(&output.stdout);
        (said.matches("[private-state]").count(), said)
    };
    let count = |declared: &str, expected: usize| {
        let (found, said) = told(declared);
        assert_eq!(found, expected, "{declared}\n{said}");
    };
    count("", 2);
    count("/* oshadvise: scratch p */", 1);
    count("// oshadvise: scratch q", 1);
    count("/* oshadvise: scratch step, other */", 2);
    count("/* oshadvise: scratch p, q */", 0);
    let (_, said) = told("/* oshadvise: scratch p, q */");
    assert!(!said.contains("private,") && said.contains("0 private to protect"), "{said}");
}

#[test]
fn editors_and_programs_get_equal_output() {
    needs!(has_clang);
    let folder = Folder::new("formats");
    folder.write("skips.c", SKIPS);
    let output = folder.run(&["--json", "-", "--sarif", "s.json", "--html", "s.html", "skips.c"]);
    let own = json(&output);
    assert_eq!(own["raidshmem_advise"], 1);
    let finding = &own["findings"][0];
    assert_eq!(
        (&finding["place"]["line"], &finding["rule"]),
        (&10.into(), &"skipped-checkpoint".into())
    );
    let sarif = fs::read(folder.0.join("s.json")).expect("it was written");
    let sarif: Value = serde_json::from_slice(&sarif).expect("JSON");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["message"]["text"], finding["message"]);
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 10);
    let page = fs::read_to_string(folder.0.join("s.html")).expect("it was written");
    assert!(page.contains("<div class=\"warning\">some PEs may not come"), "{page}");
    assert!(page.contains("#include &lt;shmem.h&gt;"), "the source is there, escaped");
}

#[test]
fn oshcc_runs_the_adviser() {
    needs!(has_clang);
    let folder = Folder::new("oshcc");
    folder.write("skips.c", SKIPS);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshcc"));
    command.args(["--advise", "-O2", "-o", "out", "skips.c", "-lm"]).current_dir(&folder.0);
    let output = command.output().expect("oshcc runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!folder.0.join("out").exists());
}

/// Our own programs have no mistake, and only known memory in them is dead.
#[test]
fn the_examples_have_no_warnings_and_nothing_live_is_dead() {
    needs!(has_clang);
    let folder = Folder::new("examples");
    let mut seen = 0;
    for sub in ["", "c", "cxx", "porting"] {
        let path = Path::new(ROOT).join("examples").join(sub);
        for entry in fs::read_dir(path).expect("a folder") {
            let path = entry.expect("an entry").path();
            if !path.extension().is_some_and(|e| e == "c" || e == "cc") {
                continue;
            }
            let name = path.display().to_string();
            let output = folder.run(&["--json", "-", &name]);
            // In raii two objects that a lambda captures by reference are taken for changed; in
            // libc_random setstate, which returns the previous array, is unknown code.
            let warned = ["raii.cc", "libc_random.c"].iter().any(|name| path.ends_with(name));
            let status = i32::from(warned);
            assert_eq!(output.status.code(), Some(status), "{name}: {}", text(&output.stdout));
            for point in json(&output)["points"].as_array().expect("points") {
                if point["checkpoint"] == true {
                    only_known_dead(&name, point);
                }
            }
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} examples");
}

/// In jacobi the switch `serial` is read only before the loop; in cg `mine` is always set first, in
/// bfs `waiting`; in hash `worked` is never read.
fn only_known_dead(name: &str, point: &Value) {
    let dead = point["dead"].as_array().expect("a list");
    let dead: Vec<_> = dead.iter().filter_map(|item| item["name"].as_str()).collect();
    let known: &[&str] = match Path::new(name).file_stem().and_then(|stem| stem.to_str()) {
        Some("jacobi") => &["serial"],
        Some("bfs") => &["waiting"],
        Some("cg") => &["mine"],
        Some("hash") => &["worked"],
        _ => &[],
    };
    assert_eq!(dead, known, "{name}");
}

#[test]
fn unanalysable_input_is_refused_in_one_line() {
    let folder = Folder::new("refusals");
    folder.write("damaged.ll", "define void @f() {\n");
    folder.write("part.ll", "define void @f() {\n  ret void\n}\n");
    let refused = |args: &[&str]| {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(
        refused(&["damaged.ll"]).contains("damaged.ll: line 1: a function without its closing")
    );
    assert!(refused(&["part.ll"]).contains("no function main in these files"));
    folder.write("main.ll", "define i32 @main() {\n  ret i32 0\n}\n");
    folder.write("other.ll", "define i32 @main() {\n  ret i32 0\n}\n");
    let said = refused(&["main.ll", "part.ll", "other.ll"]);
    assert!(said.contains("function main in each of"), "{said}");
    assert!(refused(&["main.ll", "main.ll"]).contains("function main in each of"));
    assert!(refused(&["none.ll"]).contains("none.ll: No such file"));
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless.ll")).expect("a link");
    assert!(refused(&["endless.ll"]).contains("endless.ll: expected a plain file"));
    assert!(refused(&[]).contains("FILE"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshadvise"));
    let output = command.arg("x.c").env("PATH", "/nowhere").output().expect("it runs");
    assert!(text(&output.stderr).contains("no clang 19 or newer: install clang-19"));
}

/// Returns a program of `LINES` lines: functions that call each other, loops, pointers, puts.
fn long_program() -> String {
    let mut text = String::from("#include <shmem.h>\n#include <shmem_ft.h>\n");
    let mut lines = 2;
    let mut at = 0;
    while lines < LINES {
        let other = if at == 0 { String::new() } else { format!("f{}(n - 1, p);", at / 2) };
        let body = format!(
            "static double a{at}[256], *q{at} = a{at};\n\
             static double f{at}(int n, double *p) {{\n    double sum = 0, part[4] = {{0}};\n\
             \x20   for (int i = 0; i < 256; i++) {{\n        part[i % 4] += p[i] * n;\n\
             \x20       q{at}[i] = part[i % 4] + (n > 0);\n        if (i % 3 == 0)\n\
             \x20           sum += a{at}[i];\n    }}\n\
             \x20   shmem_double_put(a{at}, part, 4, 0);\n    shmem_barrier_all();\n\
             \x20   if (n > 0) {{ {other} }}\n    return sum;\n}}\n"
        );
        lines += body.lines().count();
        text.push_str(&body);
        at += 1;
    }
    text.push_str("static int step;\nint main(void) {\n    shmem_init();\n");
    text.push_str("    while (step++ < 9) {\n        shmem_checkpoint_all();\n");
    for function in 0..at {
        text.push_str(&format!("        f{function}(step, a{});\n", (function * 7) % at));
    }
    text + "    }\n    shmem_finalize();\n}\n"
}

/// Parses the children's times in the last line of `times`: `0m1.230s 0m0.040s`.
fn spent(said: &str) -> Duration {
    let one = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    let last = said.lines().last().unwrap_or_default();
    let all: Option<f64> = last.split_whitespace().map(one).sum();
    Duration::from_secs_f64(all.unwrap_or_else(|| panic!("`times` says {last}")))
}

#[test]
fn ten_thousand_lines_take_less_than_ten_seconds() {
    needs!(has_clang);
    let folder = Folder::new("long");
    let program = long_program();
    assert!(program.lines().count() >= LINES);
    folder.write("long.c", &program);
    // The shell reports its children's processor time, clang's included: other load does not count.
    let script = "\"$0\" --brief long.c; status=$?; times >&2; exit $status";
    let oshadvise = env!("CARGO_BIN_EXE_oshadvise");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script, oshadvise]).current_dir(&folder.0).output();
    let output = output.expect("a shell");
    let took = spent(&text(&output.stderr));
    println!("{} lines: {took:?}", program.lines().count());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(": checkpoint: shmem_checkpoint_all in main"));
    assert!(took < LONGEST, "{took:?}");
}

/// `mark` is overwritten after the barrier, but read before that through a jump, or by peers.
const JUMPS: &[(&str, &str, &str)] = &[
    (
        "setjmp",
        "c",
        "#include <shmem.h>\n#include <setjmp.h>\n#include <stdio.h>\nstatic int mark, n;\n\
         static jmp_buf back;\nint main(void) {\n    shmem_init();\n    mark = 7;\n\
         \x20   if (setjmp(back)) { printf(\"%d\\n\", mark); return 0; }\n\
         \x20   shmem_barrier_all();\n\
         \x20   if (n) longjmp(back, 1);\n    mark = 0;\n    shmem_finalize();\n}\n",
    ),
    (
        "thread",
        "c",
        "#include <shmem.h>\n#include <pthread.h>\n#include <stdio.h>\nstatic int mark;\n\
         static void *run(void *p) { printf(\"%d\\n\", mark); return p; }\nint main(void) {\n\
         \x20   pthread_t id;\n    shmem_init();\n    mark = 7;\n\
         \x20   pthread_create(&id, 0, run, 0);\n    shmem_barrier_all();\n    mark = 0;\n\
         \x20   pthread_join(id, 0);\n    shmem_finalize();\n}\n",
    ),
    (
        "exception",
        "cc",
        "#include <shmem.h>\n#include <cstdio>\nstatic int mark, n;\n\
         static void may() { if (n) throw 1; mark = 0; }\nint main() {\n    shmem_init();\n\
         \x20   mark = 7;\n    shmem_barrier_all();\n    try { may(); }\n\
         \x20   catch (int) { std::printf(\"%d\\n\", mark); }\n    shmem_finalize();\n}\n",
    ),
    (
        "stream",
        "c",
        "#include <shmem.h>\n#include <stdio.h>\nstatic char mark[64];\nint main(void) {\n\
         \x20   shmem_init();\n    setvbuf(stdout, mark, _IOFBF, 64);\n    printf(\"x\");\n\
         \x20   shmem_barrier_all();\n    shmem_finalize();\n}\n",
    ),
];

#[test]
fn memory_read_by_jumps_exceptions_threads_or_streams_is_live() {
    needs!(has_clang);
    let folder = Folder::new("jumps");
    for (name, suffix, program) in JUMPS {
        let file = format!("{name}.{suffix}");
        folder.write(&file, program);
        let report = json(&folder.run(&["--json", "-", &file]));
        let points = report["points"].as_array().expect("points");
        let barrier = points.iter().find(|point| point["routine"] == "shmem_barrier_all");
        let live = barrier.expect("it has one")["live"].as_array().expect("a list");
        assert!(live.iter().any(|item| item["name"] == "mark"), "{name}: {live:?}");
    }
}

/// A loop that overwrites a whole array makes its old contents dead; one that misses some does not.
#[test]
fn only_a_loop_that_overwrites_all_ends_liveness() {
    needs!(has_clang);
    let folder = Folder::new("loops");
    let dead = |declare: &str, fill: &str| {
        let program = format!(
            "#include <shmem.h>\n#include <stdio.h>\nstatic int n;\n{declare}\n\
             static int f(int i) {{ return i * n; }}\nint main(void) {{\n    shmem_init();\n\
             \x20   n = shmem_my_pe();\n    ALLOCATE;\n    shmem_barrier_all();\n{fill}\n\
             \x20   for (int i = 0; i < 64; i++) n += AT(i);\n    printf(\"%d\\n\", n);\n\
             \x20   shmem_finalize();\n}}\n"
        );
        folder.write("loop.c", &program);
        let report = json(&folder.run(&["--json", "-", "loop.c"]));
        let points = report["points"].as_array().expect("points");
        let barrier = points.iter().find(|point| point["routine"] == "shmem_barrier_all");
        let dead = barrier.expect("it has one")["dead"].as_array().expect("a list").clone();
        dead.iter().any(|item| item["name"] == "a")
    };
    let one = "static int a[64];\n#define ALLOCATE\n#define AT(i) a[i]";
    let two = "static int a[4][16];\n#define ALLOCATE\n#define AT(i) a[i / 16][i % 16]";
    let block =
        "static int *a;\n#define ALLOCATE a = shmem_malloc(64 * sizeof(int))\n#define AT(i) a[i]";
    let local = "#define ALLOCATE int *a = shmem_malloc(256)\n#define AT(i) a[i]";
    let whole = "for (int i = 0; i < 64; i++) a[i] = f(i);";
    for (declare, fill) in [
        (one, whole),
        (one, "for (long i = 0; i < 64; i++) { if (n) n++; a[i] = 3; }"),
        (one, "for (int i = 0; i < 4; i++) for (int j = 0; j < 16; j++) a[i * 16 + j] = n;"),
        (one, "for (int j = 0; j < 16; j++) for (int i = 0; i < 4; i++) a[i * 16 + j] = n;"),
        (two, "for (int i = 0; i < 4; i++) for (int j = 0; j < 16; j++) a[i][j] = j;"),
        (block, whole),
        (local, whole),
    ] {
        assert!(dead(declare, fill), "{declare}: {fill}");
    }
    for (declare, fill) in [
        (one, "for (int i = 0; i < 63; i++) a[i] = 1;"),
        (one, "for (int i = 1; i < 64; i++) a[i] = 1;"),
        (one, "for (int i = 0; i < 64; i += 2) a[i] = 1;"),
        (one, "for (int i = 0; i < 64; i++) if (i != n) a[i] = 1;"),
        (one, "for (int i = 0; i < 64; i++) { if (i == n) break; a[i] = 1; }"),
        (one, "for (int i = 0; i < 64; i++) { if (i == n) continue; a[i] = 1; }"),
        (one, "for (int i = 0; i < 64; i++) a[i] += 1;"),
        (one, "for (int i = 0; i < 64; i++) a[i / 2] = 1;"),
        (one, "for (int i = 0; i < 64; i++) { a[i] = 1; i += n; }"),
        (one, "for (int i = 0; i < n; i++) a[i] = 1;"),
        (one, "for (int i = 0; i < 64; i++) { a[i] = 1; shmem_barrier_all(); }"),
        (one, "for (int i = 0; i < 4; i++) for (int j = 0; j < 15; j++) a[i * 16 + j] = n;"),
        (one, "for (int i = 0; i < 4; i++) for (int j = 0; j < 16; j++) a[i * 15 + j] = n;"),
        (
            one,
            "for (int i = 0; i < 4; i++) for (int j = 0; j < 16; j++) { if (j == n) break; \
             a[i * 16 + j] = n; }",
        ),
        (block, "for (int i = 0; i < 64; i++) { a[i] = 1; if (n) a = shmem_ptr(a, 0); }"),
        (local, "for (int i = 0; i < 64; i++) { *a = 1; a++; } a -= 64;"),
    ] {
        assert!(!dead(declare, fill), "{declare}: {fill}");
    }
}
