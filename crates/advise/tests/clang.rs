//! The output of a current clang for our examples is read completely: every access and every call.
//!
//! The expected counts come from a plain search of the text, independent of the reader. Needs clang
//! 19 or newer, and is skipped without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use raidshmem_advise::ir::{Callee, Module, Op};
use raidshmem_advise::read::module;

/// Returns the newest installed clang, 19 or newer.
fn clang() -> Option<&'static str> {
    let names = ["clang-22", "clang-21", "clang-20", "clang-19"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = names.into_iter().find(runs);
    if found.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        eprintln!("SKIPPED: {test}: clang: none of {}", names.join(", "));
    }
    found
}

fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().and_then(Path::parent).expect("the repository")
}

/// Returns every C and C++ program in `examples/`.
fn examples() -> Vec<PathBuf> {
    let folders = ["", "c", "cxx"].map(|folder| root().join("examples").join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let source = |path: &PathBuf| path.extension().is_some_and(|e| e == "c" || e == "cc");
    let mut found: Vec<_> = entries.map(|e| e.expect("an entry").path()).filter(source).collect();
    found.sort();
    found
}

fn printed(clang: &str, source: &Path) -> String {
    let output = Command::new(clang)
        .args(["-g", "-O0", "-Xclang", "-disable-O0-optnone", "-S", "-emit-llvm", "-w", "-I"])
        .arg(root().join("include"))
        .arg(source)
        .args(["-o", "-"])
        .output()
        .expect("clang runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", source.display());
    String::from_utf8(output.stdout).expect("text")
}

/// Words of instructions, and their form in the reader's output.
type Kind = (&'static [&'static str], fn(&Op) -> bool);

/// Returns the number of instructions of the module that `wanted` accepts.
fn count(module: &Module, wanted: fn(&Op) -> bool) -> usize {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    blocks.flat_map(|block| &block.insts).filter(|inst| wanted(&inst.op)).count()
}

/// Returns the number of body lines that contain one of the words, without debug information.
fn lines(text: &str, words: &[&str]) -> usize {
    let body = |line: &&str| line.starts_with("  ") && !line.contains("@llvm.dbg.");
    let bodies = text.lines().filter(body);
    bodies.filter(|line| line.split_whitespace().take(4).any(|w| words.contains(&w))).count()
}

#[test]
fn every_access_and_call_of_the_examples_is_read() {
    let Some(clang) = clang() else {
        return;
    };
    let sources = examples();
    assert!(sources.len() >= 20, "{} examples", sources.len());
    for source in sources {
        let name = source.display();
        let text = printed(clang, &source);
        let module = module(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let heads = text.lines().filter(|line| line.starts_with("define ")).count();
        assert_eq!(module.functions.len(), heads, "{name}: functions");
        let counts: [Kind; 5] = [
            (&["load"], |op| matches!(op, Op::Load { .. })),
            (&["store"], |op| matches!(op, Op::Store { .. })),
            (&["call", "invoke"], |op| matches!(op, Op::Call { .. })),
            (&["alloca"], |op| matches!(op, Op::Alloca { .. })),
            (&["atomicrmw", "cmpxchg"], |op| matches!(op, Op::Update { .. })),
        ];
        // A checkpoint consists of two calls there: one of the routine that notes its place, and
        // its own.
        let places = |line: &&str| line.starts_with("  ") && line.contains("@shmemx_ft_place(");
        let calls = text.lines().filter(places).count();
        for (words, wanted) in counts {
            let places = if words.contains(&"call") { calls } else { 0 };
            assert_eq!(count(&module, wanted), lines(&text, words) - places, "{name}: {words:?}");
        }
        let read = count(&module, |op| {
            matches!(op, Op::Call { callee: Callee::Named(name), .. }
                if name == "shmem_checkpoint_all")
        });
        assert_eq!(read, calls, "{name}: checkpoints");
        let unnamed = module.functions.iter().filter(|f| f.place.line == 0 && f.name == "main");
        assert_eq!(unnamed.count(), 0, "{name}: main has a line");
    }
}
