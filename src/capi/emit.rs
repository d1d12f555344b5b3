//! Generation of the headers of `include/`, from the families and the tables.
//!
//! The headers are committed; `tests/abi.rs` compares them with this output and rewrites them on
//! request, so they cannot go stale. A Rust type in a signature becomes its C spelling by `c_type`,
//! which rejects unknown types.
//!
//! Left out: the type-generic names (`emit_generic.rs`).

use std::fmt::Write;

use super::constants::{CONSTANTS, UNDERSCORED, VENDOR_STRING};
use super::emit_generic;
use super::families::FAMILIES;
use super::family::Family;
use super::prototypes::{declare, parameters, plain, returns, symbols_of};
use super::types;

/// Returns the headers: path below `include/` and text.
pub fn headers() -> Vec<(&'static str, String)> {
    vec![
        ("shmem.h", shmem_h()),
        ("shmem_ft.h", shmem_ft_h()),
        ("pshmem.h", pshmem_h()),
        ("shmemx.h", forward("extensions", "SHMEMX_H", &["shmem.h", "shmem_ft.h"])),
        ("mpp/shmem.h", forward("the former location of shmem.h", "MPP_SHMEM_H", &["../shmem.h"])),
        (
            "mpp/shmemx.h",
            forward("the former location of shmemx.h", "MPP_SHMEMX_H", &["../shmemx.h"]),
        ),
    ]
}

/// Returns every symbol of the headers, without the `p` twins.
pub fn symbols() -> Vec<String> {
    FAMILIES.iter().flat_map(|list| list.iter()).flat_map(symbols_of).collect()
}

