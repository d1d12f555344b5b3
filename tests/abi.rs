//! The C interface as a C programmer sees it: headers, symbols, and missing routines.
//!
//! - the committed headers are what the tables print (`RAIDSHMEM_WRITE_HEADERS=1` rewrites them);
//! - the library exports every function that they declare, and its `p` twin;
//! - they compile as C11, C17, C23 and C++17 without a warning, with gcc and clang: one call of
//!   every synopsis with every type, by its symbol and by its type-generic name;
//! - the types in `shmem_ft.hpp` compile as C++17 to C++23 with both;
//! - the prototypes in the man pages and in `docs/c.md` match the headers;
//! - `oshcc` builds the examples, and answers questions about its options;
//! - the symbols of the specification (`tests/spec/openshmem-1.6-symbols.txt`) that are missing are
//!   exactly those that `tests/spec/missing.txt` names by family;
//! - an analysis' model of a signature (`raidshmem-advise`) agrees with the prototype.
//!
//! Left out: the behaviour of the functions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use raidshmem::capi::emit;

#[path = "support/skip.rs"]
mod skip;
#[path = "support/synopses.rs"]
mod synopses;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SPECIFICATION: &str = include_str!("spec/openshmem-1.6-symbols.txt");
const MISSING: &str = include_str!("spec/missing.txt");

/// The shared library built with this test: in the same folder, or one folder up.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let candidates = test.ancestors().skip(1).take(2).map(|folder| folder.join("libraidshmem.so"));
    candidates
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok())
        .expect("libraidshmem.so is built with the tests")
}

/// Returns the library's exported symbols, with versions.
fn versioned() -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output();
    let output = output.expect("nm is installed");
    assert!(output.status.success(), "nm failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("symbols are ASCII");
    text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

fn exported() -> BTreeSet<String> {
    versioned().iter().map(|symbol| bare(symbol).to_owned()).collect()
}

/// Returns a symbol's name without its version.
fn bare(symbol: &str) -> &str {
    symbol.split('@').next().unwrap_or_default()
}

#[test]
fn headers_are_what_the_tables_print() {
    let rewrite = std::env::var_os("RAIDSHMEM_WRITE_HEADERS").is_some();
    for (name, text) in emit::headers() {
        let path = Path::new(ROOT).join("include").join(name);
        if rewrite {
            std::fs::create_dir_all(path.parent().expect("include/")).expect("include/ is made");
            std::fs::write(&path, &text).expect("the header is written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "include/{name} is stale: run `RAIDSHMEM_WRITE_HEADERS=1 cargo test --test abi`"
        );
    }
}

/// Profilers replace a function and call its twin: neither the twin nor any other code of the
/// library may call the replacement.
#[test]
fn the_library_does_not_go_through_its_own_names() {
    let output = Command::new("readelf").arg("-rW").arg(library()).output();
    let output = output.expect("readelf is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("Relocation section"), "{text}");
    let ours: BTreeSet<String> =
        emit::symbols().into_iter().flat_map(|name| [format!("p{name}"), name]).collect();
    let own: Vec<&str> = text.split_whitespace().filter(|word| ours.contains(bare(word))).collect();
    assert!(own.is_empty(), "called by name: {own:?}");
}

/// A program is bound to the name and the version, whichever file of the library is found.
#[test]
fn the_library_has_a_name_and_its_symbols_a_version() {
    let output = Command::new("readelf").arg("-dW").arg(library()).output();
    let text = output.expect("readelf is installed").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("Library soname: [libraidshmem.so.0]"), "{text}");
    let versioned = versioned();
    let wrong = |name: &String| !versioned.contains(&format!("{name}@@libraidshmem.so.0"));
    let wrong: Vec<String> = emit::symbols().into_iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "without a version: {wrong:?}");
    let link = library().with_file_name("libraidshmem.so.0");
    assert_eq!(link.canonicalize().ok(), library().canonicalize().ok(), "{}", link.display());
}

#[test]
fn every_declared_function_is_exported_with_its_twin() {
    let exported = exported();
    let absent: Vec<String> = emit::symbols()
        .into_iter()
        .flat_map(|name| [format!("p{name}"), name])
        .filter(|name| !exported.contains(name))
        .collect();
    assert!(absent.is_empty(), "declared but not exported: {absent:?}");
}

#[test]
fn nothing_is_exported_that_is_not_declared() {
    let declared: BTreeSet<String> =
        emit::symbols().into_iter().flat_map(|name| [format!("p{name}"), name]).collect();
    let prefixes = ["shmem", "pshmem", "_my_pe", "_num_pes", "start_pes", "shmalloc"];
    let ours = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let exported = exported();
    let secret: Vec<&String> =
        exported.iter().filter(ours).filter(|name| !declared.contains(*name)).collect();
    assert!(secret.is_empty(), "exported but not declared: {secret:?}");
}

/// Matches a line of `missing.txt`, `shmem_*_sum_reduce  reason`; `*` is one type name or size.
fn matches(pattern: &str, symbol: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == symbol,
        Some((before, after)) => {
            let between = symbol.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            between.is_some_and(|name| !name.is_empty() && !name.contains('_'))
        }
    }
}

