//! Static pointers to private memory: the analysis reports those that a substitute takes from a
//! checkpoint and uses, and no others.
//!
//! Needs clang 19 or newer, and is skipped without it.

use super::clang::{Folder, ROOT, json, text};

/// A program whose PEs restart: its declarations, its code before the loop, after each restart, and
/// in each step.
struct Form {
    declares: &'static str,
    before: &'static str,
    again: &'static str,
    step: &'static str,
}

const fn form(declares: &'static str, before: &'static str, step: &'static str) -> Form {
    Form { declares, before, again: "", step }
}

const fn renewed(before: &'static str, again: &'static str) -> Form {
    Form { declares: "static int *p;", before, again, step: "x[0] += *p;" }
}

impl Form {
    fn program(&self) -> String {
        let Form { declares, before, again, step } = self;
        format!(
            "#include <shmem.h>\n#include <shmem_ft.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
             #include <string.h>\nstatic int done, x[8];\nstatic int saved(void) {{\n\
             \x20   int *pes, *status;\n    size_t n;\n\
             \x20   if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)\n        return 1;\n\
             \x20   shmem_query_fault(&pes, &status, &n);\n    shmem_restart_pes(pes, n);\n\
             \x20   shmem_barrier_all();\n    free(pes), free(status);\n    return 0;\n}}\n\
             {declares}\nint main(void) {{\n    shmem_init();\n    {before}\n\
             \x20   while (done < 9) {{\n        if (!saved()) {{\n            {again}\n\
             \x20           continue;\n        }}\n\
             \x20       {step}\n        done++;\n    }}\n    shmem_finalize();\n    return 0;\n}}\n"
        )
    }
}

/// Returns the findings about a program's pointers.
fn told(folder: &Folder, program: &str) -> Vec<String> {
    folder.write("form.c", program);
    let report = json(&folder.run(&["--json", "-", "form.c"]));
    let findings = report["findings"].as_array().expect("a list");
    let of_pointers = findings.iter().filter(|finding| finding["rule"] == "private-pointer");
    of_pointers.map(|finding| finding["message"].as_str().expect("text").to_owned()).collect()
}

/// Forms in which a substitute uses an address of the process that died.
const WRONG: &[Form] = &[
    form("static int *p;", "p = malloc(32);", "x[0] += p[1];"),
    form("static int *p;", "if (shmem_ft_algo_init()) p = malloc(32);", "x[0] += *p;"),
    form("static int *p;", "", "if (!p) p = malloc(32); x[0] += *p;"),
    form("static char *p;", "p = calloc(2, 1);", "printf(\"%s\", p);"),
    form("static int *p;", "int own = 3; p = &own;", "x[0] += *p;"),
    form("static int *p;", "p = malloc(32);", "p = realloc(p, 32 + done); x[0] += *p;"),
    form("static int *p;", "p = malloc(32); shmemx_ft_protect(\"p\", p, 32);", "x[0] += *p;"),
    form("struct s { int n; }; static struct s *p;", "p = malloc(sizeof *p);", "x[0] += p->n;"),
    form(
        "static int *p; static void set(void) { p = calloc(8, 4); } static int get(void) {\n\
         return p[0]; }",
        "set();",
        "x[0] += get();",
    ),
    form(
        "static int next(void) { static int *p; if (!p) p = calloc(8, 4); return (*p)++; }",
        "",
        "x[0] += next();",
    ),
    form(
        "static int *p, *q;",
        "p = malloc(32); q = malloc(32);",
        "x[0] += *p; int *swap = p; p = q; q = swap;",
    ),
    renewed("p = malloc(32);", "free(p); p = malloc(32);"),
];