/// The signature of a symbol of the headers.
pub struct Signature {
    /// The symbol.
    pub symbol: String,
    /// Parameter names, and types with their claims, such as `Sym<T>`.
    pub args: Vec<(&'static str, String)>,
    /// True if a context precedes these parameters.
    pub on_context: bool,
    /// Its type-generic name in C11 and C++.
    pub generic: Option<&'static str>,
}

/// Returns the signature of every symbol of the headers, without the `p` twins.
pub fn signatures() -> Vec<Signature> {
    let mut all = Vec::new();
    for family in FAMILIES.iter().flat_map(|list| list.iter()) {
        let args: Vec<_> = family.args.iter().map(|(name, of)| (*name, plain(of))).collect();
        for (pre, on_context) in [(family.pre, false), (family.ctx, true)] {
            for name in types::set(family.set).iter().filter(|_| !pre.is_empty()) {
                let symbol = format!("{pre}{name}{}", family.post);
                let (args, generic) = (args.clone(), family.note("generic"));
                all.push(Signature { symbol, args, on_context, generic });
            }
        }
    }
    all
}

/// Prints all prototypes of a family; `p` is the prefix of the profiling twins or empty.
fn prototypes(text: &mut String, family: &Family, p: &str) {
    for (pre, ctx) in [(family.pre, false), (family.ctx, true)] {
        if pre.is_empty() {
            continue;
        }
        for name in types::set(family.set) {
            let noreturn = family.note("noreturn").map_or("", |_| "SHMEMX_NORETURN ");
            let symbol = format!("{p}{pre}{name}{}", family.post);
            let head = declare(&returns(family, name), &symbol);
            let _ = writeln!(text, "{noreturn}{head}({});", parameters(family, name, ctx));
        }
    }
}

/// Prints the prototypes of one header by sections: of `shmem_ft.h` if `ft`.
fn sections(text: &mut String, ft: bool, p: &str) {
    let mut section = "";
    for family in FAMILIES.iter().flat_map(|list| list.iter()) {
        if family.note("header").is_some() != ft {
            continue;
        }
        let deprecated = family.note("deprecated").map(|since| format!("deprecated since {since}"));
        if family.section != section {
            section = family.section;
            let _ = writeln!(text, "\n/* {section} */");
        }
        if let Some(deprecated) = deprecated {
            let _ = writeln!(text, "/* {deprecated} */");
        }
        prototypes(text, family, p);
    }
}

fn opening(what: &str, guard: &str) -> String {
    format!(
        "/* raidshmem: {what}. Printed from the tables in src/capi; do not edit. */\n\
         #ifndef {guard}\n#define {guard}\n"
    )
}

fn forward(what: &str, guard: &str, files: &[&str]) -> String {
    let mut text = opening(what, guard);
    for file in files {
        let _ = writeln!(text, "#include \"{file}\"");
    }
    text + "#endif\n"
}

const BEGIN_C: &str = "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
const END_C: &str = "\n#ifdef __cplusplus\n}\n#endif\n";

/// Types, handles and other declarations that a C compiler needs before the prototypes.
const TYPES: &str = r#"
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && __cplusplus >= 201103L
#define SHMEMX_NORETURN [[noreturn]]
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SHMEMX_NORETURN _Noreturn
#else
#define SHMEMX_NORETURN
#endif

/* In C++ these types are an extension: without the keyword, -pedantic warns about each. */
__extension__ typedef double _Complex shmemx_complexd_t;
__extension__ typedef float _Complex shmemx_complexf_t;

/* Handles are integers typed as distinct pointers, so that they cannot be mixed up. */
typedef struct shmemx_ctx *shmem_ctx_t;
typedef struct shmemx_team *shmem_team_t;
typedef struct { int num_contexts; } shmem_team_config_t;
typedef struct { size_t total_ops; } shmem_ctx_session_config_t;
typedef int (*shmemx_ft_call_t)(void);

#define SHMEM_CTX_INVALID ((shmem_ctx_t) 0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t) 1)
#define SHMEM_TEAM_INVALID ((shmem_team_t) 0)
#define SHMEM_TEAM_WORLD ((shmem_team_t) 1)
#define SHMEM_TEAM_SHARED ((shmem_team_t) 2)

"#;

/// Constants of the thesis' calls.
const FT_CONSTANTS: &str = r#"
/* Fault tolerance (see shmem_ft.h): return values */
#define SHMEM_FT_SUCCESS 0
#define SHMEM_FT_FAILURE 1

/* Fault tolerance: causes of a loss */
#define SHMEM_FT_PE_FAILED 1
#define SHMEM_FT_NODE_FAILED 2
"#;

/// The macro by which a checkpoint call records its source location. It begins with a name, so that
/// it works after `::`, and calls whatever function has the routine's name in the caller's scope,
/// such as a tool's wrapper.
const PLACES: &str = r#"
/*
 * A call of shmem_checkpoint_all passes its source location, which identifies the call even if the
 * compiler duplicates it. A declaration with `void` in parentheses, and the name without
 * parentheses, are unaffected. Before a definition without `void`, or a member of that name, write
 * #undef shmem_checkpoint_all; pshmem.h does so.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define SHMEMX_FUNCTION __PRETTY_FUNCTION__
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define SHMEMX_FUNCTION __func__
#endif
#if defined(SHMEMX_FUNCTION) && defined(__COUNTER__)
#define shmem_checkpoint_all(none) shmemx_checkpoint_all_##none
#define shmemx_checkpoint_all_ \
    shmemx_ft_place(__FILE__, __LINE__, __COUNTER__, SHMEMX_FUNCTION, shmem_checkpoint_all)()
#define shmemx_checkpoint_all_void shmem_checkpoint_all(void)
#endif
"#;

fn shmem_h() -> String {
    let mut text = opening("OpenSHMEM 1.6", "SHMEM_H");
    text.push_str(TYPES);
    for constant in CONSTANTS {
        let _ = writeln!(text, "#define SHMEM_{} {}", constant.name, constant.value);
    }
    let _ = writeln!(text, "#define SHMEM_VENDOR_STRING \"{VENDOR_STRING}\"\n");
    for name in UNDERSCORED {
        let _ = writeln!(text, "#define _SHMEM_{name} SHMEM_{name}");
    }
    text.push_str(FT_CONSTANTS);
    text.push_str(BEGIN_C);
    sections(&mut text, false, "");
    text.push_str(END_C);
    text.push_str(PLACES);
    text.push_str(&emit_generic::generic_names());
    text + "\n#endif\n"
}

/// The guarantees of the calls of `shmem_ft.h`, in a few lines.
const FT_NOTES: &str = r#"
#include "shmem.h"

/*
 * A program survives the death of its PEs when its loop begins with
 *
 *     if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
 *         shmem_query_fault(&pes, &status, &n);
 *         shmem_restart_pes(pes, n);
 *         shmem_barrier_all();
 *         free(pes), free(status);
 *         continue;
 *     }
 *
 * A program needs exactly one such call: a substitute starts at the top of main, and the other PEs
 * wait for it in this call, so it must arrive at the same one.
 *
 * shmem_checkpoint_all  collective: saves all symmetric data, including statics; FAILURE after a
 *                       loss
 * shmem_query_fault     lists the PEs lost since, and the cause of each loss: two lists of the same
 *                       length, from malloc
 * shmem_restart_pes     collective: substitutes replace the lost PEs, and the symmetric data of all
 *                       PEs is restored from the last checkpoint
 * shmem_ft_algo_init    0 in a substitute, else 1
 *
 * Between a loss and the restart, blocking calls return, puts and atomic updates are dropped, gets
 * return zeroes, and tests report success, so that no loop hangs.
 *
 * Threads (SHMEM_THREAD_MULTIPLE): a PE may die while any number of threads are in calls; all of
 * them return, and a thread need not know of the loss. In each PE one thread, no matter which,
 * calls checkpoint and restart, while no other thread is in a call or touches symmetric memory:
 * join the others first, or hold them at a barrier of their own. A restart restores memory, not
 * threads: a substitute starts its own.
 */

/*
 * shmemx_ft_protect     adds private memory of this PE, which must exist until the end of the job,
 *                       to its checkpoints. Before shmem_restart_pes a substitute protects the same
 *                       names with the same lengths, in any order; otherwise the job ends with
 *                       status 3. A name that is protected again refers to the memory given last.
 *                       A region protected after the checkpoint that is restored gets the bytes
 *                       that it had when it was protected
 * shmemx_ft_register    like shmemx_ft_protect, under a name formed from the place of the call in
 *                       the program, the number of calls made there, and len
 * shmemx_ft_exclude     excludes symmetric memory, static or in one block of the heap, from
 *                       checkpoints until it is freed; alike on every PE
 * shmemx_ft_include     includes it again
 * shmemx_ft_readonly    collective: declares that the program does not write this range of one
 *                       block of the heap until shmemx_ft_writable; a write raises SIGSEGV, and a
 *                       line names the range. No snapshot of it is kept, since live memory serves
 *                       as one, and its parity is computed once. Only whole tiles of 64 KiB from
 *                       its first whole page on are treated this way. It requires raid5 or rs,
 *                       global rollback and no SHMEM_FT_STORE. FAILURE if nothing was changed: PE 0
 *                       prints the reason. The block cannot be freed or resized
 * shmemx_ft_writable    collective: makes the range writable again. If the last checkpoint covers
 *                       it, each PE copies it first; FAILURE if one of them lacks the memory
 * shmemx_ft_event       records bytes that come from outside, such as a clock reading, random
 *                       numbers or input: with SHMEM_FT_ROLLBACK=local a PE that rolls back gets
 *                       the recorded bytes. Otherwise it does nothing
 * shmemx_ft_protected   1 if a loss rolls the job back to that checkpoint or a later one, else 0. A
 *                       checkpoint whose parity is computed in the background (SHMEM_FT_BACKGROUND)
 *                       protects some time after its call has returned. Not collective
 * shmemx_ft_flush       waits until the last checkpoint protects; FAILURE if a PE was lost before
 *                       that, which the next shmem_checkpoint_all reports. Not collective
 * shmemx_ft_need_checkpoint
 *                       collective: 1 if the next shmem_checkpoint_all will save or report a loss,
 *                       0 if SHMEM_FT_INTERVAL makes it do neither
 * shmemx_ft_should_stop
 *                       collective: 1 if the job was asked to stop and will end with the next
 *                       checkpoint (SHMEM_FT_STORE)
 * shmemx_ft_survives    1 if the job, as its PEs are placed now, survives the loss of one PE, node
 *                       or failure domain; 0 if it would end (always before the first checkpoint);
 *                       -1 if there is no such PE, node or domain. Not collective
 * shmemx_ft_last_error  the reason why the last checkpoint was refused, in one line, or NULL; valid
 *                       until the thread asks again. A program that answers a refusal with
 *                       shmem_restart_pes continues without a new checkpoint: further refusals are
 *                       not failures
 *
 * With SHMEM_FT_ROLLBACK=none no PE rolls back, and the living PEs continue without the lost ones:
 * they complete barriers and collectives, writes to a lost PE do nothing, reads return zeroes.
 *
 * shmemx_ft_get         shmem_getmem that reports whether the bytes are valid; likewise the typed
 *                       and strided forms
 * shmemx_ft_failed      the lost members of a team, in memory from malloc
 * shmemx_ft_get_checkpoint  bytes of a PE as of its last checkpoint, decoded from parity if the PE
 *                       is lost, and the number of that checkpoint
 * shmemx_ft_put2        shmem_putmem to a PE and then to its shadow, complete on each: at any time
 *                       one of the two copies is whole, whichever PE dies. The two PEs are on
 *                       different nodes, as long as PEs live on several
 * shmemx_ft_shadow      the member of a team that suits best as the shadow of member pe: on another
 *                       node if possible; -1 if the team has no other member
 * shmemx_ft_agree       collective among the living: the bits that are set on all of them, with
 *                       equal results; FAILURE until all have acknowledged every loss
 *                       (shmem_restart_pes)
 * shmemx_ft_shrink      collective among the living: a team of them
 * shmemx_ft_on_fault    calls f with each lost PE and its status, in the thread that asked for it,
 *                       from within a later call that concerns other PEs; f makes only local calls
 * shmemx_ft_faulted     1 from a loss until the restart that acknowledges it
 *
 * A checkpoint on disk (SHMEM_FT_STORE) can be read by a program with any number of PEs, which
 * distributes its arrays anew. These calls are local: each PE reads for itself.
 *
 * shmemx_ft_set_open    opens set 7 of a folder (`DIR@7`), or the newest whose files are there or
 *                       can be decoded (`DIR`); its number for the calls below, or -1. With
 *                       SHMEM_FT_STORE_LAYOUT=local the folders of all nodes are in DIR
 * shmemx_ft_set_list    the name of object `index`, valid until the set is closed, the number of
 *                       PEs that have it, and its bytes on PE 0; FAILURE behind the last
 * shmemx_ft_set_read    copies bytes of an object of a PE, with bytes verified, and decoded from
 *                       parity if they are damaged or missing. FAILURE if that is impossible, or
 *                       there is no such object, PE or byte: dest is then undefined.
 *                       Names: static:NAME is a variable, heap:NAME the block that the static
 *                       pointer NAME points to (heap:NAME[1] in an array of pointers), heap:3 the
 *                       fourth block by address, private:NAME memory of shmemx_ft_protect. NAME
 *                       alone is the first found of private, heap and static
 * shmemx_ft_set_close   closes a set
 * shmemx_ft_set_error   the reason of the last failure of these calls in this thread, in one line,
 *                       or NULL; valid until its next failure
 */
/* Kinds of loss for shmemx_ft_survives. Kinds above the node are those of SHMEM_FT_DOMAINS, from
   SHMEMX_FT_DOMAIN on, in the order of the file; domains are numbered as they first appear. */
#define SHMEMX_FT_PE 0
#define SHMEMX_FT_NODE 1
#define SHMEMX_FT_DOMAIN 2

typedef void (*shmemx_ft_handler_t)(int pe, int status, void *arg);
"#;

fn shmem_ft_h() -> String {
    let mut text = opening("checkpoints and restarts", "SHMEM_FT_H");
    text.push_str(FT_NOTES);
    text.push_str(BEGIN_C);
    sections(&mut text, true, "");
    text.push_str(END_C);
    text + "\n#endif\n"
}

fn pshmem_h() -> String {
    let mut text = opening("profiling versions of all functions", "PSHMEM_H");
    text.push_str("#include \"shmem.h\"\n#include \"shmem_ft.h\"\n");
    text.push_str("/* A tool defines it. */\n#undef shmem_checkpoint_all\n");
    text.push_str(BEGIN_C);
    sections(&mut text, false, "p");
    sections(&mut text, true, "p");
    text.push_str(END_C);
    text + "\n#endif\n"
}
