//! The table of `docs/fewer.md`, executed: a program generated from the prototypes calls every
//! routine of OpenSHMEM in a job that has lost a PE.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::support::has_ucx_too;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Returns the routines of the specification.
fn routines() -> Vec<String> {
    text("tests/spec/openshmem-1.6-symbols.txt").split_whitespace().map(str::to_owned).collect()
}

/// Returns the rows of the table: a name, and patterns.
fn rows() -> Vec<(String, Vec<String>)> {
    let page = text("docs/fewer.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| rows |")).skip(2);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let patterns = cells[1].split_whitespace().map(|word| word.trim_matches('`').to_owned());
        (cells[0].trim_start_matches("| ").to_owned(), patterns.collect())
    };
    rows.take_while(|line| line.starts_with('|')).map(row).collect()
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| fits(after, &rest[at..]) || after.is_empty())
        }),
    }
}

/// Returns the row of each routine.
fn row_of(rows: &[(String, Vec<String>)], name: &str) -> String {
    let row = rows.iter().find(|(_, patterns)| patterns.iter().any(|p| fits(p, name)));
    row.unwrap_or_else(|| panic!("{name} is in no row of docs/fewer.md")).0.clone()
}

/// Returns each routine's result type, and the names of its parameters.
fn prototypes() -> BTreeMap<String, (String, Vec<String>)> {
    let header = text("include/shmem.h");
    let prototype = |line: &str| {
        let (head, rest) = line.strip_suffix(");")?.split_once('(')?;
        let name = head.rsplit([' ', '*']).next()?;
        let name_of = |word: &str| word.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
        let returns = head[..head.len() - name.len()].trim().to_owned();
        Some((name.to_owned(), (returns, rest.split(", ").map(name_of).collect())))
    };
    header.lines().filter_map(prototype).collect()
}

/// Returns the argument for a parameter.
fn argument(name: &str, parameter: &str) -> &'static str {
    match parameter {
        "ctx" => "SHMEM_CTX_DEFAULT",
        "dest" | "fetch" => "at(dest)",
        "source" | "addr" => "at(source)",
        "nelems" | "nreduce" | "dst" | "sst" | "bsize" | "nblocks" | "value" | "cond"
        | "signal" => "1",
        "sig_addr" => "(uint64_t *)at(word)",
        "sig_op" => "SHMEM_SIGNAL_SET",
        "pe" => "LOST",
        "ivar" | "ivars" => "at(word)",
        "cmp" => "SHMEM_CMP_EQ",
        // The oldest wait waits for any other value.
        "cmp_value" if name.ends_with("_wait") => "0",
        "cmp_value" => "1",
        "cmp_values" => "at(source)",
        "indices" => "indices",
        "status" => "NULL",
        "team" => "SHMEM_TEAM_WORLD",
        "PE_root" => "LOST",
        "PE_start" | "logPE_stride" => "0",
        "PE_size" => "shmem_n_pes()",
        "pSync" => "sync",
        "pWrk" => "at(work)",
        "target_pes" => "pes",
        "npes" => "1",
        "void" => "",
        other => panic!("{name}: nothing is known of its parameter {other}"),
    }
}

