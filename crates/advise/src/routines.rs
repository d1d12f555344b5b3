//! The effects of each OpenSHMEM routine on memory, derived from its signature in the headers.
//!
//! A signature specifies how the memory of each argument is used: `In` is read and `Out` written on
//! the calling PE, `SymIn` read and `Sym` written on any PE. Properties that signatures do not
//! express are added here by name: routines that synchronise (Bari et al., Table I), only wait, or
//! allocate.
//!
//! Invariant: in doubt an argument is read and written, by any PE. Left out: sizes; values of
//! arguments.

/// The use of the memory that an argument points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// True if the calling PE reads its own memory.
    pub reads: bool,
    /// True if the calling PE writes its own memory.
    pub writes: bool,
    /// True if the memory of any PE may be read.
    pub reads_remote: bool,
    /// True if the memory of any PE may be written.
    pub writes_remote: bool,
    /// True if the library keeps the address: checkpoints hold this memory from then on.
    pub kept: bool,
}

/// The synchronisation that a routine performs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Nothing that makes a safe point.
    #[default]
    None,
    /// All PEs, and the transfers of the default context: a safe point (Table I).
    Global,
    /// Like [`Sync::Global`], if it succeeds: the symmetric allocations of Table I.
    GlobalIfDone,
    /// All PEs, but no transfers: a safe point if every PE was quiet before (Table I).
    Processes,
    /// The PEs of a team, which may be the world.
    Team,
    /// The transfers of this PE, or of one context if it has that argument.
    Quiet,
    /// A checkpoint, which completes the transfers of every context.
    Checkpoint,
    /// The return to the last checkpoint.
    Restart,
}

/// The result of a routine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gives {
    /// Nothing that points anywhere.
    #[default]
    Nothing,
    /// Contents of the memory that it read.
    Contents,
    /// New symmetric memory.
    Symmetric,
    /// New symmetric memory with the contents of the argument, or the argument itself.
    Moved,
    /// The argument, as memory of another PE.
    Alias,
}

/// The effects of a routine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routine {
    /// By argument.
    pub args: Vec<Access>,
    /// Its synchronisation.
    pub sync: Sync,
    /// Its result.
    pub gives: Gives,
    /// True if its first argument is a context, which carries its transfers.
    pub on_context: bool,
    /// True if its transfers may continue after it returns, until a quiet.
    pub nonblocking: bool,
}

const ALLOCATES: &[&str] = &[
    "shmem_malloc",
    "shmem_malloc_with_hints",
    "shmem_calloc",
    "shmem_align",
    "shmalloc",
    "shmemalign",
];
const REALLOCATES: &[&str] = &["shmem_realloc", "shrealloc"];
const FREES: &[&str] = &["shmem_free", "shfree"];
const GLOBAL: &[&str] = &[
    "shmem_barrier_all",
    "shmem_init",
    "shmem_init_thread",
    "start_pes",
    "shmem_finalize",
    "shmem_free",
    "shfree",
];
/// Routines that take an address and do not access it.
const TOUCH_NOTHING: &[&str] = &[
    "shmem_addr_accessible",
    "shmem_ptr",
    "shmemx_ft_include",
    "shmemx_ft_exclude",
    "shmemx_ft_readonly",
    "shmemx_ft_writable",
];
const KEEP: &[&str] = &["shmemx_ft_protect", "shmemx_ft_register"];

/// Returns the routine of a symbol or its profiling twin, from its arguments: a name and a type
/// such as `Sym<T>` each. `on_context`: a context precedes these.
pub fn routine(symbol: &str, args: &[(&str, &str)], on_context: bool) -> Routine {
    let symbol = plain(symbol);
    let context = on_context.then(Access::default);
    let own = args.iter().map(|(name, of)| access(symbol, name, of, args));
    let first_is_context = args.first().is_some_and(|arg| arg.1 == "Ctx");
    let args: Vec<Access> = context.into_iter().chain(own).collect();
    Routine {
        sync: sync(symbol),
        gives: gives(symbol, &args),
        on_context: on_context || first_is_context,
        nonblocking: symbol.ends_with("_nbi"),
        args,
    }
}

/// Returns the symbol without the `p` of its profiling twin.
pub fn plain(symbol: &str) -> &str {
    let twin = symbol.strip_prefix('p').filter(|rest| rest.starts_with("sh"));
    twin.or(symbol.strip_prefix('p').filter(|rest| *rest == "start_pes")).unwrap_or(symbol)
}