#[test]
fn missing_routines_of_the_specification_are_listed() {
    let there: BTreeSet<String> = emit::symbols().into_iter().collect();
    let wanted: Vec<&str> = SPECIFICATION.lines().filter(|line| !line.is_empty()).collect();
    let patterns: Vec<&str> = MISSING
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let missing: Vec<&str> =
        wanted.iter().copied().filter(|symbol| !there.contains(*symbol)).collect();
    println!("OpenSHMEM 1.6: {} of {} symbols", wanted.len() - missing.len(), wanted.len());

    let named = |symbol: &str| patterns.iter().any(|pattern| matches(pattern, symbol));
    let silent: Vec<&str> = missing.iter().copied().filter(|symbol| !named(symbol)).collect();
    assert!(silent.is_empty(), "missing, and not in missing.txt: {silent:?}");
    let stale = |pattern: &&str| !missing.iter().any(|symbol| matches(pattern, symbol));
    let stale: Vec<&str> = patterns.iter().copied().filter(stale).collect();
    assert!(stale.is_empty(), "in missing.txt, but not missing: {stale:?}");
}

/// Compiles `text` and fails on any warning.
fn compile(compiler: &str, options: &[&str], text: &str, suffix: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let name = [compiler, &options.concat(), &test].concat();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let source = folder.join(format!("abi-{name}.{suffix}"));
    std::fs::write(&source, text).expect("the source is written");
    let output = Command::new(compiler)
        .args(options)
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(Path::new(ROOT).join("include"))
        .arg(&source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {options:?}: {errors}");
}

/// One call of each shape of a generic name, with `const`, arrays and contexts.
const GENERIC: &str = r#"
#include <mpp/shmemx.h>
#include <pshmem.h>
long word, words[4];
int number;
float real;
long double wide;
unsigned bits;
uint64_t signal_word;
short narrow;
char text[8];
void use(const long *constant, shmem_ctx_t ctx);
void use(const long *constant, shmem_ctx_t ctx) {
    long own[4] = {0};
    size_t at[4];
    shmem_put(words, constant, 4, 0);
    shmem_put(ctx, words, own, 4, 0);
    shmem_put(SHMEM_CTX_DEFAULT, text, "hello", 5, 0);
    shmem_get(own, constant, 4, 0);
    shmem_get_nbi(ctx, own, words, 4, 0);
    shmem_p(&narrow, 1, 0);
    shmem_p(&wide, 1.5L, 0);
    wide += shmem_g(&wide, 0);
    own[0] += shmem_g(ctx, constant, 0);
    shmem_iput(words, own, 1, 1, 4, 0);
    shmem_ibget(ctx, own, words, 2, 2, 2, 2, 0);
    shmem_put_signal(words, own, 4, &signal_word, 1, SHMEM_SIGNAL_ADD, 0);
    shmem_put_signal_nbi(ctx, words, own, 4, &signal_word, 1, SHMEM_SIGNAL_SET, 0);
    shmem_signal_add(&signal_word, 1, 0);
    shmem_ctx_signal_set(ctx, &signal_word, 1, 0);
    shmem_atomic_set(&real, 1.0f, 0);
    number = shmem_atomic_fetch_add(&number, 1, 0);
    number = shmem_atomic_compare_swap(ctx, &number, 1, 2, 0);
    shmem_atomic_inc(&word, 0);
    shmem_atomic_xor(&bits, 1u, 0);
    shmem_atomic_fetch_nbi(&own[0], constant, 0);
    shmem_wait_until(&word, SHMEM_CMP_NE, 0);
    shmem_wait_until(&number, SHMEM_CMP_NE, 0);
    shmem_wait_until_all(words, 4, NULL, SHMEM_CMP_GE, 0L);
    at[0] = shmem_wait_until_some_vector(words, 4, at, NULL, SHMEM_CMP_GE, own);
    number = shmem_test(&narrow, SHMEM_CMP_EQ, 1) + shmem_test_any(words, 4, NULL, 0, 0L) == at[0];
    number = shmem_finc(&number, 0);
    shmem_team_t team = SHMEM_TEAM_WORLD;
    number = shmem_sum_reduce(team, words, constant, 4) + shmem_and_reduce(team, &bits, &bits, 1);
    number = shmem_max_reduce(team, &wide, &wide, 1) + shmem_sum_exscan(team, &real, &real, 1);
    number = shmem_broadcast(team, words, constant, 4, 0);
    number = shmem_alltoalls(team, text, text, 1, 1, 1);
    number = shmem_sync(team);
    shmem_sync(0, 0, 1, words);
    pshmem_putmem(words, own, 8, 0);
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) shmem_restart_pes(NULL, 0);
}
"#;