/// Routines whose calls need more than arguments; the program itself makes those of the row `ends`.
const BY_HAND: &[(&str, &str)] = &[
    ("shmem_malloc", "p = shmem_malloc(64); CHECK(p);"),
    ("shmem_realloc", "p = shmem_realloc(p, 128); CHECK(p);"),
    ("shmem_free", "shmem_free(p);"),
    ("shmem_malloc_with_hints", "shmem_free(shmem_malloc_with_hints(64, 0));"),
    ("shmem_align", "shmem_free(shmem_align(64, 64));"),
    ("shmem_calloc", "shmem_free(shmem_calloc(8, 8));"),
    ("shmalloc", "p = shmalloc(64); CHECK(p);"),
    ("shrealloc", "p = shrealloc(p, 128); CHECK(p);"),
    ("shfree", "shfree(p);"),
    ("shmemalign", "shfree(shmemalign(64, 64));"),
    ("shmem_info_get_name", "char name[SHMEM_MAX_NAME_LEN]; shmem_info_get_name(name);"),
    ("shmem_info_get_version", "int major, minor; shmem_info_get_version(&major, &minor);"),
    ("shmem_query_thread", "int level; shmem_query_thread(&level);"),
    ("shmem_query_initialized", "int yes; shmem_query_initialized(&yes); CHECK(yes);"),
    ("shmem_pcontrol", "shmem_pcontrol(0);"),
    ("shmem_ctx_create", "shmem_ctx_t c; CHECK(shmem_ctx_create(0, &c) == 0); ctx = c;"),
    ("shmem_ctx_session_start", "shmem_ctx_session_start(ctx, 0, NULL, 0);"),
    ("shmem_ctx_session_stop", "shmem_ctx_session_stop(ctx);"),
    ("shmem_ctx_get_team", "shmem_team_t t; CHECK(shmem_ctx_get_team(ctx, &t) == 0);"),
    ("shmem_ctx_destroy", "shmem_ctx_destroy(ctx);"),
    (
        "shmem_team_create_ctx",
        "shmem_ctx_t c; CHECK(shmem_team_create_ctx(SHMEM_TEAM_WORLD, 0, &c) == 0); \
         shmem_ctx_destroy(c);",
    ),
    (
        "shmem_team_translate_pe",
        "CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, LOST, SHMEM_TEAM_WORLD) == LOST);",
    ),
    ("shmem_team_get_config", "CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, 0, NULL) == 0);"),
    ("shmem_team_my_pe", "CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == shmem_my_pe());"),
    ("shmem_team_n_pes", "CHECK(shmem_team_n_pes(SHMEM_TEAM_WORLD) == N);"),
    ("shmem_n_pes", "CHECK(shmem_n_pes() == N);"),
    ("_num_pes", "CHECK(_num_pes() == N);"),
    (
        "shmem_team_split_strided",
        "shmem_team_t t; CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, N, NULL, 0, &t)); \
         CHECK(t == SHMEM_TEAM_INVALID);",
    ),
    (
        "shmem_team_split_2d",
        "shmem_team_t x, y; CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &x, NULL, 0, \
         &y)); CHECK(x == SHMEM_TEAM_INVALID && y == SHMEM_TEAM_INVALID);",
    ),
    (
        "shmem_team_destroy",
        "shmem_team_t t; CHECK(shmemx_ft_shrink(SHMEM_TEAM_WORLD, &t) == 0); \
         CHECK(shmem_team_n_pes(t) == N - 1 && shmem_team_sync(t) == 0); \
         CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, LOST, t) == -1); shmem_team_destroy(t);",
    ),
    ("shmem_set_lock", "shmem_set_lock(of_pe_0());"),
    ("shmem_test_lock", "CHECK(shmem_test_lock(of_pe_0()) != 0);"),
    ("shmem_clear_lock", "shmem_clear_lock(of_pe_0());"),
];

/// Returns the line that calls a routine and checks what the row promises.
fn call(row: &str, name: &str, (returns, parameters): &(String, Vec<String>)) -> String {
    if let Some((_, by_hand)) = BY_HAND.iter().find(|(other, _)| *other == name) {
        return format!("{{ {by_hand} }}");
    }
    let arguments: Vec<&str> = parameters.iter().map(|p| argument(name, p)).collect();
    let call = format!("({name})({})", arguments.join(", ")); // bypasses a macro of that name
    let gives = returns != "void";
    match row {
        "pointers" | "reads" | "fetches" if gives => format!("CHECK({call} == 0);"),
        "reads" | "fetches" => format!("old(dest); {call}; shmem_quiet(); CHECK(*dest == 0);"),
        "waits" if name.ends_with("_test") || name.ends_with("_test_all") => {
            format!("CHECK({call} == 1);")
        }
        "barriers" | "blocks" | "sums" if gives => format!("CHECK({call} != 0);"),
        _ => format!("{call};"),
    }
}

