//! The table of what each OpenSHMEM routine logs, and of what its replay does.
//!
//! A routine has the name of its family in the tables of the C interface: the parts before and
//! after the name of the type. A family without a rule does not compile (`capi/family.rs`).
//! [`Rule::Global`] is a rule, too: a loss causes a global rollback if the routine was called since
//! the last checkpoint.

/// The data that a routine logs, and its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nothing is logged: the routine depends on no other PE, and is executed again.
    Local,
    /// Bytes for a PE: an entry in its chain, repeated if begun.
    Bytes,
    /// A word for a PE, which may wait for it: an entry that happens once.
    Word,
    /// Bytes and then a signal: two entries.
    BytesAndSignal,
    /// An atomic operation: happens once, and its result comes from the log.
    Atomic,
    /// Bytes of a PE: an event that holds them; they are not read again.
    Get,
    /// A wait: an event that holds the time of its end.
    Wait,
    /// A choice or a test: an event that holds the result and the time at which it was observed.
    Answer,
    /// A lock: the atomic operations and waits of its queue.
    Lock,
    /// A value that the program draws by itself: an event that holds it.
    Event,
    /// Order of operations: nothing is logged. Operations that were only logged delay the release.
    Order,
    /// A meeting: the time of each member.
    Meeting,
    /// A collective that moves data: a meeting, and the contribution of each member.
    Movement,
    /// A reduction or a scan: a meeting, the contributions, and the result.
    Reduction,
    /// The symmetric heap: a meeting and the arguments; executed, and the offset compared.
    Heap,
    /// Handles: the arguments; executed, and the handle compared.
    Handle,
    /// The beginning or the end of a checkpoint interval, or of the job.
    Interval,
    /// No rule: a loss in the same interval causes a global rollback.
    Global,
}

macro_rules! rules {
    ($($rule:ident: $($pre:literal $post:literal)*;)*) => {
        /// The table: the parts of the name before and after the type, and the rule.
        pub const RULES: &[(&str, &str, Rule)] = &[$($(($pre, $post, Rule::$rule),)*)*];
    };
}