#[test]
fn headers_compile_as_c_and_cxx() {
    for standard in ["-std=c11", "-std=c17"] {
        compile("cc", &[standard, "-pedantic"], GENERIC, "c");
    }
    compile("cc", &["-std=c99"], "#include <shmem.h>\nint main(void) { return 0; }\n", "c");
    for standard in ["-std=c++11", "-std=c++17"] {
        compile("c++", &[standard, "-pedantic"], GENERIC, "cc");
    }
}

/// True if this machine has the compiler and it accepts these options.
fn takes(compiler: &str, options: &[&str], suffix: &str) -> bool {
    let source =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("takes-{compiler}.{suffix}"));
    std::fs::write(&source, "int taken;\n").expect("the source is written");
    let mut command = Command::new(compiler);
    let output = command.args(options).arg("-fsyntax-only").arg(source).output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns the first of these names under which a compiler is installed.
fn called<'n>(names: &[&'n str], suffix: &str) -> Option<&'n str> {
    names.iter().copied().find(|name| takes(name, &[], suffix))
}

/// All 1,788 routines and 73 generic names of the specification, and ours (`shmemx_`).
#[test]
fn every_synopsis_compiles_with_every_type() {
    assert_eq!(synopses::generic_names(), 73);
    let clang = ["clang-22", "clang-21", "clang-20", "clang-19", "clang"];
    let clangxx = clang.map(|name| name.replacen("clang", "clang++", 1));
    let clangxx: Vec<&str> = clangxx.iter().map(String::as_str).collect();
    let (clang, clangxx) = (called(&clang, "c"), called(&clangxx, "cc"));
    if clang.is_none() {
        skip::partly("clang", "there is no clang");
    }
    let program = synopses::program();
    for compiler in [Some("cc"), clang].into_iter().flatten() {
        let newest = ["-std=c23", "-std=c2x"].into_iter().find(|of| takes(compiler, &[of], "c"));
        for standard in ["-std=c11", "-std=c17"].into_iter().chain(newest) {
            compile(compiler, &[standard, "-pedantic"], &program, "c");
        }
    }
    for compiler in [Some("c++"), clangxx].into_iter().flatten() {
        compile(compiler, &["-std=c++17", "-pedantic"], &program, "cc");
    }
}

