//! Forms of C by which a program reads memory without naming it: such memory is live.
//!
//! Each form sets a mark, passes a barrier, and reads the mark in its own way before overwriting
//! it. In the program without that read the mark is reported dead, so the form alone makes the
//! difference. `tests/programs/plan.rs` runs some of them with losses under their plan.
//!
//! Needs clang 19 or newer, and is skipped without it.

use std::process::Command;

use raidshmem_core::store::advice::Advice;

use super::clang::{Folder, json, text};

/// A form: its name, the declarations before `main`, the code before the barrier and after it, and
/// the code after it in a program that does not read the mark.
struct Form(&'static str, &'static str, &'static str, &'static str, &'static str);

const FORMS: &[Form] = &[
    // Writes that have no effect, or that cover only a part.
    Form(
        "volatile copy",
        "struct S { int a[8]; }; static struct S mark, other;",
        "mark.a[0] = 7;",
        "*(volatile struct S *)&mark = other; see(mark.a[0]);",
        "*(struct S *)&mark = other; see(mark.a[0]);",
    ),
    Form(
        "move onto itself",
        "static int mark[8];",
        "mark[0] = 7;",
        "memmove(mark, mark, sizeof mark); see(mark[0]);",
        "memset(mark, 0, sizeof mark); see(mark[0]);",
    ),
    Form(
        "part of a fill",
        "static int mark[8];",
        "mark[7] = 7;",
        "memset(mark, 0, sizeof mark - 1); see(mark[7]);",
        "memset(mark, 0, sizeof mark); see(mark[7]);",
    ),
    Form(
        "three bytes of four",
        "static struct { unsigned a : 24; unsigned char b; } mark;",
        "mark.b = 7;",
        "mark.a = n; see(mark.b);",
        "memset(&mark, 0, sizeof mark); see(mark.b);",
    ),
    Form(
        "ten bytes of sixteen",
        "static union { long double a; char b[16]; } mark;",
        "mark.b[12] = 7;",
        "mark.a = n; see(mark.b[12]);",
        "memset(&mark, 0, sizeof mark); see(mark.b[12]);",
    ),
    Form(
        "exchange",
        "static int mark;",
        "mark = 7;",
        "see(__atomic_exchange_n(&mark, 0, 5));",
        "mark = 0; see(mark);",
    ),
    Form(
        "compare and swap",
        "static int mark;",
        "mark = 7;",
        "int old = 7; see(__atomic_compare_exchange_n(&mark, &old, 0, 0, 5, 5)); mark = 0;",
        "mark = 0; see(mark);",
    ),
    // Pointers that escape without being named.
    Form(
        "variable arguments",
        "static int mark; static void f(int k, ...) { va_list a; va_start(a, k);\n\
         see(*va_arg(a, int *)); va_end(a); mark = 0; }",
        "mark = 7;",
        "f(1, &mark);",
        "f(1, &n);",
    ),
    Form(
        "code in a structure",
        "static int mark; static void r(void) { see(mark); } static void no(void) {}\n\
         struct ops { int k; void (*f)(void); struct ops *next; };\n\
         static struct ops with = {1, r, 0}, without = {1, no, 0};",
        "mark = 7;",
        "struct ops c = {2, 0, &with}, d = c; d.next->f(); mark = 0;",
        "struct ops c = {2, 0, &without}, d = c; d.next->f(); mark = 0;",
    ),
    Form(
        "code that was put",
        "static int mark; static void r(void) { see(mark); }\n\
         static void (*a)(void) = r, (*b)(void);",
        "shmem_putmem(&b, &a, sizeof a, 0); mark = 7;",
        "b(); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "pointer of a thread",
        "static int mark; static _Thread_local int *p;",
        "p = &mark; mark = 7;",
        "see(*p); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "pointer in a file",
        "static int mark; static int *p = &mark, *q; static FILE *f;",
        "f = tmpfile(); fwrite(&p, sizeof p, 1, f); rewind(f); fread(&q, sizeof q, 1, f); \
         mark = 7;",
        "see(*q); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "table of the linker",
        "static int mark; static void r(void) { see(mark); }\n\
         __attribute__((used, section(\"tab\"))) static void (*const e)(void) = r;\n\
         extern void (*const __start_tab[])(void);",
        "mark = 7;",
        "__start_tab[0](); mark = 0;",
        "",
    ),
    Form(
        "data of a section",
        "__attribute__((section(\"tab\"))) int mark; extern int __start_tab[];",
        "mark = 7;",
        "see(__start_tab[0]); mark = 0;",
        "",
    ),
    Form(
        "alias",
        "int mark; extern int other __attribute__((alias(\"mark\")));",
        "mark = 7;",
        "see(other); mark = 0;",
        "mark = 0;",
    ),
    // Code outside the analysed sources, and code that is not C.
    Form(
        "code by its address",
        "int mark; extern void other(void); static void (*f)(void) = other;",
        "mark = 7;",
        "f(); mark = 0;",
        "",
    ),
    Form(
        "code with a name as of the system",
        "int mark; extern void stream_next(void);",
        "mark = 7;",
        "stream_next(); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "name in assembly",
        "int mark;",
        "mark = 7;",
        "int x; __asm__ volatile(\"movl mark, %0\" : \"=r\"(x)); see(x); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "operand of assembly",
        "static int mark;",
        "mark = 7;",
        "__asm__ volatile(\"\" : : \"r\"(&mark) : \"memory\"); mark = 0;",
        "mark = 0;",
    ),
    Form(
        "code that the loader chooses",
        "static int mark; static int r(void) { return mark; }\n\
         static int (*pick(void))(void) { return r; }\n\
         int get(void) __attribute__((ifunc(\"pick\")));",
        "mark = 7;",
        "see(get()); mark = 0;",
        "",
    ),
    // Jumps, and code that runs asynchronously or at exit.
    Form(
        "longjmp",
        "static int mark; static jmp_buf back;",
        "mark = 7; if (setjmp(back)) { see(mark); return 0; }",
        "if (n) longjmp(back, 1); mark = 0;",
        "",
    ),
    Form(
        "jump of the compiler",
        "static int mark; static void *back[5];\n\
         static void go(void) { __builtin_longjmp(back, 1); }",
        "mark = 7; if (__builtin_setjmp(back)) { see(mark); return 0; }",
        "if (n) go(); mark = 0;",
        "",
    ),
    Form(
        "jump of a handler",
        "static int mark; static sigjmp_buf back; static void h(int s) { siglongjmp(back, s); }",
        "signal(SIGALRM, h); mark = 7; if (sigsetjmp(back, 1)) { see(mark); return 0; }",
        "mark = 0;",
        "",
    ),
    Form(
        "end of the process",
        "static int mark; static void r(void) { see(mark); }",
        "atexit(r); mark = 7;",
        "if (n) exit(0); mark = 0;",
        "",
    ),
    Form(
        "variable of the environment",
        "static char mark[8] = \"A=1\";",
        "putenv(mark);",
        "see(getenv(\"A\") != 0); memset(mark, 0, sizeof mark);",
        "",
    ),
];

/// Returns a whole program; a form without a body of its own for `!reads` overwrites the mark.
fn program(form: &Form, reads: bool) -> String {
    let Form(_, declares, before, with, without) = form;
    // Without such a body the form is left out, together with its declarations.
    let (declares, before, after) = match (reads, without.is_empty()) {
        (true, _) => (*declares, *before, *with),
        (false, false) => (*declares, *before, *without),
        (false, true) => ("static int mark;", "mark = 7;", "mark = 0; see(mark);"),
    };
    format!(
        "#include <shmem.h>\n#include <setjmp.h>\n#include <signal.h>\n#include <stdarg.h>\n\
         #include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstatic int n;\n\
         static void see(int x) {{ printf(\"%d\\n\", x); }}\n{declares}\n\
         int main(void) {{\n    shmem_init();\n    see(n);\n    {before}\n\
         \x20   shmem_barrier_all();\n    {after}\n    shmem_finalize();\n    return 0;\n}}\n"
    )
}

#[test]
fn memory_is_live_only_with_the_form_of_c_that_reads_it() {
    needs!(has_clang);
    let folder = Folder::new("forms");
    let mut wrong = Vec::new();
    for form in FORMS {
        for reads in [true, false] {
            folder.write("form.c", &program(form, reads));
            let report = json(&folder.run(&["-D_GNU_SOURCE", "--json", "-", "form.c"]));
            let points = report["points"].as_array().expect("points");
            let barrier = points.iter().find(|point| point["routine"] == "shmem_barrier_all");
            let list = if reads { "live" } else { "dead" };
            let items = barrier.expect("it has one")[list].as_array().expect("a list");
            if !items.iter().any(|item| item["name"] == "mark") {
                wrong.push(format!("{}: not {list}", form.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Three places: one shared by two lines, one that calls another, one by itself.
const MAIN: &str = "#include <shmem.h>\n#include <shmem_ft.h>\n#include <stdio.h>\n\
    #include <string.h>\nlong first[4096], second[4096], third[4096];\nvoid one(void);\n\
    void two(void);\nstatic int save(void) { return shmem_checkpoint_all() != 0; }\n\
    static int both(void) { return save() + shmem_checkpoint_all(); }\n\
    int main(void) {\n    shmem_init();\n    memset(first, 1, sizeof first);\n\
    \x20   memset(third, 1, sizeof third);\n    one();\n    printf(\"%ld\\n\", first[1]);\n\
    \x20   memset(second, 1, sizeof second);\n    two();\n    printf(\"%ld\\n\", second[1]);\n\
    \x20   int got = both();\n    shmem_finalize();\n    return got;\n}\n";

#[test]
fn a_place_with_two_meanings_leaves_out_what_is_dead_in_both_or_nothing() {
    needs!(has_clang);
    let folder = Folder::new("places");
    folder.write("main.c", MAIN);
    let places = ["one", "two"].map(|name| {
        let body = format!("void {name}(void) {{\n    int got = shmem_checkpoint_all();\n");
        std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        folder.write(
            &format!("{name}/save.c"),
            &format!("#include <shmem_ft.h>\n{body}    (void)got;\n}}\n"),
        );
        format!("{name}/save.c")
    });
    let mut compile = Command::new(env!("CARGO_BIN_EXE_oshcc"));
    compile.args(["-g", "-O1", "-o", "prog", "main.c"]).args(&places).current_dir(folder.path());
    let built = compile.output().expect("oshcc runs");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let args = ["--program", "prog", "-o", "-", "main.c", &places[0], &places[1]];
    let output = folder.run(&args);
    // Two calls on one line have no place, so everything is saved there.
    assert!(text(&output.stderr).contains("main.c:9: several calls in one line"));
    let plan = Advice::parse(&text(&output.stdout)).expect("a plan");
    let names = |dead: &[usize]| {
        let mut names: Vec<&str> = dead.iter().map(|at| plan.objects[*at].name.as_str()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let found: Vec<_> =
        plan.places.iter().map(|place| (place.at.as_str(), names(&place.dead))).collect();
    // Line 3 of two files of one name: `first` is live in one, `second` in the other.
    let expected =
        [("main.c:8", "first second third".to_owned()), ("one/save.c:3", "third".to_owned())];
    assert_eq!(found, expected);
}