rules! {
    Local:
        "shmem_my_pe" "" "shmem_n_pes" "" "_my_pe" "" "_num_pes" "" "shmem_pe_accessible" ""
        "shmem_addr_accessible" "" "shmem_info_get_version" "" "shmem_info_get_name" ""
        "shmem_query_thread" "" "shmem_query_initialized" "" "shmem_pcontrol" ""
        "shmem_team_my_pe" "" "shmem_team_n_pes" "" "shmem_team_get_config" ""
        "shmem_team_translate_pe" "" "shmem_ctx_get_team" ""
        "shmemx_ft_place" "" "shmem_ptr" "" "shmem_team_ptr" ""
        "shmem_clear_cache_inv" "" "shmem_clear_cache_line_inv" "" "shmem_set_cache_inv" ""
        "shmem_set_cache_line_inv" "" "shmem_udcflush" "" "shmem_udcflush_line" "";
    Bytes:
        "shmem_" "_put" "shmem_put" "" "shmem_" "_put_nbi" "shmem_put" "_nbi"
        "shmem_" "_iput" "shmem_iput" "" "shmem_" "_ibput" "shmem_ibput" "";
    Word: "shmem_" "_p";
    BytesAndSignal:
        "shmem_" "_put_signal" "shmem_put" "_signal"
        "shmem_" "_put_signal_nbi" "shmem_put" "_signal_nbi";
    Atomic:
        "shmem_" "_atomic_fetch" "shmem_" "_atomic_set" "shmem_" "_atomic_swap"
        "shmem_" "_atomic_compare_swap" "shmem_" "_atomic_inc" "shmem_" "_atomic_fetch_inc"
        "shmem_" "_atomic_add" "shmem_" "_atomic_fetch_add"
        "shmem_" "_atomic_and" "shmem_" "_atomic_fetch_and"
        "shmem_" "_atomic_or" "shmem_" "_atomic_fetch_or"
        "shmem_" "_atomic_xor" "shmem_" "_atomic_fetch_xor"
        "shmem_" "_atomic_fetch_nbi" "shmem_" "_atomic_swap_nbi"
        "shmem_" "_atomic_compare_swap_nbi" "shmem_" "_atomic_fetch_inc_nbi"
        "shmem_" "_atomic_fetch_add_nbi" "shmem_" "_atomic_fetch_and_nbi"
        "shmem_" "_atomic_fetch_or_nbi" "shmem_" "_atomic_fetch_xor_nbi"
        "shmem_" "_fetch" "shmem_" "_set" "shmem_" "_swap" "shmem_" "_cswap"
        "shmem_" "_inc" "shmem_" "_finc" "shmem_" "_add" "shmem_" "_fadd"
        "shmem_signal_add" "" "shmem_signal_set" "";
    Get:
        "shmem_" "_get" "shmem_get" "" "shmem_" "_g" "shmem_" "_get_nbi" "shmem_get" "_nbi"
        "shmem_" "_iget" "shmem_iget" "" "shmem_" "_ibget" "shmem_ibget" ""
        "shmemx_ft_get" "" "shmemx_ft_" "_get" "shmemx_ft_" "_iget";
    Wait:
        "shmem_" "_wait_until" "shmem_" "_wait_until_all" "shmem_" "_wait_until_all_vector"
        "shmem_" "_wait" "shmem_wait" "" "shmem_wait_until" "";
    Answer:
        "shmem_" "_wait_until_any" "shmem_" "_wait_until_any_vector"
        "shmem_" "_wait_until_some" "shmem_" "_wait_until_some_vector"
        "shmem_" "_test" "shmem_" "_test_all" "shmem_" "_test_all_vector"
        "shmem_" "_test_any" "shmem_" "_test_any_vector"
        "shmem_" "_test_some" "shmem_" "_test_some_vector"
        "shmem_signal_wait_until" "" "shmem_signal_fetch" "";
    Lock: "shmem_set_lock" "" "shmem_clear_lock" "" "shmem_test_lock" "";
    Event: "shmemx_ft_event" "";
    Order:
        "shmem_fence" "" "shmem_quiet" "" "shmem_pe_quiet" ""
        "shmem_ctx_fence" "" "shmem_ctx_quiet" "" "shmem_ctx_pe_quiet" "";
    Meeting:
        "shmem_barrier_all" "" "shmem_sync_all" "" "shmem_barrier" "" "shmem_sync" ""
        "shmem_team_sync" "";
    Movement:
        "shmem_" "_broadcast" "shmem_broadcastmem" "" "shmem_" "_collect" "shmem_collectmem" ""
        "shmem_" "_fcollect" "shmem_fcollectmem" "" "shmem_" "_alltoall" "shmem_alltoallmem" ""
        "shmem_" "_alltoalls" "shmem_alltoallsmem" ""
        "shmem_broadcast" "" "shmem_collect" "" "shmem_fcollect" "" "shmem_alltoall" ""
        "shmem_alltoalls" "";
    Reduction:
        "shmem_" "_and_reduce" "shmem_" "_or_reduce" "shmem_" "_xor_reduce"
        "shmem_" "_max_reduce" "shmem_" "_min_reduce" "shmem_" "_sum_reduce"
        "shmem_" "_prod_reduce" "shmem_" "_and_to_all" "shmem_" "_or_to_all"
        "shmem_" "_xor_to_all" "shmem_" "_max_to_all" "shmem_" "_min_to_all"
        "shmem_" "_sum_to_all" "shmem_" "_prod_to_all"
        "shmem_" "_sum_exscan" "shmem_" "_sum_inscan";
    Heap:
        "shmem_malloc" "" "shmem_calloc" "" "shmem_align" "" "shmem_malloc_with_hints" ""
        "shmem_realloc" "" "shmem_free" "" "shmalloc" "" "shmemalign" "" "shrealloc" ""
        "shfree" "";
    Handle:
        "shmem_ctx_create" "" "shmem_ctx_destroy" "" "shmem_team_create_ctx" ""
        "shmem_ctx_session_start" "" "shmem_ctx_session_stop" ""
        "shmem_team_split_strided" "" "shmem_team_split_2d" "" "shmem_team_destroy" "";
    Interval:
        "shmem_init" "" "shmem_init_thread" "" "start_pes" "" "shmem_finalize" ""
        "shmem_global_exit" "" "shmem_checkpoint_all" "" "shmem_query_fault" ""
        "shmem_restart_pes" "" "shmem_ft_algo_init" "";
    Global:
        "shmemx_ft_agree" "" "shmemx_ft_shrink" "" "shmemx_ft_failed" "" "shmemx_ft_on_fault" ""
        "shmemx_ft_put2" "" "shmemx_ft_get_checkpoint" "" "shmemx_ft_shadow" ""
        "shmemx_ft_faulted" "" "shmemx_ft_protected" "" "shmemx_ft_flush" ""
        "shmemx_ft_last_error" "" "shmemx_ft_checkpoint_number" ""
        "shmemx_ft_need_checkpoint" "" "shmemx_ft_should_stop" "" "shmemx_ft_survives" ""
        "shmemx_ft_set_open" "" "shmemx_ft_set_list" "" "shmemx_ft_set_read" ""
        "shmemx_ft_set_close" "" "shmemx_ft_set_error" "" "shmemx_ft_protect" ""
        "shmemx_ft_register" "" "shmemx_ft_exclude" "" "shmemx_ft_include" ""
        "shmemx_ft_readonly" "" "shmemx_ft_writable" "";
}