/// Every member of the types in `shmem_ft.hpp`.
const TYPES: &str = r#"
#include <shmem_ft.hpp>
template class shmem::Array<double>;
template class shmem::ft::Protected<int>;
// A destructor that throws ends the program, and a move that throws makes a vector copy.
template <typename T> constexpr bool moves() {
    return std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           !std::is_copy_constructible_v<T> && std::is_nothrow_destructible_v<T>;
}
static_assert(moves<shmem::Array<double>>() && moves<shmem::Team>() && moves<shmem::Context>());
template <typename T> constexpr bool stays() {
    return !std::is_move_constructible_v<T> && !std::is_move_assignable_v<T> &&
           std::is_nothrow_destructible_v<T>;
}
static_assert(stays<shmem::Session>() && stays<shmem::Guard>());
static_assert(stays<shmem::ft::Protected<int>>() && stays<shmem::ft::CheckpointSet>());
int main() {
    shmem::Session session(SHMEM_THREAD_MULTIPLE);
    shmem::Array<long> words(8), own(std::move(words));
    const shmem::Array<long> &seen = own;
    shmem::Team all(SHMEM_TEAM_WORLD, 0, 1, session.size()), team(std::move(all));
    shmem::Context context(SHMEM_CTX_PRIVATE), other, of_team(team, SHMEM_CTX_PRIVATE);
    other = std::move(of_team);
    words = std::move(own);
    own = std::move(words);
    shmem::Guard guard(own[0]);
    shmem_put(context, &own[1], &seen[2], 1, team ? team.me() + team.size() : session.me());
    shmem::ft::Protected<double> heat("heat", 1.5);
    auto last = [&](std::uint64_t number) { return *heat + double(number) > 9; };
    shmem::ft::run(last);
    shmem::ft::run([](std::uint64_t number) { return number == 3; });
    shmem::ft::run([](std::uint64_t number) { return number == 30; }, 10);
    for (long word : seen)
        own[0] += word + session.threads();
    shmem::ft::CheckpointSet set("store@7");
    double cells[2] = {};
    for (int pe = 0; pe < set.size(); pe++)
        set.read("heap:grid", pe, 5, cells, 2);
    own[0] += long(cells[0]);
    return int(own.size()) + int(shmem::ft::losses().size()) + (own.begin() == own.end());
}
"#;

#[test]
fn the_types_for_cxx_compile_without_a_warning() {
    let clangxx =
        called(&["clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++"], "cc");
    if clangxx.is_none() {
        skip::partly("clang", "there is no clang");
    }
    for compiler in [Some("c++"), clangxx].into_iter().flatten() {
        let newer = ["-std=c++20", "-std=c++23"];
        let newer = newer.into_iter().filter(|of| takes(compiler, &[of], "cc"));
        for standard in ["-std=c++17"].into_iter().chain(newer) {
            let strictly = [standard, "-Wpedantic", "-Wconversion", "-Wsign-conversion"];
            compile(compiler, &strictly, TYPES, "cc");
            compile(compiler, &strictly, include_str!("../examples/cxx/waves.cc"), "cc");
        }
    }
}

/// Uses of the checkpoint call's name that its macro must not break.
const NAMED: &str = r#"
#include <shmem.h>
typedef int (*call_t)(void);
#ifdef __cplusplus
extern "C"
#endif
int shmem_checkpoint_all(void);
static call_t kept = shmem_checkpoint_all;
#define TWICE() (shmem_checkpoint_all() + shmem_checkpoint_all())
#define OUTER(what) INNER(what, #what)
#define INNER(what, text) ((what) + (int)sizeof text)
int pass(call_t call);
int pass(call_t call) {
    call_t own = &shmem_checkpoint_all;
    int sum = call() + own() + kept() + (shmem_checkpoint_all)() + TWICE();
    sum += OUTER(shmem_checkpoint_all());
    if (!shmem_checkpoint_all() || shmem_checkpoint_all( ) != SHMEM_FT_SUCCESS)
        sum += shmem_checkpoint_all(/* nothing */);
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        ;
    return sum + (int)sizeof(shmem_checkpoint_all());
}
int shadowed(call_t call);
int shadowed(call_t call) {
    call_t shmem_checkpoint_all = call;
    return shmem_checkpoint_all() + pass(shmem_checkpoint_all);
}
#undef shmem_checkpoint_all
struct table { call_t shmem_checkpoint_all; };
int member(const struct table *of);
int member(const struct table *of) { return of->shmem_checkpoint_all(); }
int main(void) { return pass(kept) + shadowed(shmem_checkpoint_all) + shmem_checkpoint_all(); }
"#;

/// Uses that only C++ has.
const NAMED_CXX: &str = r#"
#include <functional>
#include <shmem.h>
static auto kept = &::shmem_checkpoint_all;
namespace ours {
using ::shmem_checkpoint_all;
inline int save() { return ::shmem_checkpoint_all(); }
}
template <class T> int pass(T call) { return call() + ::shmem_checkpoint_all(); }
constexpr int perhaps(bool saved) { return saved ? 1 : shmem_checkpoint_all(); }
int main() {
    std::function<int()> call = shmem_checkpoint_all;
    auto within = [] { return shmem_checkpoint_all(); };
    if (auto status = ::shmem_checkpoint_all())
        return status;
    static_assert(sizeof(shmem_checkpoint_all()) == sizeof(int), "an int");
    decltype(shmem_checkpoint_all()) sum = ours::save() + pass(ours::shmem_checkpoint_all);
    return sum + call() + within() + kept() + perhaps(true);
}
"#;

