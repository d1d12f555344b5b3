//! Unsafe code: the files that may contain it, each with its reason.

use super::code::{code_only, words};
use super::files::{CRATES, File, expect_none, page, rust, snippet};

/// Files that may contain unsafe code, with the reason; ARCHITECTURE.md shows the same list.
const UNSAFE: &[(&str, &str)] = &[
    (
        "crates/runtime/src/affinity.rs",
        "registers the table of masks, which is static, with the checkpoints",
    ),
    ("src/bin/oshrun.rs", "sets its environment before any thread; takes an inherited descriptor"),
    ("src/capi/claims.rs", "reads and writes lists of the C caller, and reads its strings"),
    ("src/capi/family.rs", "exports C functions under their names"),
    (
        "src/capi/ft.rs",
        "returns lists from malloc; an entry point that finds its caller; a handler's data",
    ),
    ("src/capi/longdouble.rs", "a C type that Rust lacks, passed by value"),
    ("src/capi/number.rs", "arithmetic on a C type that Rust lacks, in machine code"),
    ("crates/runtime/src/checkpoint/tiles.rs", "tiles and their stamps, each with one writer"),
    ("crates/control/src/page.rs", "words of a page shared by processes, as atomics"),
    (
        "crates/runtime/src/fault_tolerance.rs",
        "registers private memory that the caller promises to keep",
    ),
    ("crates/launch/src/agent/local.rs", "rings the bell in the control words of a PE"),
    (
        "src/openshmem/context.rs",
        "registers the table of contexts, which is static, with the checkpoints",
    ),
    ("src/openshmem/memory/address.rs", "writes a result to the caller's address"),
    ("src/openshmem/memory/direct.rs", "turns checked operations of the caller into accesses"),
    (
        "src/openshmem/memory/elements.rs",
        "like `direct.rs`, for single words, without a second check",
    ),
    ("src/openshmem/memory/logged.rs", "copies between buffers of the caller, segments and logs"),
    ("src/openshmem/memory/place.rs", "passes buffers of the caller to streams"),
    (
        "src/openshmem/memory/prelude.rs",
        "copies between buffers of the caller, segments and a record",
    ),
    ("src/openshmem/memory/rma.rs", "borrows elements that are read from several PEs as bytes"),
    ("src/openshmem/memory/word.rs", "words that PEs change concurrently, as atomics"),
    (
        "src/openshmem/team.rs",
        "registers the table of teams, which is static, with the checkpoints",
    ),
    ("crates/runtime/src/pgas/assignment.rs", "takes an inherited descriptor"),
    ("crates/runtime/src/pgas/boot.rs", "maps the statics in place"),
    ("crates/runtime/src/pgas/inherit.rs", "writes the store before the process is a PE"),
    ("crates/runtime/src/pgas/world/memory.rs", "passes on addresses of private memory"),
    ("crates/runtime/src/pgas/world/regions.rs", "copies private memory that was registered"),
    ("crates/runtime/src/pgas/world/segments.rs", "references to segments that are never freed"),
    (
        "crates/runtime/src/pgas/world/stream.rs",
        "sends pointers to such buffers from thread to thread",
    ),
    (
        "crates/runtime/src/pgas/nonblocking.rs",
        "buffers of calls that have returned, until their operation is over",
    ),
    ("src/shmem/handle.rs", "declares handles to be plain data"),
    ("src/shmem/protected.rs", "lends private memory that checkpoints read and restarts write"),
    ("src/shmem/token.rs", "lends this PE's memory, once at a time"),
    ("src/shmem/root.rs", "the block at the start of the heap, as atomics"),
    ("codec/src/kernel/avx2.rs", "the instructions of AVX2"),
    ("codec/src/kernel/avx512.rs", "the instructions of AVX-512"),
    ("codec/src/kernel/clmul.rs", "the instructions of VPCLMULQDQ"),
    ("codec/src/kernel/gfni.rs", "the instructions of GFNI"),
    ("codec/src/kernel/loops.rs", "calls instructions that a kernel's value proves available"),
    ("codec/src/kernel/neon.rs", "the instructions of NEON"),
    ("codec/src/kernel/ssse3.rs", "the instructions of SSSE3"),
    ("crates/sys/src/caller.rs", "asks libc and the loader for the caller and the loaded objects"),
    ("crates/sys/src/exit.rs", "registers an exit handler; flushes C streams; ends the process"),
    ("crates/sys/src/forbidden.rs", "a handler of SIGSEGV, which writes a line"),
    ("crates/sys/src/fork.rs", "fork handlers, which give a child its own variables"),
    ("crates/sys/src/futex.rs", "the system calls futex and membarrier"),
    ("crates/sys/src/huge.rs", "a child in its own namespaces mounts a file system"),
    (
        "crates/sys/src/inherited.rs",
        "reads and sets signal dispositions; runs before Rust's runtime",
    ),
    ("crates/sys/src/memory.rs", "maps, protects and unmaps memory"),
    ("crates/sys/src/numa.rs", "asks on which nodes pages are, and sets it for those to come"),
    ("crates/sys/src/startup.rs", "maps the program a second time, and jumps to its loader"),
    ("crates/sys/src/tasks.rs", "replaces a task of another launcher before its program runs"),
    (
        "crates/sys/src/process.rs",
        "acts between fork and exec; a timer and a pipe that end the process; blanks a variable",
    ),
    (
        "crates/sys/src/threads.rs",
        "checks that a thread is of this process; runs a callback when a thread ends",
    ),
    ("crates/sys/src/writeback.rs", "the system call sync_file_range"),
    ("crates/sys/src/written.rs", "has the kernel watch pages, and asks which were written"),
    ("crates/segment/src/lib.rs", "turns offsets that were checked into memory"),
    (
        "crates/segment/src/statics.rs",
        "reads the loader's list and the running executable's tables",
    ),
    ("crates/segment/src/update.rs", "updates a word of a mapped segment in one step"),
    ("crates/fabric-verbs/src/device.rs", "opens a device of libibverbs and asks what it can do"),
    ("crates/fabric-verbs/src/objects.rs", "registered memory and queues of libibverbs as objects"),
    ("crates/fabric-verbs/src/pair.rs", "queue pairs of libibverbs and what is posted to them"),
    ("crates/fabric-ofi/src/lib.rs", "registers the segment, which is never unmapped"),
    ("crates/fabric-ofi/src/offers.rs", "asks libfabric for its providers"),
    ("crates/fabric-ofi/src/raw.rs", "calls libfabric"),
    ("crates/fabric-ofi/src/slots.rs", "bytes that libfabric uses while an operation is under way"),
    ("crates/fabric-ucx/src/lib.rs", "lends UCX bytes until an operation is over"),
    ("crates/fabric-ucx/src/raw.rs", "calls UCX"),
];

