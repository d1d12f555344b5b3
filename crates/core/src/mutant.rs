//! Rules that tests can break, one at a time, to see that a test notices: in a build with the
//! feature `mutants`, by `RAIDSHMEM_MUTANT=NAME`. `.ci/mutants` does it for all of them.
//!
//! Without the feature [`breaks`] is false, what asks is compiled away, and nothing knows the
//! variable. The driver of the protocol asks its port, so that the model checker and the simulator
//! break its rules in any build.
//!
//! Each rule is asked for at the one place where it lives, and has beside its name the tier and the
//! test that notices. The first table of docs/guarantees.md says which promise a rule stands for;
//! tests/tidy holds the two together.

/// The rules, each with its name, and the tier and the test that notice when it is broken. One line
/// a rule: `.ci/mutants` reads them.
macro_rules! rules {
    ($($(#[$what:meta])* $rule:ident = $name:literal, $tier:ident, $test:literal;)*) => {
        /// A rule that can be broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$what])* $rule,)*
        }

        /// Their names.
        #[cfg(feature = "mutants")]
        const ALL: &[(&str, Mutant)] = &[$(($name, Mutant::$rule),)*];
    };
}

rules! {
    // The protocol.
    /// A decision is acted on without having been written.
    DecisionNotWritten = "decision-not-written", simulator, "at_most_the_parity";
    /// The program goes on while peers still copy.
    NoBarrierB = "no-barrier-b", explorer, "protocol::explore::deaths_anywhere";
    /// A PE copies before all have encoded.
    NoBarrierA = "no-barrier-a", explorer, "protocol::explore::deaths_anywhere";
    /// Forward as soon as one survivor has encoded.
    ForwardTooEarly = "forward-too-early", explorer, "protocol::explore::deaths_anywhere";
    /// The new parity overwrites the agreed one.
    SlotReused = "slot-reused", explorer, "protocol::explore::deaths_anywhere";
    /// The new one of two snapshots overwrites the agreed one.
    SnapshotReused = "snapshot-reused", simulator, "at_most_the_parity";
    /// What was pulled is believed without a look at the view.
    ViewNotChecked = "view-not-checked", explorer, "protocol::explore::deaths_anywhere";
    /// Lost parity is not made anew.
    ParityNotMadeAnew = "parity-not-made-anew", simulator, "at_most_the_parity";
    /// A checkpoint is decoded by the newest groups, whichever it was encoded with.
    NewestGroupsTaken = "newest-groups-taken", unit, "each_checkpoint_has_its_own_groups";
    /// Parity groups stay those of the start, wherever PEs have gone.
    GroupsKept = "groups-kept", unit, "groups_chosen_anew_survive_more";
    /// The plan counts one parity more than there is.
    PlanTooHopeful = "plan-too-hopeful", unit, "the_parity_is_the_boundary_for_every_pattern";
    /// What a substitute takes over has no say in a decision.
    DeadUnheard = "dead-unheard", unit, "a_phase_is_believed_by_what_the_records_hold";
    /// Every call of the checkpoint meets, wherever it is made.
    EveryCallMeets = "every-call-meets", unit, "a_substitute_that_learned_elsewhere_is_behind";
    /// The first checkpoint call of a substitute is taken for the one that was made, without proof.
    OrderBelieved = "order-believed", unit, "order_alone_proves_no_place";
    /// A tile that does not hold in a recovery is not reported.
    CorruptUnheard = "corrupt-unheard", simulator, "at_most_the_parity";
    /// Words that another incarnation told are taken for this one's.
    StaleWordsTaken = "stale-words-taken", unit, "words_of_another_incarnation_are_refused";
    /// A PE in `shmem_finalize` goes back to the checkpoint as all do, though its program does not.
    EndGoesBack = "end-goes-back", explorer, "protocol::explore::deaths_anywhere";
    /// Parity that was lost is made anew, of what PEs in `shmem_finalize` have computed since.
    ParityOfTheEnd = "parity-of-the-end", explorer, "protocol::explore::deaths_anywhere";
    /// The waker does not fence between its store and its look for sleepers.
    WakeWithoutFence = "wake-without-fence", unit, "a_sleeper_is_seen_or_sees";

    // The store.
    /// A stamp holds whatever the tile is.
    StampBelieved = "stamp-believed", unit, "a_stamp_refuses_every_flipped_bit";
    /// A stamp does not cover the number of its checkpoint.
    NumberNotSealed = "number-not-sealed", unit, "a_stamp_of_another_checkpoint_job_or_pe";
    /// A record of the header holds whatever its seal is.
    SealBelieved = "seal-believed", unit, "one_flipped_bit_costs_nothing_and_one_in_each";
    /// A tile that changed with the checkpoint before is left as it was two before.
    KeptThoughChanged = "kept-though-changed", unit, "a_slot_never_keeps_what_is_not_so_any_more";
    /// A PE that does not know all that it wrote is treated as if it did.
    DoubtsIgnored = "doubts-ignored", unit, "any_doubt_ends_it";
    /// What no old checksum proves is put back.
    UnprovenPutBack = "unproven-put-back", processes, "nothing_is_put_back_that_no_old_checksum";
    /// Several threads leave an item of their work out.
    ItemLeftOut = "item-left-out", unit, "every_item_is_worked_on_once_whoever_does_it";
    /// Lengths that a manifest names are believed.
    LengthsBelieved = "lengths-believed", unit, "garbage_is_refused_and_never_panics";

    // What a checkpoint covers, and whether there is room for it.
    /// Static variables are not covered.
    StaticsLeftOut = "statics-left-out", unit, "a_manifest_reads_back_and_begins_its_own_line";
    /// Private memory is found by the order of its registration.
    PrivateByOrder = "private-by-order", unit, "regions_fit_by_name_whatever_their_order";
    /// A checkpoint leaves out what a plan says of any place.
    PlaceIgnored = "place-ignored", unit, "what_is_dead_at_the_place_is_left_out_and_nothing_else";
    /// What was excluded stays so when it is freed.
    ExclusionOutlives = "exclusion-outlives", processes, "what_is_said_of_memory_ends_with_it";
    /// A process that begins writes to read-only memory that it takes over.
    ReadonlyOverwritten = "readonly-overwritten", processes, "readonly::a_loss_in_any_step";
    /// Memory that was read-only is written without a copy.
    NoCopyBeforeWrites = "no-copy-before-writes", processes, "readonly::a_loss_in_any_step";
    /// Memory is counted for the job, not for each machine.
    MemoryOfTheJob = "memory-of-the-job", unit, "memory_is_counted_for_each_machine";
    /// A program that does not ask why a checkpoint was refused is refused for ever.
    RefusedForEver = "refused-for-ever", unit, "the_loop_of_the_thesis_ends";

    // The launcher: who is dead, and what follows.
    /// A substitute is chosen, and memory wiped, before all nodes show the death.
    WipedTooEarly = "wiped-too-early", unit, "a_lost_node_is_wiped_and_replaced_only_after";
    /// The memory of a lost node is not wiped.
    NotWiped = "not-wiped", unit, "a_lost_node_is_wiped_and_replaced_only_after";
    /// A node is declared lost before its lease is over.
    DeclaredTooEarly = "declared-too-early", unit, "after_a_partition_the_launcher_s_side_goes_on";
    /// A node whose lease is over goes on.
    LeaseWithoutEnd = "lease-without-end", unit, "after_a_partition_the_launcher_s_side_goes_on";
    /// A node renews the lease of another for longer than its own lasts.
    LeaseOutlivesParent = "lease-outlives-parent", unit, "after_a_partition_the_launcher_s_side";
    /// What a third node hears of two that accuse each other does not count.
    AccuserBelieved = "accuser-believed", unit, "what_a_third_node_hears_says_which_of_two";
    /// Deaths without progress are not counted.
    CrashNotCounted = "crash-not-counted", unit, "lives_that_only_repeat_a_checkpoint_are_no";
    /// A PE that is stopped is taken for dead.
    StoppedIsDead = "stopped-is-dead", processes, "a_pe_that_is_stopped_is_said_to_be";
    /// A PE that is ending is said to have closed its connection.
    BlamedTooSoon = "blamed-too-soon", processes, "a_pe_that_takes_long_to_end_is_not_blamed";
    /// The loop that renews leases waits for a node to end.
    LoopWaits = "loop-waits", processes, "a_node_that_takes_long_to_end_takes_no_other";
    /// Waits that last are not told of.
    StallUnsaid = "stall-unsaid", unit, "a_stall_is_said_once_and_a_short_wait_never";
    /// A wait is said to last for ever though somebody can still move.
    VerdictTooEarly = "verdict-too-early", unit, "every_combination_has_its_line_or_its_end";
    /// A peer that does not know the job's secret is heard.
    SecretUnchecked = "secret-unchecked", unit, "another_secret_and_garbage_are_refused";
    /// A heartbeat that was recorded is heard again.
    ReplayHeard = "replay-heard", unit, "a_heartbeat_is_believed_once_by_whom_it_is_for";

    // Where PEs are, and how they end.
    /// PEs run on processors outside the mask that they were given.
    MaskIgnored = "mask-ignored", unit, "a_mask_with_holes_is_respected";
    /// Groups are made without a look at failure domains.
    DomainsIgnored = "domains-ignored", unit, "every_shape_of_small_jobs";
    /// A job is taken to survive one more loss in a group than it does.
    MovesUncounted = "moves-uncounted", unit, "a_pe_that_moved_to_a_node_of_its_group";
    /// A thread of a substitute gets all of the PE's processors.
    ThreadPlaceIgnored = "thread-place-ignored", unit, "the_picture_above";
    /// PEs are not told of an end of the job before its time, and write nothing out.
    OutputCutOff = "output-cut-off", processes, "a_misuse_loses_no_output_of_other_pes";
    /// A PE that returns from `main` without `shmem_finalize` does not leave the job.
    NoFinalizeAtExit = "no-finalize-at-exit", processes, "an_end_with_status_0_is_a_good_one";
    /// A job ends with 0 whatever its programs end with.
    StatusLost = "status-lost", unit, "a_job_ends_when_all_have_finalized_with_the_first";
    /// A script round a program is ended with it.
    ScriptEnded = "script-ended", processes, "a_script_goes_on_after_a_program_that_ended_well";

    // Between PEs.
    /// The operands of a reduction are combined one after the other, not in the tree.
    OrderOfThePes = "order-of-the-pes", unit, "a_stack_combines_in_the_tree";
    /// What a dead incarnation sent is accepted.
    StaleAccepted = "stale-accepted", unit, "an_answer_of_the_dead_is_not_taken_for_one";
    /// A decision is taken before all hold it.
    DoneUnlocked = "done-unlocked", explorer, "agree::explore::one_value_for_all";
    /// What was locked in a view does not bind in the next.
    LockForgotten = "lock-forgotten", explorer, "agree::explore::one_value_for_all";
    /// A team has the place of another's records while a member still has to read them.
    PlaceTakenEarly = "place-taken-early", explorer, "agree::explore::one_value_for_all";
    /// A PE posts up the tree without those below it.
    ChildrenNotAwaited = "children-not-awaited", explorer, "tree::explore::nobody_goes_on";
    /// Words of two posts are taken for one.
    TornPostTaken = "torn-post-taken", unit, "words_of_two_posts_are_none";
}

/// True if this process is to break the rule.
#[inline]
pub fn breaks(rule: Mutant) -> bool {
    chosen() == Some(rule)
}

/// The rule that is broken in this process.
#[cfg(not(feature = "mutants"))]
#[inline]
pub fn chosen() -> Option<Mutant> {
    None
}

/// The rule that is broken in this process.
#[cfg(feature = "mutants")]
pub fn chosen() -> Option<Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("RAIDSHMEM_MUTANT").ok()?;
        let found = ALL.iter().find(|(own, _)| *own == name);
        Some(found.unwrap_or_else(|| panic!("RAIDSHMEM_MUTANT={name}: there is none")).1)
    })
}