/// Programs of tools that define the call themselves.
const TOOLS: [&str; 2] = [
    "#include <shmem.h>\nint pshmem_checkpoint_all(void);\n\
     int shmem_checkpoint_all(void) { return pshmem_checkpoint_all(); }\n",
    "#include <shmem.h>\n#include <pshmem.h>\n#include <shmem.h>\n\
     int shmem_checkpoint_all(void) { return pshmem_checkpoint_all(); }\n",
];

#[test]
fn the_checkpoint_macro_does_not_break_programs() {
    let clang = called(&["clang-22", "clang-21", "clang-20", "clang-19", "clang"], "c");
    let clangxx =
        called(&["clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++"], "cc");
    if clang.is_none() {
        skip::partly("clang", "there is no clang");
    }
    for compiler in [Some("cc"), clang].into_iter().flatten() {
        let newest = ["-std=c23", "-std=c2x"].into_iter().find(|of| takes(compiler, &[of], "c"));
        for standard in ["-std=c99", "-std=c11", "-std=gnu17"].into_iter().chain(newest) {
            for text in TOOLS.into_iter().chain([NAMED]) {
                compile(compiler, &[standard, "-pedantic"], text, "c");
            }
        }
        compile(compiler, &["-std=gnu89"], NAMED, "c");
    }
    for compiler in [Some("c++"), clangxx].into_iter().flatten() {
        for standard in ["-std=c++11", "-std=c++17", "-std=c++20"] {
            for text in [NAMED, NAMED_CXX] {
                compile(compiler, &[standard, "-pedantic"], text, "cc");
            }
            let tool =
                TOOLS[1].replace("int shmem", "extern \"C\" int shmem").replace("(void) {", "() {");
            compile(compiler, &[standard, "-pedantic"], &tool, "cc");
        }
    }
}

/// Each documented prototype is redeclared: a compiler rejects one that differs.
#[test]
fn every_documented_prototype_is_that_of_the_headers() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("a document");
    let pages = std::fs::read_dir(Path::new(ROOT).join("man")).expect("a folder").flatten();
    let pages =
        pages.map(|page| page.path()).filter(|page| page.extension().is_some_and(|e| e == "3"));
    let mut found: Vec<String> = pages.flat_map(|page| synopses::of_page(&read(page))).collect();
    let in_tables = synopses::of_tables(&read(Path::new(ROOT).join("docs/c.md")));
    assert!(found.len() >= 24 && in_tables.len() >= 4, "{found:#?}{in_tables:#?}");
    found.extend(in_tables);
    let typed = |line: &String| line.replace("TYPE_", "double_").replace("TYPE ", "double ");
    let declared: Vec<String> = found.iter().map(typed).collect();
    let text = format!("#include <shmemx.h>\n{}\n", declared.join("\n"));
    compile("cc", &["-std=c11"], &text, "c");
}

/// The thesis' listing 4.1 with `shmem.h` and `stdlib.h` alone: corrected without a warning, as
/// printed with one.
#[test]
fn the_listing_of_the_thesis_needs_shmem_h_alone() {
    let listing = include_str!("c/listing.c");
    for (compiler, suffix) in [("cc", "c"), ("c++", "cc")] {
        compile(compiler, &["-DNUMPES=numpes"], listing, suffix);
    }
    compile("cc", &["-DNUMPES=&numpes", "-Wno-int-conversion"], listing, "c");
}

/// The cache routines of the specification before 1.5.
#[test]
fn the_routines_for_caches_are_there() {
    let calls = "#include <shmem.h>\nint main(void) {\nstatic long line;\n\
        shmem_set_cache_inv();\nshmem_set_cache_line_inv(&line);\n\
        shmem_clear_cache_inv();\nshmem_clear_cache_line_inv(&line);\n\
        shmem_udcflush();\nshmem_udcflush_line(&line);\nreturn 0;\n}\n";
    compile("cc", &["-std=c11", "-DCACHES"], calls, "c");
}

