//! A reason to change each setting. A setting without a reason here should not exist.
//!
//! Invariant: one reason for each row of the table, in the order of the table; tests enforce it.

/// Returns the reason to change the setting with this name.
pub(super) fn reason(name: &str) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == name).map_or("", |(_, why)| why)
}

pub(super) const REASONS: &[(&str, &str)] = &[
    ("SHMEM_FT_BACKUP_MODE", "to survive losses at all, at the memory cost of a mode"),
    ("SHMEM_FT_GROUP_SIZE", "smaller groups survive more losses and take more memory"),
    ("SHMEM_FT_PARITY", "to survive that many losses in a group at once"),
    ("SHMEM_FT_SNAPSHOTS", "to trade spare memory for faster checkpoints"),
    ("SHMEM_FT_INTERVAL", "the program calls the checkpoint more often than pays off"),
    ("SHMEM_FT_MTBF", "the failure rate of the machine is known"),
    ("SHMEM_FT_SUBSTITUTE", "no node has memory for another process, or no PE should be replaced"),
    ("SHMEM_FT_ROLLBACK", "the program repairs itself, or surviving PEs must not compute again"),
    ("SHMEM_FT_LOG_LIMIT", "a line reports a full log, or memory is short"),
    ("SHMEM_FT_PLACEMENT", "a job that one lost domain can end should not start"),
    ("SHMEM_FT_DOMAINS", "nodes share racks, switches or power"),
    ("SHMEM_FT_BIND", "another program shares the machine, or binds the processes itself"),
    ("SHMEM_FT_AFFINITY", "the program places its threads itself after a restart"),
    ("SHMEM_FT_PAGES", "a program touches little of a large heap"),
    ("SHMEM_FT_DELTA", "the automatic choice does not suit a program, or for a measurement"),
    ("SHMEM_FT_TRACK", "devices write to symmetric memory, or for a measurement"),
    ("SHMEM_FT_THREADS", "the program's own threads need the processors"),
    ("SHMEM_FT_FABRIC", "the automatic choice picks the wrong network"),
    ("SHMEM_FT_DEVICE", "a node has several devices for RDMA"),
    ("SHMEM_FT_COLLECTIVES", "the automatic choice is slower on a machine, or for a measurement"),
    ("SHMEM_FT_ADOPT", "memory that a crashed process left behind should not be trusted"),
    ("SHMEM_FT_MAX_RESTARTS", "deaths are frequent and not the program's fault, or always are"),
    ("SHMEM_FT_MEMORY_LIMIT", "other programs will need the machine's memory later"),
    ("SHMEM_FT_NODE_TIMEOUT", "the network is slower, or losses must be detected sooner"),
    ("SHMEM_FT_PE_TIMEOUT", "a stopped process should count as lost"),
    ("SHMEM_FT_STALL", "long waits are normal in a program, or must be reported sooner"),
    ("SHMEM_FT_TRACE", "to find out why a job hangs"),
    ("SHMEM_FT_CHECKSUM", "to measure what checksums cost"),
    ("SHMEM_FT_PLAN", "to make checkpoints smaller"),
    ("SHMEM_FT_AUDIT", "to test a plan before it is trusted"),
    ("SHMEM_FT_SCRUB", "memory bandwidth is scarce, or memory is known to decay"),
    ("SHMEM_FT_STORE", "to survive the loss of the whole job, or to continue it later"),
    ("SHMEM_FT_STORE_EVERY", "checkpoints come faster than the disk takes them, or slower"),
    ("SHMEM_FT_STORE_KEEP", "to save disk space, or to keep more sets to resume from"),
    ("SHMEM_FT_STORE_LAYOUT", "nodes have disks of their own, and share no file system"),
    ("SHMEM_FT_STORE_MEMORY", "the disk is slow and checkpoints are large, or memory is short"),
    ("SHMEM_FT_STORE_RATE", "other programs need the disk or the network to it"),
    ("SHMEM_FT_STORE_COMPRESS", "the disk is small or slow, and nodes have processors to spare"),
    ("SHMEM_FT_INJECT", "to test that a program survives"),
    ("SHMEM_FT_REPORT", "to see what each checkpoint and each recovery costs"),
    ("SHMEM_FT_SINGLETON", "each of several tasks should be a job of its own"),
    ("SHMEM_SYMMETRIC_SIZE", "the program needs another size (OpenSHMEM)"),
    ("SHMEM_INFO", "to see the settings in force (OpenSHMEM)"),
    ("SHMEM_VERSION", "to see which library a program runs with (OpenSHMEM)"),
    ("SHMEM_DEBUG", "to follow what the library does (OpenSHMEM)"),
    ("SHMEM_CHECK", "the checks cost too much in a program known to be correct"),
];