fn access(symbol: &str, name: &str, of: &str, args: &[(&str, &str)]) -> Access {
    let claim = of.split('<').next().unwrap_or_default().trim();
    let own = |reads, writes| Access { reads, writes, ..Access::default() };
    if KEEP.contains(&symbol) && claim == "Out" {
        return Access { kept: true, ..own(true, true) };
    }
    if FREES.contains(&symbol) || TOUCH_NOTHING.contains(&symbol) {
        return Access::default();
    }
    match claim {
        "In" => own(true, false),
        // The list of a restart comes from a query.
        "Out" if symbol == "shmem_restart_pes" => own(true, false),
        // A drawn event is kept, or replaced by an earlier one.
        "Out" if symbol == "shmemx_ft_event" => own(true, true),
        "Out" => own(false, true),
        "SymIn" => Access { reads: true, reads_remote: true, ..Access::default() },
        "Sym" if waits(symbol) && !name.starts_with("pSync") => own(true, false),
        "Sym" if name == "dest" && only_writes(symbol, args) => {
            Access { writes: true, writes_remote: true, ..Access::default() }
        }
        "Sym" => Access { reads_remote: true, writes_remote: true, ..own(true, true) },
        _ => Access::default(),
    }
}

/// Returns true if the routine reads its own words until peers have written them.
fn waits(symbol: &str) -> bool {
    symbol.contains("_wait_until")
        || symbol.ends_with("_wait")
        || symbol.contains("_test_all")
        || symbol.contains("_test_any")
        || symbol.contains("_test_some")
        || symbol.ends_with("_test")
}

/// Returns true if the destination's previous contents do not affect the new ones.
fn only_writes(symbol: &str, args: &[(&str, &str)]) -> bool {
    let copies = args.iter().any(|(name, _)| *name == "source");
    let sets = symbol.ends_with("_p") || symbol.ends_with("_set");
    copies || sets
}

fn sync(symbol: &str) -> Sync {
    match symbol {
        "shmem_checkpoint_all" => Sync::Checkpoint,
        "shmem_restart_pes" => Sync::Restart,
        "shmem_quiet" | "shmem_ctx_quiet" | "shmem_ctx_destroy" => Sync::Quiet,
        "shmem_sync_all" => Sync::Processes,
        "shmem_team_sync" => Sync::Team,
        _ if GLOBAL.contains(&symbol) => Sync::Global,
        _ if ALLOCATES.contains(&symbol) || REALLOCATES.contains(&symbol) => Sync::GlobalIfDone,
        _ => Sync::None,
    }
}

fn gives(symbol: &str, args: &[Access]) -> Gives {
    match symbol {
        "shmem_ptr" => Gives::Alias,
        _ if ALLOCATES.contains(&symbol) => Gives::Symmetric,
        _ if REALLOCATES.contains(&symbol) => Gives::Moved,
        _ if args.iter().any(|access| access.reads_remote) => Gives::Contents,
        _ => Gives::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Access = Access {
        reads: true,
        writes: false,
        reads_remote: false,
        writes_remote: false,
        kept: false,
    };

    #[test]
    fn a_put_does_not_read_what_it_overwrites_and_an_addition_does() {
        let put = [("dest", "Sym<T>"), ("source", "In<T>"), ("nelems", "usize"), ("pe", "c_int")];
        let put = routine("shmem_ctx_int_put_nbi", &put, true);
        assert_eq!((put.args.len(), put.on_context, put.nonblocking), (5, true, true));
        assert_eq!(put.args[2], READS);
        assert!(put.args[1].writes_remote && !put.args[1].reads_remote && !put.args[1].reads);
        let add = [("dest", "Sym<T>"), ("value", "T"), ("pe", "c_int")];
        let add = routine("shmem_int_atomic_add", &add, false);
        assert!(add.args[0].reads_remote && add.args[0].writes_remote);
        let set = [("dest", "Sym<T>"), ("value", "T"), ("pe", "c_int")];
        assert!(!routine("shmem_int_atomic_set", &set, false).args[0].reads_remote);
    }

    #[test]
    fn safe_points_are_those_of_table_1() {
        for name in GLOBAL {
            assert_eq!(routine(name, &[], false).sync, Sync::Global, "{name}");
            assert_eq!(routine(&format!("p{name}"), &[], false).sync, Sync::Global, "p{name}");
        }
        assert_eq!(routine("shmem_malloc", &[], false).sync, Sync::GlobalIfDone);
        assert_eq!(routine("shmem_sync_all", &[], false).sync, Sync::Processes);
        // An active set may exclude PEs.
        assert_eq!(routine("shmem_barrier", &[], false).sync, Sync::None);
    }

    #[test]
    fn to_free_is_no_use_and_to_wait_reads_the_own_word_alone() {
        let free = routine("shmem_free", &[("ptr", "Sym<u8>")], false);
        assert_eq!(free.args, [Access::default()]);
        let wait = [("ivar", "Sym<T>"), ("cmp", "c_int"), ("cmp_value", "T")];
        assert_eq!(routine("shmem_int_wait_until", &wait, false).args[0], READS);
    }
}
