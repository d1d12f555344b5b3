//! Private memory: a block that a step allocates and frees is not state; one that a later step
//! finds is.
//!
//! Needs clang 19 or newer, and is skipped without it.

use super::clang::{Folder, json};

/// True if the analysis reports memory of malloc for a program that runs `each` between
/// checkpoints.
fn is_told(folder: &Folder, declared: &str, each: &str) -> bool {
    let program = format!(
        "#include <shmem.h>\n#include <shmem_ft.h>\n#include <stdlib.h>\nstatic int x[8], done;\n\
         {declared}\nint main(void) {{\n    shmem_init();\n    while (done++ < 9) {{\n\
         \x20       shmem_checkpoint_all();\n        {each}\n    }}\n    shmem_finalize();\n}}\n"
    );
    folder.write("step.c", &program);
    let report = json(&folder.run(&["--json", "-", "step.c"]));
    let mut findings = report["findings"].as_array().expect("a list").iter();
    findings.any(|finding| {
        finding["rule"] == "private-state"
            && finding["message"].as_str().is_some_and(|text| text.contains("memory of malloc"))
    })
}

#[test]
fn memory_that_ends_with_a_step_is_no_state_and_what_is_found_again_is() {
    needs!(has_clang);
    let folder = Folder::new("allocations");
    let step = |begin: &str, end: &str| {
        format!(
            "static int *last;\nstatic int *give(void) {{ return last; }}\n\
             static int *step(void) {{\n    int *t = malloc(32);\n    {begin}\n    t[x[0]] = 1;\n\
             \x20   x[1] += t[x[2]];\n    {end}\n    return 0;\n}}\n"
        )
    };
    for (declared, each) in [
        (step("", "free(t);"), "step();"),
        (step("int **p = &t; t = *p;", "free(*p);"), "step();"),
        (step("x[3]++; shmem_barrier_all();", "free(t);"), "step(); step();"),
        (String::new(), "int *t = malloc(32); t[x[0]] = 1; x[1] += t[x[2]]; free(t);"),
    ] {
        assert!(!is_told(&folder, &declared, each), "{declared}{each}");
    }
    for (declared, each) in [
        (step("", "last = t;"), "if (last) x[4] += give()[0]; step();"),
        (step("shmem_checkpoint_all();", "free(t);"), "step();"),
        (step("shmem_checkpoint_all(); int **p = &t;", "x[5] += (*p)[0];"), "step();"),
        (step("", "return t;"), "static int *k; if (k) x[6] += *k; k = step();"),
        (step("", "return t;"), "int *k = step(); shmem_checkpoint_all(); x[7] += k[1];"),
    ] {
        assert!(is_told(&folder, &declared, each), "{declared}{each}");
    }
}
