//! Mutants: rules that tests can break, one at a time, to prove that a test notices. They need a
//! build with the feature `mutants`; `RAIDSHMEM_MUTANT=NAME` selects one, `.ci/mutants` runs all.
//!
//! Without the feature [`breaks`] is always false, the checks are compiled away, and the variable
//! has no effect. The driver of the protocol asks its port instead, so that the model checker and
//! the simulator can break its rules in any build.
//!
//! Each rule is checked in the one place that implements it, and listed with its name, and the tier
//! and the test that notice. The first table of docs/guarantees.md names the guarantee that a rule
//! belongs to; tests/tidy keeps the two consistent.

/// Defines the rules, each with its name, and the tier and the test that notice when it is broken.
/// One line per rule: `.ci/mutants` parses them.
macro_rules! rules {
    ($($(#[$what:meta])* $rule:ident = $name:literal, $tier:ident, $test:literal;)*) => {
        /// A rule that can be broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$what])* $rule,)*
        }

        /// The names of all rules.
        #[cfg(feature = "mutants")]
        const ALL: &[(&str, Mutant)] = &[$(($name, Mutant::$rule),)*];
    };
}

rules! {
    // The protocol.
    /// A decision is acted on without having been written.
    DecisionNotWritten = "decision-not-written", simulator, "at_most_the_parity";
    /// The program continues while peers still copy.
    NoBarrierB = "no-barrier-b", explorer, "protocol::explore::deaths_anywhere";
    /// A PE copies before all PEs have encoded.
    NoBarrierA = "no-barrier-a", explorer, "protocol::explore::deaths_anywhere";
    /// A checkpoint in parts lets the program continue while peers still copy.
    CopiesNotMet = "copies-not-met", explorer, "protocol::explore::background";
    /// The background computes parity from live memory, not from snapshots.
    LiveProtected = "live-protected", explorer, "protocol::explore::background";
    /// A snapshot that was copied ahead is copied again from live memory that has changed.
    CopiedAgain = "copied-again", explorer, "protocol::explore::background";
    /// Recovery moves forward as soon as one survivor has encoded.
    ForwardTooEarly = "forward-too-early", explorer, "protocol::explore::deaths_anywhere";
    /// The new parity overwrites the agreed one.
    SlotReused = "slot-reused", explorer, "protocol::explore::deaths_anywhere";
    /// The new one of two snapshots overwrites the agreed one.
    SnapshotReused = "snapshot-reused", simulator, "at_most_the_parity";
    /// Pulled data is trusted without checking the view.
    ViewNotChecked = "view-not-checked", explorer, "protocol::explore::deaths_anywhere";
    /// Lost parity is not recomputed.
    ParityNotRecomputed = "parity-not-recomputed", simulator, "at_most_the_parity";
    /// A checkpoint is decoded with the newest groups, not with those that encoded it.
    NewestGroupsTaken = "newest-groups-taken", explorer, "deaths_anywhere_while_groups_change";
    /// A PE that rolls back locally does not look at the records of its checkpoint's groups.
    RecordsIgnored = "records-ignored", unit, "a_local_rollback_finds_the_groups_in_records";
    /// Parity groups never change, although PEs have moved.
    GroupsKept = "groups-kept", unit, "new_groups_survive_more";
    /// A recovery leaves new groups to the next checkpoint of the program.
    HealedLater = "healed-later", unit, "a_recovery_heals_only_where_fewer_losses_end_the_job";
    /// The switch to new groups is decided before every PE has its parity in them.
    SwitchedEarly = "switched-early", explorer, "deaths_anywhere_while_a_recovery_heals";
    /// Parity in new groups overwrites that of the old ones, which still decide.
    HealedInPlace = "healed-in-place", explorer, "deaths_anywhere_while_a_recovery_heals";
    /// The groups of an encoding that was interrupted displace those of a checkpoint that stands.
    AbandonedKept = "abandoned-kept", unit, "an_abandoned_encoding_takes_no_place";
    /// Of two encodings with one number, the groups of the interrupted one are taken.
    OlderAttemptTaken = "older-attempt-taken", unit, "knowledge_of_pes_is_combined_in_any";
    /// The number that programs see grows when a recovery encodes a checkpoint again.
    HealCounted = "heal-counted", unit, "a_checkpoint_encoded_again_keeps_the_number";
    /// The plan counts one parity more than there is.
    PlanTooHopeful = "plan-too-hopeful", unit, "the_parity_is_the_boundary_for_every_pattern";
    /// A phase that a substitute inherits does not vote in a decision.
    DeadVoteIgnored = "dead-vote-ignored", unit, "a_phase_is_believed_by_what_the_records_hold";
    /// Checkpoint calls at different places in the program match each other.
    EveryCallMeets = "every-call-meets", unit, "a_substitute_that_learned_elsewhere_is_behind";
    /// The first checkpoint call of a substitute is taken for the recorded one, without proof.
    OrderBelieved = "order-believed", unit, "order_alone_proves_no_place";
    /// A corrupt tile found in a recovery is not reported.
    CorruptUnreported = "corrupt-unreported", simulator, "at_most_the_parity";
    /// Words posted by another incarnation are taken for this one's.
    StaleWordsTaken = "stale-words-taken", unit, "words_of_another_incarnation_are_refused";
    /// A PE in `shmem_finalize` rolls back like all others, although its program does not.
    EndRollsBack = "end-rolls-back", explorer, "protocol::explore::deaths_anywhere";
    /// Lost parity is recomputed from results that PEs in `shmem_finalize` have computed since.
    ParityOfTheEnd = "parity-of-the-end", explorer, "protocol::explore::deaths_anywhere";
    /// The waker does not fence between its store and its check for sleepers.
    WakeWithoutFence = "wake-without-fence", unit, "a_sleeper_sees_or_is_seen";

    // Planned losses.
    /// A node is killed once one of its PEs has the checkpoint after which it is drained.
    DrainedEarly = "drained-early", unit, "a_node_is_killed_once_all_its_pes_wait";
    /// A node is drained although the job does not survive its loss.
    DrainedAnyhow = "drained-anyhow", unit, "a_request_that_cannot_be_met_is_refused";

    // Falling back to disk.
    /// A set is chosen while processes of PEs still live.
    FallsAmongTheLiving = "falls-among-the-living", unit, "no_set_is_chosen_while_a_pe_lives";
    /// A job begins from disk again and again without getting further.
    FallsForever = "falls-forever", unit, "a_job_falls_only_so_often_without_progress";
    /// A batch system is to submit a job again that crashed without the loss of a node.
    CrashRequeued = "crash-requeued", unit, "only_a_job_that_lost_nodes_and_got_on_is_requeued";

    // Sets on disk.
    /// A file refers to the block of an older one although it has changed since.
    DigestsIgnored = "digests-ignored", unit, "unchanged_tiles_refer_to_the_file_that_holds_them";
    /// A set is deleted although one that is kept refers to it.
    BasesPruned = "bases-pruned", unit, "no_set_that_a_kept_one_refers_to_is_deleted";

    // The store.
    /// A stamp is accepted for any tile.
    StampBelieved = "stamp-believed", unit, "a_stamp_refuses_every_flipped_bit";
    /// A stamp does not cover the number of its checkpoint.
    NumberNotSealed = "number-not-sealed", unit, "a_stamp_of_another_checkpoint_job_or_pe";
    /// A record of the header is accepted with any seal.
    SealBelieved = "seal-believed", unit, "one_flipped_bit_is_harmless_and_one_in_each";
    /// A tile that changed in the previous checkpoint is kept from two checkpoints ago.
    KeptThoughChanged = "kept-though-changed", unit, "a_slot_never_keeps_stale_parity";
    /// A PE with an incomplete record of its writes is treated as if it were complete.
    DoubtsIgnored = "doubts-ignored", unit, "any_doubt_ends_it";
    /// Data that no old checksum verifies is restored.
    UnprovenPutBack = "unproven-put-back", processes, "nothing_is_put_back_that_no_old_checksum";
    /// Several threads leave out one item of their work.
    ItemLeftOut = "item-left-out", unit, "every_item_is_worked_on_once_whoever_does_it";
    /// Lengths in a manifest are trusted.
    LengthsBelieved = "lengths-believed", unit, "garbage_is_refused_and_never_panics";

    // The coverage of a checkpoint, and memory for it.
    /// Static variables are not covered.
    StaticsLeftOut = "statics-left-out", unit, "a_manifest_reads_back_and_begins_its_own_line";
    /// Private memory is matched by order of registration.
    PrivateByOrder = "private-by-order", unit, "regions_fit_by_name_whatever_their_order";
    /// A checkpoint leaves out memory that a plan calls dead at some other place.
    PlaceIgnored = "place-ignored", unit, "only_what_is_dead_at_the_place_is_left_out";
    /// Memory stays excluded after it is freed.
    ExclusionOutlives = "exclusion-outlives", processes, "attributes_of_memory_end_with_it";
    /// A new process writes to read-only memory that it adopts.
    ReadonlyOverwritten = "readonly-overwritten", processes, "readonly::a_loss_in_any_step";
    /// Memory that was read-only is written without a copy.
    NoCopyBeforeWrites = "no-copy-before-writes", processes, "readonly::a_loss_in_any_step";
    /// Parity over read-only memory is not encoded again in new groups.
    RangeParityKept = "range-parity-kept", processes, "readonly::new_groups_protect";
    /// Old parity over read-only memory is freed before all PEs have agreed on new groups.
    OldParityFreed = "old-parity-freed", processes, "readonly::old_groups_protect";
    /// More PEs of a group move at a time than its parity covers.
    GroupEmptied = "group-emptied", unit, "moves_even_out_the_load_within_the_parity";
    /// Memory is counted per job, not per machine.
    MemoryOfTheJob = "memory-of-the-job", unit, "memory_is_counted_for_each_machine";
    /// New groups are taken with memory for one of both slots.
    SlotUncounted = "slot-uncounted", unit, "new_groups_are_taken_with_memory_for_both_slots";
    /// A program that never asks why a checkpoint was refused is refused forever.
    RefusedForever = "refused-forever", unit, "the_loop_of_the_thesis_ends";

    // The launcher: deaths, and their consequences.
    /// A substitute is chosen, and memory wiped, before all nodes show the death.
    WipedTooEarly = "wiped-too-early", unit, "a_lost_node_is_wiped_and_replaced_only_after";
    /// The memory of a lost node is not wiped.
    NotWiped = "not-wiped", unit, "a_lost_node_is_wiped_and_replaced_only_after";
    /// A node is declared lost before its lease is over.
    DeclaredTooEarly = "declared-too-early", unit, "after_a_partition_the_launcher_s_side";
    /// A node whose lease is over keeps running.
    LeaseWithoutEnd = "lease-without-end", unit, "after_a_partition_the_launcher_s_side";
    /// A node renews the lease of another for longer than its own lasts.
    LeaseOutlivesParent = "lease-outlives-parent", unit, "after_a_partition_the_launcher_s_side";
    /// A third node's opinion on two that accuse each other is ignored.
    AccuserBelieved = "accuser-believed", unit, "a_third_node_decides_which_of_two";
    /// A report that all PEs have resumed ends the recovery from a loss that was shown since.
    OldResumeTaken = "old-resume-taken", unit, "a_report_of_an_earlier_recovery_ends_no_later_one";
    /// Deaths without progress are not counted.
    CrashNotCounted = "crash-not-counted", unit, "lives_that_only_repeat_a_checkpoint_are_no";
    /// A stopped PE is taken for dead.
    StoppedIsDead = "stopped-is-dead", processes, "a_stopped_pe_is_reported_as_stopped";
    /// A PE that is shutting down is reported to have closed its connection.
    BlamedTooSoon = "blamed-too-soon", processes, "a_pe_that_takes_long_to_end_is_not_blamed";
    /// The loop that renews leases waits for a node to end.
    LoopWaits = "loop-waits", processes, "a_node_that_takes_long_to_end_takes_no_other";
    /// Long waits are not reported.
    StallUnreported = "stall-unreported", unit, "a_stall_is_reported_once_and_a_short_wait_never";
    /// A wait is reported as endless although some PE can still make progress.
    VerdictTooEarly = "verdict-too-early", unit, "every_combination_has_its_line_or_its_end";
    /// A peer that does not know the job's secret is accepted.
    SecretUnchecked = "secret-unchecked", unit, "another_secret_and_garbage_are_refused";
    /// A recorded heartbeat is accepted again.
    ReplayAccepted = "replay-accepted", unit, "a_heartbeat_is_accepted_once_by_its_addressee";

    // Placement of PEs, and the end of a job.
    /// PEs run on processors outside the mask that they were given.
    MaskIgnored = "mask-ignored", unit, "a_mask_with_holes_is_respected";
    /// Groups are formed without regard to failure domains.
    DomainsIgnored = "domains-ignored", unit, "every_shape_of_small_jobs";
    /// A job is reported to survive one more loss in a group than it does.
    MovesUncounted = "moves-uncounted", unit, "a_pe_that_moved_to_a_node_of_its_group";
    /// A thread of a substitute gets all of the PE's processors.
    ThreadPlaceIgnored = "thread-place-ignored", unit, "the_picture_above";
    /// All pages of a PE get the NUMA node of the first of them when its memory is made again.
    PagesTogether = "pages-together", unit, "pages::tests::the_picture_above";
    /// PEs are not notified when the job ends early, and do not flush their output.
    OutputCutOff = "output-cut-off", processes, "a_misuse_loses_no_output_of_other_pes";
    /// A PE that returns from `main` without `shmem_finalize` does not leave the job.
    NoFinalizeAtExit = "no-finalize-at-exit", processes, "an_end_with_status_0_is_a_good_one";
    /// A job ends with status 0 whatever its programs return.
    StatusLost = "status-lost", unit, "a_job_ends_when_all_have_finalized_with_the_first";
    /// A script around a program is ended with it.
    ScriptEnded = "script-ended", processes, "a_script_continues_after_a_program_that_ended_well";

    // Between PEs.
    /// The operands of a reduction are combined sequentially, not in the tree.
    OrderOfThePes = "order-of-the-pes", unit, "a_stack_combines_in_the_tree";
    /// The data of a broadcast is overwritten before a child has taken it.
    PushedOver = "pushed-over", processes, "small_broadcasts_run_ahead";
    /// A broadcast from another root than the last begins without a meeting.
    RootFollowed = "root-followed", processes, "small_broadcasts_run_ahead";
    /// A message from a dead incarnation is accepted.
    StaleAccepted = "stale-accepted", unit, "an_answer_of_the_dead_is_not_taken_for_one";
    /// A decision is made before all PEs hold it.
    DoneUnlocked = "done-unlocked", explorer, "agree::explore::one_value_for_all";
    /// A member with a record of an earlier view does not ask for records again.
    NotAskedAgain = "not-asked-again", explorer, "agree::explore::one_value_for_all";
    /// A value locked in one view does not bind the next.
    LockForgotten = "lock-forgotten", explorer, "agree::explore::one_value_for_all";
    /// A team reuses the place of another's records while a member has yet to read them.
    PlaceTakenEarly = "place-taken-early", explorer, "agree::explore::one_value_for_all";
    /// A PE posts up the tree without waiting for its children.
    ChildrenNotAwaited = "children-not-awaited", explorer, "tree::explore::no_pe_continues";
    /// Words of two posts are combined into one.
    TornPostTaken = "torn-post-taken", unit, "words_of_two_posts_are_none";

    // Local rollback.
    /// An operation is logged after it has happened.
    LoggedAfter = "logged-after", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An operation is marked done before it has happened.
    DoneBefore = "done-before", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An operation in progress is not marked as under way.
    NotUnderway = "not-underway", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A PE does not announce that it may be about to write to another PE.
    FlightNotShown = "flight-not-shown", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// The bytes of an operation under way are skipped.
    BegunSkipped = "begun-skipped", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A fetching operation does not wait for a target that is rolling back.
    AnswerNotAwaited = "answer-not-awaited", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An operation under way that must happen only once is repeated.
    DoubtDoneAgain = "doubt-done-again", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An operation that the target already has is repeated.
    NotSkipped = "not-skipped", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A PE's operations on its own memory are skipped.
    OwnSkipped = "own-skipped", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A get is repeated, instead of answered from the log.
    ReadAgain = "read-again", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// The operations of peers are applied PE by PE, not in the order of their timestamps.
    MergedByOrigin = "merged-by-origin", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An atomic operation leaves its new value, without regard to pending operations.
    PendingIgnored = "pending-ignored", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A failed compare-and-swap is applied.
    FailedSwapApplied = "failed-swap-applied", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A replay does not apply peers' operations that precede the value of a fetching one.
    FoundNotApplied = "found-not-applied", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A call that learns from peers takes its timestamp without the clock.
    ClockIgnored = "clock-ignored", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A PE does not adopt the timestamps of a meeting.
    MeetingTimesIgnored = "meeting-times-ignored", explorer, "replay::explore::a_lost_pe_rolls";
    /// A replayed meeting does not apply the operations that peers did before it.
    MeetingBringsNothing = "meeting-brings-nothing", explorer, "replay::explore::a_lost_pe_rolls";
    /// The predecessor's last meeting is taken for complete once all PEs have arrived.
    LastMeetingTrusted = "last-meeting-trusted", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A substitute reads the logs only before it announces that it drains, and not again.
    NoSecondLook = "no-second-look", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// An origin repeats an operation that its target has taken over.
    TakenTwice = "taken-twice", explorer, "replay::explore::two_losses_anywhere";
    /// Operations that a substitute took over are not recorded in its log.
    TakenNotNoted = "taken-not-noted", explorer, "replay::explore::two_losses_anywhere";
    /// Operations that were only logged are released before every node shows the loss.
    ReleasedEarly = "released-early", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A value that an atomic operation fetched from memory that may be wiped is trusted.
    FoundInWiped = "found-in-wiped", explorer, "replay::explore::a_pe_lost_with_its_node";
    /// Bytes that a get read from memory that may be wiped are trusted.
    ReadInWiped = "read-in-wiped", explorer, "replay::explore::a_pe_lost_with_its_node";
    /// A PE reads a peer's value for a meeting without checking that it has arrived.
    LogsNotChecked = "logs-not-checked", explorer, "replay::explore::a_pe_lost_with_its_node";
    /// A PE does not check again for a loss that was shown since.
    NotLookedAgain = "not-looked-again", explorer, "replay::explore::a_pe_lost_with_its_node";
    /// A substitute restores its memory while a peer may be writing to it.
    QuietNotAwaited = "quiet-not-awaited", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A substitute begins before the logs of all PEs begin at its checkpoint.
    BeginningsNotAwaited = "beginnings-not-awaited", explorer, "replay::explore::a_lost_pe_rolls";
    /// A PE that was lost after a checkpoint, before its log began again, replays the old log.
    OldLogReplayed = "old-log-replayed", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// PEs agree on a view although some of them see another one.
    OtherViewsIgnored = "other-views-ignored", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A substitute takes part in a checkpoint that its predecessor had agreed to begin.
    AgreementRepeated = "agreement-repeated", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A member of a new view does not wait until all are members.
    MembersNotAwaited = "members-not-awaited", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// A PE makes a call that is not logged although another PE has not caught up.
    AwayNotAwaited = "away-not-awaited", explorer, "replay::explore::a_lost_pe_rolls_back_locally";
    /// A substitute may be reached before it looks for reasons against its local rollback.
    ReasonsReadLate = "reasons-read-late", explorer, "replay::explore::a_lost_pe_rolls_back";
    /// PEs meet without records although some have not joined the view.
    ViewNotShared = "view-not-shared", explorer, "replay::explore::a_lost_pe_rolls_back_locally";
    /// A checkpoint does not reset the words of meetings without records.
    WordsKept = "words-kept", explorer, "replay::explore::a_lost_pe_rolls_back_locally";
    /// A message that a substitute sends again is carried out again.
    FarTakenTwice = "far-taken-twice", simulator, "local::lost_pes_roll_back";
    /// A substitute takes messages of far PEs in its replay.
    FarNotHeld = "far-not-held", simulator, "local::lost_pes_roll_back";
    /// A message of an interval that this PE has not come to is dropped.
    FarEarlyDropped = "far-early-dropped", simulator, "local::lost_pes_roll_back";
    /// A substitute is not sent the messages that were lost with its predecessor.
    FarNotSentAgain = "far-not-sent-again", simulator, "local::lost_pes_roll_back";
    /// A message leaves before the replica of the log has all that it can tell of.
    FarLeftEarly = "far-left-early", simulator, "local::lost_pes_roll_back";
    /// A substitute on another node takes records in the order in which they arrive again.
    FarOrderForgotten = "far-order-forgotten", simulator, "local::lost_pes_roll_back";
    /// A replay does not wait for the records that another lost PE has to send again.
    FarNotAwaited = "far-not-awaited", simulator, "local::lost_pes_roll_back";
    /// A record that comes before its turn is dropped, while what followed it is held.
    FarEarlierDropped = "far-earlier-dropped", simulator, "local::lost_pes_roll_back";
    /// A substitute does not write on to the replica of its predecessor's log.
    ReplicaLeft = "replica-left", simulator, "local::lost_pes_roll_back";
    /// A substitute at the end of the job does not come to the last meeting of its view.
    EndNotMet = "end-not-met", simulator, "local::lost_pes_roll_back";
}

#[cfg(test)]
pub(crate) mod in_thread;

/// Returns true if this process must break the rule.
#[inline]
pub fn breaks(rule: Mutant) -> bool {
    #[cfg(test)]
    if in_thread::broken() == Some(rule as usize) {
        return true;
    }
    chosen() == Some(rule)
}

/// Returns the rule that is broken in this process.
#[cfg(not(feature = "mutants"))]
#[inline]
pub fn chosen() -> Option<Mutant> {
    None
}

/// Returns the rule that is broken in this process.
#[cfg(feature = "mutants")]
pub fn chosen() -> Option<Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("RAIDSHMEM_MUTANT").ok()?;
        let found = ALL.iter().find(|(own, _)| *own == name);
        Some(found.unwrap_or_else(|| panic!("RAIDSHMEM_MUTANT={name}: unknown")).1)
    })
}