/// Returns the rule of a family of routines, which is also that of its context form; None if the
/// table has no row for it. Called in a `const`.
pub const fn rule(pre: &str, post: &str) -> Option<Rule> {
    let mut row = 0;
    while row < RULES.len() {
        let (own_pre, own_post, rule) = RULES[row];
        if same(own_post, post) && (same(own_pre, pre) || is_context_form(own_pre, pre)) {
            return Some(rule);
        }
        row += 1;
    }
    None
}

/// True if `pre` is the context form of `plain`, as with `shmem_put` and `shmem_ctx_put`.
const fn is_context_form(plain: &str, pre: &str) -> bool {
    starts(pre, "shmem_ctx_")
        && starts(plain, "shmem_")
        && same_from(plain.as_bytes(), "shmem_".len(), pre.as_bytes(), "shmem_ctx_".len())
}

const fn same(one: &str, two: &str) -> bool {
    same_from(one.as_bytes(), 0, two.as_bytes(), 0)
}

/// Compares lengths first: the compiler evaluates this for thousands of symbols.
const fn same_from(one: &[u8], one_from: usize, two: &[u8], two_from: usize) -> bool {
    if one.len() + two_from != two.len() + one_from {
        return false;
    }
    let mut at = one_from;
    while at < one.len() && one[at] == two[at + two_from - one_from] {
        at += 1;
    }
    at == one.len()
}

/// True if calls of the family are logged, or depend on no other PE: after any other call, a loss
/// causes a global rollback. If a family is logged only for the team of all PEs, the call itself
/// checks.
pub const fn is_covered(pre: &str, post: &str) -> bool {
    let Some(rule) = rule(pre, post) else { return false };
    match rule {
        Rule::Local | Rule::Bytes | Rule::Word | Rule::Order | Rule::Heap | Rule::Interval => true,
        Rule::Meeting | Rule::Movement | Rule::Reduction => true,
        Rule::BytesAndSignal | Rule::Atomic | Rule::Lock | Rule::Event => true,
        Rule::Wait | Rule::Answer => true,
        Rule::Get => !starts(pre, "shmemx_"),
        // Repeating the call creates the same handle.
        Rule::Handle => true,
        Rule::Global => starts(pre, "shmemx_") && !is_collective(pre),
    }
}

/// True for extension calls in which PEs cooperate or access each other.
const fn is_collective(pre: &str) -> bool {
    same(pre, "shmemx_ft_agree")
        || same(pre, "shmemx_ft_shrink")
        || same(pre, "shmemx_ft_put2")
        || same(pre, "shmemx_ft_get_checkpoint")
        || same(pre, "shmemx_ft_failed")
        || same(pre, "shmemx_ft_on_fault")
        || same(pre, "shmemx_ft_should_stop")
        || same(pre, "shmemx_ft_readonly")
        || same(pre, "shmemx_ft_writable")
}

const fn starts(text: &str, with: &str) -> bool {
    let (text, with) = (text.as_bytes(), with.as_bytes());
    let mut at = 0;
    while at < with.len() && at < text.len() && text[at] == with[at] {
        at += 1;
    }
    at == with.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_family_has_two_rules() {
        for (at, (pre, post, rule)) in RULES.iter().enumerate() {
            assert_eq!(self::rule(pre, post), Some(*rule), "{pre}..{post} has a row before {at}");
            let others = RULES.iter().filter(|(a, b, _)| (a, b) == (pre, post)).count();
            assert_eq!(others, 1, "{pre}..{post}");
        }
    }

    #[test]
    fn logged_routines_are_listed() {
        let covered = [
            ("shmem_", "_put"),
            ("shmem_ctx_", "_put"),
            ("shmem_ctx_put", "_signal"),
            ("shmem_", "_atomic_add"),
            ("shmem_ctx_", "_atomic_swap_nbi"),
            ("shmem_barrier_all", ""),
            ("shmem_", "_wait_until_any"),
            ("shmem_", "_test"),
            ("shmem_set_lock", ""),
            ("shmem_team_create_ctx", ""),
            ("shmem_team_split_2d", ""),
            ("shmem_ptr", ""),
        ];
        covered.iter().for_each(|(pre, post)| assert!(is_covered(pre, post), "{pre}..{post}"));
        let others =
            [("shmemx_ft_", "_get"), ("shmemx_ft_put2", ""), ("shmemx_ft_get_checkpoint", "")];
        others.iter().for_each(|(pre, post)| assert!(!is_covered(pre, post), "{pre}..{post}"));
    }

    #[test]
    fn a_routine_outside_the_table_has_no_rule() {
        assert_eq!(rule("shmem_", "_put"), Some(Rule::Bytes));
        assert_eq!(rule("shmem_ptr", ""), Some(Rule::Local));
        for (pre, post) in [("shmem_", ""), ("shmem_", "_putt"), ("", ""), ("shmem_pt", "")] {
            assert_eq!(rule(pre, post), None);
        }
    }
}
