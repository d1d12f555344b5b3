//! A program that calls each routine of the tables before its first checkpoint call, and compares
//! the results with those in the first process of each PE (`tests/c/prelude.c`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use raidshmem::capi::emit;

use super::compiled;

/// Routines outside the loop over the table: they begin or end the job, or have special forms.
const APART: &[&str] = &[
    "init",
    "finalize",
    "exit",
    "start_pes",
    "pcontrol",
    "info",
    "shmem_ptr",
    "team_ptr",
    "malloc",
    "free",
    "realloc",
    "align",
    "calloc",
    "shmalloc",
    "shfree",
    "shrealloc",
    "shmemalign",
    "split",
    "destroy",
    "create",
    "session",
    "get_config",
    "get_team",
    "lock",
    "udcflush",
    "checkpoint",
    "ft_place",
    "restart",
    "query_fault",
    "cache",
    "team_my_pe",
    "team_n_pes",
    "translate",
];

/// Routines that fill the caller's own symmetric memory.
const FILLS: &[&str] = &["get", "broadcast", "collect", "alltoall", "reduce", "scan", "to_all"];

/// Returns an argument of that type and name.
fn argument(kind: &str, name: &str) -> String {
    let value = match name {
        "dest" => "d",
        "source" => "s",
        "fetch" | "indices" => "out",
        "nelems" | "nreduce" | "nblocks" => "3",
        "dst" | "sst" => "2",
        "bsize" => "1",
        "pe" => "next",
        "value" | "signal" => "3",
        "cond" | "cmp_value" | "PE_root" | "npes" => "1",
        "sig_addr" => "&signals",
        "sig_op" => "SHMEM_SIGNAL_ADD",
        "PE_start" | "logPE_stride" => "0",
        "PE_size" => "n",
        "pSync" => "sync_words",
        "pWrk" => "work",
        "team" => "SHMEM_TEAM_WORLD",
        "ctx" => "SHMEM_CTX_DEFAULT",
        "ivar" | "ivars" | "addr" => "d",
        "cmp" => "SHMEM_CMP_NE",
        "cmp_values" => "ones",
        "status" => "NULL",
        "target_pes" => "&next",
        "initialized" | "provided" => "out",
        _ => panic!("{kind} {name}: the test knows no such argument"),
    };
    if kind.ends_with('*') { format!("({kind})(void *){value}") } else { value.to_owned() }
}

/// Returns a call of the routine with that prototype, and code that keeps its results.
fn call(prototype: &str) -> Option<String> {
    let (head, arguments) = prototype.strip_suffix(");")?.split_once('(')?;
    let at = head.rfind([' ', '*'])? + 1;
    let (returns, name) = (head[..at].trim(), &head[at..]);
    let is_apart = |apart: &&str| name.contains(*apart) && !name.contains("ptrdiff");
    if APART.iter().any(is_apart) {
        return None;
    }
    let one = |word: &str| {
        let at = word.rfind([' ', '*']).map_or(0, |at| at + 1);
        argument(word[..at].trim(), &word[at..])
    };
    let arguments: Vec<String> = match arguments {
        "void" => Vec::new(),
        some => some.split(", ").map(one).collect(),
    };
    let call = format!("{name}({})", arguments.join(", "));
    let call = match returns {
        "void" => format!("{call};"),
        "long double" => format!("{returns} r = {call}; keep(&r, 10);"), // the rest is padding
        _ => format!("{returns} r = {call}; keep(&r, sizeof r);"),
    };
    let fills = FILLS.iter().any(|word| name.contains(word)) && !name.contains("put");
    let dest = if fills { "keep(d, 256);" } else { "" };
    Some(format!(
        "    {{ begin(\"{name}\"); {call} shmem_quiet(); keep(out, sizeof out); {dest} }}\n"
    ))
}

/// Builds a program that calls all routines of the tables before its loop, and prints that each PE
/// is right.
pub fn table() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let headers = emit::headers();
        let header = headers.into_iter().find(|(name, _)| *name == "shmem.h").expect("it is one");
        let routines = header.1.lines().filter(|line| !line.starts_with("typedef "));
        let calls: Vec<String> = routines.filter_map(call).collect();
        assert!(calls.len() > 1600, "{} calls: the table has more", calls.len());
        let source = include_str!("../c/prelude.c").replace("/* calls */", &calls.concat());
        let shared = concat!("#include \"", env!("CARGO_MANIFEST_DIR"), "/tests/c/test.h\"");
        let source = source.replace("#include \"test.h\"", shared);
        let own = std::env::current_exe().expect("the test has a path");
        let own = own.file_name().expect("it is a file").to_owned();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prelude").join(own);
        std::fs::create_dir_all(&folder).expect("a folder for programs");
        std::fs::write(folder.join("prelude.c"), source).expect("a file below the target folder");
        compiled(&folder.join("prelude.c"), &folder.join("prelude"))
    };
    BUILT.get_or_init(build).clone()
}