/// Returns the program, and how many routines it calls by their rows.
fn program() -> (String, BTreeMap<String, usize>) {
    let (rows, prototypes) = (rows(), prototypes());
    let (mut waits, mut rest, mut counts) = (String::new(), String::new(), BTreeMap::new());
    for name in routines() {
        let row = row_of(&rows, &name);
        *counts.entry(row.clone()).or_default() += 1;
        if row == "ends" {
            continue; // the program itself makes those calls
        }
        let line = call(&row, &name, &prototypes[&name]);
        let part = if row == "waits" { &mut waits } else { &mut rest };
        writeln!(part, "    {line}").unwrap();
    }
    // In the order of their dependencies.
    for (name, _) in BY_HAND.iter().rev() {
        let line = call("", name, &prototypes[*name]);
        rest = rest.replace(&format!("    {line}\n"), "");
        rest.insert_str(0, &format!("    {line}\n"));
    }
    (format!("{OPENING}static void wait(void) {{\n{waits}}}\n\n{MIDDLE}{rest}{END}"), counts)
}

const OPENING: &str = r#"
#include "test.h"
#include <signal.h>

enum { N = 4, LOST = 2 };
static char dest[4096], source[4096], word[64], work[4096];
static long sync[SHMEM_SYNC_SIZE], locks[N];
static size_t indices[4];
static int pes[1];

static void *at(void *bytes) { return bytes; }
/* Homes of locks follow each other in memory. */
static long *of_pe_0(void) {
    long *lock = locks;
    while ((uintptr_t)lock / sizeof *lock % N)
        lock++;
    return lock;
}
static void old(char *bytes) { memset(bytes, 0xff, 64); }

"#;

const MIDDLE: &str = r#"
int main(void) {
    shmem_init();
    CHECK(shmem_n_pes() == N);
    *(long *)source = 1;
    void *p = NULL;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_barrier_all();
    if (shmem_my_pe() == LOST)
        raise(SIGKILL);
    shmem_barrier_all();
    CHECK(shmemx_ft_faulted());
    wait();
    shmem_restart_pes(NULL, 0);
    CHECK(!shmemx_ft_faulted());
    CHECK(!shmem_int_test(at(word), SHMEM_CMP_EQ, 1));
"#;

const END: &str = r#"
    shmem_barrier_all();
    printf("PE %d has walked\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
"#;

fn build(source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (from, to) = (folder.join("walk.c"), folder.join("walk"));
    std::fs::write(&from, source).unwrap();
    let mut compiler = Command::new(env!("CARGO_BIN_EXE_oshcc"));
    compiler.arg("-I").arg(Path::new(ROOT).join("tests/c")).arg("-w").arg(&from);
    assert!(compiler.arg("-o").arg(&to).status().unwrap().success());
    to
}

#[test]
fn every_routine_behaves_as_its_row_states() {
    let (source, counts) = program();
    assert_eq!(counts.values().sum::<usize>(), 1788);
    assert!(rows().iter().all(|(row, _)| counts.contains_key(row)), "{counts:?}");
    let walk = build(&source);
    for nodes in
        [&[][..], &["--nodes", "4", "--fabric", "ucx"], &["--nodes", "2", "--fabric", "ucx"]]
    {
        if !nodes.is_empty() && !has_ucx_too() {
            continue;
        }
        let job = super::job(4).args(&["--verbose"]).args(nodes);
        let outcome = job.program(&walk, &[]).run();
        outcome.status(0);
        for pe in [0, 1, 3] {
            outcome.check(outcome.out.contains(&format!("PE {pe} has walked")), "it ends");
        }
        let dropped = outcome.count("writes to lost PEs did nothing");
        outcome.check(dropped == 3, "each says what it dropped");
    }
}