fn has_unsafe(file: &File) -> bool {
    !words(&code_only(&file.text), "unsafe").is_empty()
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let shipped = rust(CRATES);
    let holding: Vec<&str> =
        shipped.iter().filter(|f| has_unsafe(f)).map(|f| f.path.as_str()).collect();
    let allowed: Vec<&str> = UNSAFE.iter().map(|(path, _)| *path).collect();
    let new = holding.iter().filter(|path| !allowed.contains(path));
    let stale = allowed.iter().filter(|path| !holding.contains(path));
    let new = new.map(|path| format!("{path}: unsafe code, and not in the list UNSAFE"));
    let safe = CRATES.iter().filter(|root| !allowed.iter().any(|path| path.starts_with(**root)));
    let open = safe
        .filter(|root| !page(&format!("{root}/lib.rs")).contains("\n#![forbid(unsafe_code)]\n"));
    let stale = stale.map(|path| format!("UNSAFE: {path} has none"));
    let open = open.map(|root| format!("{root}/lib.rs: expected #![forbid(unsafe_code)]"));
    expect_none(new.chain(stale).chain(open).collect());

    let architecture = page("ARCHITECTURE.md");
    let (_, section) = architecture.split_once("## Files with unsafe code").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let of_file = |line: &&str| line.starts_with("| `") && line.contains(".rs` | ");
    let shown: Vec<&str> = section.lines().filter(of_file).collect();
    let row = |(path, why): &(&str, &str)| format!("| `{path}` | {why} |");
    let wanted: Vec<String> = UNSAFE.iter().map(row).collect();
    assert_eq!(shown, wanted, "the list of unsafe files in ARCHITECTURE.md");
}

#[test]
fn unsafe_is_seen_in_code_and_only_there() {
    assert!(has_unsafe(&snippet("fn f() { unsafe { g() } }")));
    assert!(has_unsafe(&snippet("#[unsafe(no_mangle)]")));
    for text in ["// unsafe", "/* unsafe */", "\"unsafe\"", "#![forbid(unsafe_code)]"] {
        assert!(!has_unsafe(&snippet(text)), "{text}");
    }
}
