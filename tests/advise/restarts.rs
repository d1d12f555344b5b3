//! Restarts that resume elsewhere, and sizes that depend on given values.
//!
//! `tests/programs/restarts.rs` runs the forms of `tests/c/restarts.c` with losses: the forms
//! reported here go wrong there, and no others do.
//!
//! Needs clang 19 or newer, and is skipped without it.

use super::clang::{Folder, ROOT, json, text};

/// Returns the findings about a form of the program.
fn told(folder: &Folder, form: u32) -> Vec<String> {
    let source = format!("{ROOT}/tests/c/restarts.c");
    let output = folder.run(&["--brief", &format!("-DFORM={form}"), &source]);
    let said = text(&output.stdout);
    let lines = said.lines().filter(|line| line.ends_with("[restart-elsewhere]"));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    assert_eq!(output.status.code(), Some(i32::from(!lines.is_empty())), "{form}: {said}");
    lines
}

/// Returns the first line of the program that contains `wanted`, after a form begins.
fn line(form: u32, wanted: &str) -> usize {
    let source = include_str!("../c/restarts.c");
    let begin = source.lines().position(|line| line.contains(&format!("FORM == {form} ")));
    let begin = begin.expect("the form");
    let found = source.lines().skip(begin).position(|line| line.contains(wanted));
    begin + found.expect("the words") + 1
}

#[test]
fn only_a_restart_that_resumes_elsewhere_is_reported() {
    needs!(has_clang);
    let folder = Folder::new("restarts");
    for form in 1..=7 {
        assert_eq!(told(&folder, form), Vec::<String>::new(), "form {form}");
    }
    for (form, call, words) in [
        (20, "|| !saved()", "the program does not come to line "),
        (21, "save();", "a substitute does not come to line "),
        (22, "save();", "a substitute does not come to line "),
        (24, "save();", "a substitute does not come to line "),
        (25, "save();\n        a", "the program does not come to line "),
        (26, "save();", "the program does not come to line "),
        (27, "save(), half", "with another number of checkpoint calls than a substitute"),
    ] {
        let at = match call {
            "save();\n        a" => line(form, "while") + 1,
            call => line(form, call),
        };
        let lines = told(&folder, form);
        let begin = format!("restarts.c:{at}: warning: after a restart in this call ");
        let found = lines.iter().any(|line| line.contains(&begin) && line.contains(words));
        assert!(found, "form {form}: `{begin}..{words}` in {lines:#?}");
    }
    // If only one place calls a function, the line is the one in the function.
    let lines = told(&folder, 23);
    assert!(lines.len() == 1 && lines[0].contains(&format!("line {}, ", line(23, "x +="))));
}

const SIZES: &str = "#include <shmem.h>\n#include <stdlib.h>\nstatic int rows;\n\
    static long *last;\n\
    static long *block(size_t cells) { return shmem_malloc(cells * sizeof(long)); }\n\
    int main(int argc, char **argv) {\n    shmem_init();\n    int n = atoi(argv[argc - 1]);\n\
    \x20   size_t half = (size_t)n / 2 - 1;\n    rows = n;\n\
    \x20   double *a = shmem_malloc((rows + 2) * n * sizeof *a);\n\
    \x20   double *b = shmem_calloc(n / shmem_n_pes(), sizeof *b);\n\
    \x20   double *c = shmem_align(64, half * 8);\n    last = block(n);\n\
    \x20   double *d = shmem_malloc(argc * 8);\n    shmem_barrier_all();\n\
    \x20   a[0] = b[0] + c[0] + d[0] + last[0];\n    shmem_finalize();\n    return (int)a[0];\n}\n";

#[test]
fn bytes_follow_from_values_that_are_given() {
    needs!(has_clang);
    let folder = Folder::new("sizes");
    folder.write("sizes.c", SIZES);
    let sizes = |args: &[&str]| {
        let report = json(&folder.run(&[args, &["--json", "-", "sizes.c"]].concat()));
        let points = report["points"].as_array().expect("points").clone();
        let barrier = points.iter().find(|point| point["routine"] == "shmem_barrier_all");
        let live = barrier.expect("it has one")["live"].as_array().expect("a list").clone();
        let of = |name: &str| {
            let item = live.iter().find(|i| i["name"] == name && i["storage"] != "static");
            item.unwrap_or_else(|| panic!("{name}: {live:?}"))["bytes"].as_u64()
        };
        ["a", "b", "c", "last", "d"].map(of)
    };
    assert_eq!(sizes(&[]), [None; 5]);
    let n = ["--set", "n=64"];
    let known = [None, None, Some(31 * 8), Some(64 * 8), None];
    assert_eq!(sizes(&n), known);
    let all = [&n[..], &["--set", "rows=6", "--set", "shmem_n_pes=16", "--set=argc=3"]].concat();
    assert_eq!(sizes(&all), [Some(8 * 64 * 8), Some(32), Some(31 * 8), Some(512), Some(24)]);
    // A negative number is not a size.
    assert_eq!(sizes(&["--set", "n=1"])[2], None);
}

#[test]
fn a_given_value_does_not_change_what_is_dead() {
    needs!(has_clang);
    let folder = Folder::new("given");
    // The loop overwrites the block only if `n` has the given value.
    let program = "#include <shmem.h>\nstatic int n;\nstatic long *a;\nint main(void) {\n\
        \x20   shmem_init();\n    a = shmem_calloc(n, 8);\n    shmem_barrier_all();\n\
        \x20   for (int i = 0; i < 64; i++)\n        a[i] = i;\n    int s = (int)a[n - 1];\n\
        \x20   shmem_finalize();\n    return s;\n}\n";
    folder.write("given.c", program);
    let points = |args: &[&str]| json(&folder.run(&[args, &["--json", "-", "given.c"]].concat()));
    let (with, without) = (points(&["--set", "n=64"]), points(&[]));
    let barrier = |report: &serde_json::Value, what: &str| {
        let points = report["points"].as_array().expect("points").clone();
        let at = points.iter().find(|point| point["routine"] == "shmem_barrier_all");
        let items = at.expect("it has one")[what].as_array().expect("a list").clone();
        items
            .iter()
            .filter(|i| i["storage"] == "shmem_calloc")
            .map(|i| i["bytes"].as_u64())
            .collect()
    };
    let live: Vec<Option<u64>> = barrier(&with, "live");
    assert_eq!(live, [Some(512)]);
    let live: Vec<Option<u64>> = barrier(&without, "live");
    assert_eq!(live, [None]);
}

#[test]
fn an_invalid_value_of_a_variable_is_refused_in_one_line() {
    let folder = Folder::new("values");
    folder.write("main.ll", "define i32 @main() {\n  ret i32 0\n}\n");
    for (args, expected) in [
        (&["--set", "n"][..], "expected NAME=VALUE, a variable and a whole number"),
        (&["--set", "=7"], "expected NAME=VALUE"),
        (&["--set", "n=-7"], "expected NAME=VALUE"),
        (&["--set", "n=1e3"], "expected NAME=VALUE"),
        (&["--set", "n=7"], "--set n: expected the name of a variable of these files"),
        (&["--set", "n=7", "--set", "n=8"], "--set n: expected one value of each variable"),
    ] {
        let output = folder.run(&[args, &["main.ll"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(expected), "{args:?}: {said}");
    }
}