/// Forms in which it does not, or in which that is not certain.
const RIGHT: &[Form] = &[
    // The memory is at the same address in every process.
    form("static int *p;", "p = shmem_malloc(32);", "x[0] += *p;"),
    form("static int *p;", "p = x;", "x[0] += *p;"),
    form("static const char *p;", "p = \"a\";", "puts(p);"),
    form("static int f(int n) { return n; } static int (*p)(int);", "p = f;", "x[0] += p(1);"),
    // No checkpoint holds the pointer.
    form("", "int *p = malloc(32);", "x[0] += *p;"),
    form("static _Thread_local int *p;", "p = malloc(32);", "x[0] += *p;"),
    renewed("p = malloc(32); shmemx_ft_exclude(&p, sizeof p);", ""),
    // No checkpoint holds it while it points to private memory, or nothing reads the restored
    // value.
    form("static int *p;", "", "p = malloc(32); x[0] += *p; free(p);"),
    form("static int *p;", "", "if (!p) p = malloc(32); x[0] += *p; free(p); p = 0;"),
    form("static int *p;", "p = malloc(32); x[1] = *p;", "x[0]++;"),
    // It is set again after a restart.
    renewed("p = malloc(32);", "p = malloc(32);"),
    renewed("int *own = malloc(32); p = own;", "if (done > 3) p = own;"),
    renewed("while (!saved()) x[1]++; p = malloc(32);", ""),
    // It may point elsewhere, or may not be a pointer.
    renewed("p = done ? malloc(32) : shmem_malloc(32);", ""),
    form("static int *p; extern int *get(void);", "p = get();", "x[0] += *p;"),
    form("static long n;", "int *a = malloc(32), *b = a; b++; n = b - a;", "x[0] += n;"),
];

#[test]
fn only_pointers_to_private_memory_that_substitutes_use_are_reported() {
    needs!(has_clang);
    let folder = Folder::new("pointers");
    for form in WRONG {
        let program = form.program();
        assert!(!told(&folder, &program).is_empty(), "no advice about:\n{program}");
        // Without a restart no PE resumes.
        let ends = program.replace("shmem_restart_pes(pes, n);", "shmem_global_exit(1);");
        assert_eq!(told(&folder, &ends), Vec::<String>::new(), "{ends}");
    }
    for form in RIGHT {
        let program = form.program();
        assert_eq!(told(&folder, &program), Vec::<String>::new(), "{program}");
    }
}

/// `tests/programs/pointers.rs` runs these forms with a loss.
#[test]
fn only_forms_that_fail_after_a_loss_are_reported() {
    needs!(has_clang);
    let (folder, source) = (Folder::new("pointer-forms"), format!("{ROOT}/tests/c/pointers.c"));
    for form in [1, 2, 3, 20, 21] {
        let output = folder.run(&["--brief", &format!("-DFORM={form}"), &source]);
        let said = text(&output.stdout);
        assert_eq!(said.contains("[private-pointer]"), form >= 20, "form {form}: {said}");
        assert_eq!(said.contains("warning"), form >= 20, "form {form}: {said}");
    }
}

/// The second mistake of the chapter about porting a program, in the program of that chapter.
#[test]
fn the_pointer_in_the_porting_chapter_is_reported() {
    needs!(has_clang);
    let right = std::fs::read_to_string(format!("{ROOT}/examples/porting/heat_ft.c"));
    let wrong = right
        .expect("the program")
        .replace("static int done;", "static double *weight;\nstatic int done;")
        .replace(
            "    plate = shmem_calloc(",
            "    weight = calloc(1, 8);\n    plate = shmem_calloc(",
        )
        .replace("= 0.25 * (", "= *weight * (");
    let line = |words: &str| 1 + wrong.lines().position(|line| line.contains(words)).expect(words);
    let expected = format!(
        "`weight` points to memory of calloc (line {}), and line {} reads it after a restart: ",
        line("weight = calloc"),
        line("*weight * (")
    );
    let said = told(&Folder::new("porting-pointer"), &wrong);
    assert!(said.len() == 1 && said[0].starts_with(&expected), "`{expected}..`: {said:#?}");
}