/// Runs `oshcc` and returns its output.
fn oshcc(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oshcc")).args(args).current_dir(ROOT).output();
    let output = output.expect("oshcc runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "oshcc {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("paths are UTF-8 here")
}

#[test]
fn oshcc_builds_the_examples() {
    for name in ["hello", "jacobi"] {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let program = program.to_str().expect("paths are UTF-8 here");
        let source = format!("examples/{name}.c");
        oshcc(&["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, &source]);
    }
}

#[test]
fn oshcc_links_only_when_asked_to_and_shows_how() {
    assert!(oshcc(&["-show", "a.c"]).contains("-lraidshmem -Wl,-z,now"));
    assert!(!oshcc(&["--showme", "-c", "a.c"]).contains("-l"));
    assert!(oshcc(&["--showme:compile"]).starts_with("-I"));
    assert_eq!(oshcc(&["--showme:libs"]), "raidshmem\n");
}

#[test]
fn the_stencil_refuses_bad_arguments_in_one_line_and_computes_without_the_library() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jacobi-serial");
    oshcc(&["-O2", "-o", program.to_str().expect("UTF-8"), "examples/jacobi.c"]);
    let run = |args: &[&str]| Command::new(&program).args(args).output().expect("jacobi runs");
    for bad in [&["--bytes", "x"][..], &["--halo", "0"], &["--sweeps"], &["--unknown"]] {
        let output = run(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1, "{bad:?}");
    }
    let output = run(&["--serial", "--bytes", "8K", "--sweeps", "50"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().expect("a last line");
    assert!(last.starts_with("jacobi checksum=") && last.contains(" seconds="), "{last}");
}

/// The switch that breaks rules for `.ci/mutants` exists in no other build.
#[test]
fn a_build_for_users_has_no_rule_to_break() {
    for file in [PathBuf::from(env!("CARGO_BIN_EXE_oshrun")), library()] {
        let bytes = std::fs::read(&file).expect("it was built for the tests");
        let there = bytes.windows(16).any(|name| name == b"RAIDSHMEM_MUTANT");
        assert_eq!(there, cfg!(feature = "mutants"), "{}", file.display());
    }
}

/// For each parameter in a routine's prototype: is it a pointer, and is it to const?
fn pointers(symbol: &str, headers: &str) -> Vec<(bool, bool)> {
    let prototype = synopses::prototype(symbol, headers);
    let of = |arg: &str| (arg.contains('*'), arg.starts_with("const ") && !arg.contains("**"));
    prototype.each().map(of).collect()
}

#[test]
fn analysed_signatures_agree_with_their_prototypes() {
    use raidshmem_advise::routines::{Access, routine};
    let headers = synopses::headers();
    let signatures = emit::signatures();
    assert_eq!(signatures.len(), emit::symbols().len());
    for signature in signatures {
        let symbol = signature.symbol.as_str();
        let args: Vec<_> = signature.args.iter().map(|(name, of)| (*name, of.as_str())).collect();
        let routine = routine(symbol, &args, signature.on_context);
        let pointers = pointers(symbol, &headers);
        assert_eq!(routine.args.len(), pointers.len(), "{symbol}");
        for (access, (pointer, constant)) in routine.args.iter().zip(pointers) {
            let writes = access.writes || access.writes_remote;
            assert!(pointer || *access == Access::default(), "{symbol}: a number is no memory");
            assert!(!(constant && writes), "{symbol}: writes what is const");
            assert!(!access.reads_remote || access.reads, "{symbol}: the own PE is one of them");
        }
        // The specification's names imply these accesses too.
        let remote = |wanted: fn(&Access) -> bool| routine.args.iter().any(wanted);
        if symbol.contains("_put") || symbol.ends_with("_p") {
            assert!(remote(|access| access.writes_remote), "{symbol}");
        }
        let asks = ["_info_", "_team_", "_get_team"].iter().any(|part| symbol.contains(part));
        if symbol.contains("get") && !asks {
            assert!(remote(|access| access.reads_remote), "{symbol}");
        }
        if symbol.contains("_reduce") || symbol.contains("_to_all") || symbol.contains("_fetch") {
            assert!(remote(|access| access.reads_remote), "{symbol}");
        }
    }
}

#[test]
fn every_rule_of_a_local_rollback_is_that_of_a_routine() {
    let symbols = emit::symbols();
    for (pre, post, _) in raidshmem_core::replay::routine::RULES {
        let is_one = |symbol: &String| {
            let between = symbol.strip_prefix(pre).and_then(|rest| rest.strip_suffix(post));
            between.is_some_and(|of_type| !pre.ends_with('_') || !of_type.is_empty())
        };
        assert!(symbols.iter().any(is_one), "{pre}..{post} is no routine");
    }
}
