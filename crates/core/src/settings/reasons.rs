//! A reason to change each setting. A setting without a reason here should not exist.
//!
//! Invariant: one reason for each row of the table, in the order of the table; tests enforce it.

/// Returns the reason to change the setting with this name.
pub(super) fn reason(name: &str) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == name).map_or("", |(_, why)| why)
}

pub(super) const REASONS: &[(&str, &str)] = &[
    ("SHMEM_FT_BACKUP_MODE", "to survive losses at all, for the memory that a mode costs"),
    ("SHMEM_FT_GROUP_SIZE", "smaller groups survive more losses and take more memory"),
    ("SHMEM_FT_PARITY", "to survive that many losses in a group at once"),
    ("SHMEM_FT_SNAPSHOTS", "memory is there, and checkpoints are to take less time"),
    ("SHMEM_FT_INTERVAL", "the program calls the checkpoint more often than is worth its time"),
    ("SHMEM_FT_MTBF", "the failure rate of the machine is known"),
    ("SHMEM_FT_SUBSTITUTE", "no node has room for another process, or nobody is to be replaced"),
    ("SHMEM_FT_ROLLBACK", "the program repairs itself, or the others are not to compute again"),
    ("SHMEM_FT_LOG_LIMIT", "a line says that a log was full, or memory is short"),
    ("SHMEM_FT_PLACEMENT", "a job that a lost domain would end is not worth starting"),
    ("SHMEM_FT_DOMAINS", "nodes share racks, switches or power"),
    ("SHMEM_FT_BIND", "another program shares the machine, or binds the processes itself"),
    ("SHMEM_FT_AFFINITY", "the program places its threads itself after a restart"),
    ("SHMEM_FT_PAGES", "a program touches little of a large heap"),
    ("SHMEM_FT_DELTA", "the automatic choice is wrong for a program, or is measured"),
    ("SHMEM_FT_TRACK", "devices write to symmetric memory, or the choice is measured"),
    ("SHMEM_FT_THREADS", "the program's own threads need the processors"),
    ("SHMEM_FT_FABRIC", "the automatic choice is not the network that is wanted"),
    ("SHMEM_FT_DEVICE", "a node has several devices for RDMA"),
    ("SHMEM_FT_COLLECTIVES", "the automatic choice is slower on a machine, or is measured"),
    ("SHMEM_FT_ADOPT", "what a crashed process left behind is not to be trusted"),
    ("SHMEM_FT_MAX_RESTARTS", "deaths are frequent and not the program's fault, or never are"),
    ("SHMEM_FT_MEMORY_LIMIT", "other programs need memory of the machine later"),
    ("SHMEM_FT_NODE_TIMEOUT", "a network is slower, or losses are to be known sooner"),
    ("SHMEM_FT_PE_TIMEOUT", "a stopped process is a lost one, and nobody will continue it"),
    ("SHMEM_FT_STALL", "long waits are normal in a program, or are to be told of sooner"),
    ("SHMEM_FT_TRACE", "to find out why a job hangs"),
    ("SHMEM_FT_CHECKSUM", "to measure what checksums cost"),
    ("SHMEM_FT_PLAN", "checkpoints are to be smaller"),
    ("SHMEM_FT_AUDIT", "to test a plan before it is trusted"),
    ("SHMEM_FT_SCRUB", "memory traffic is short, or memory is known to go bad"),
    ("SHMEM_FT_STORE", "the whole job may be lost, or is to go on later"),
    ("SHMEM_FT_STORE_EVERY", "the disk is slower or faster than the checkpoints come"),
    ("SHMEM_FT_STORE_KEEP", "room on the disk, against the choice of where to begin again"),
    ("SHMEM_FT_STORE_LAYOUT", "nodes have disks of their own, and share no file system"),
    ("SHMEM_FT_STORE_MEMORY", "the disk is slow and checkpoints are large, or memory is short"),
    ("SHMEM_FT_STORE_RATE", "others need the disk or the network to it"),
    ("SHMEM_FT_STORE_COMPRESS", "the disk is small or slow, and nodes have processors to spare"),
    ("SHMEM_FT_INJECT", "to test that a program survives"),
    ("SHMEM_FT_REPORT", "to see what each checkpoint and each recovery costs"),
    ("SHMEM_FT_SINGLETON", "each of several tasks is to be a job of its own"),
    ("SHMEM_SYMMETRIC_SIZE", "the program needs another size (OpenSHMEM)"),
    ("SHMEM_INFO", "to see what is in force (OpenSHMEM)"),
    ("SHMEM_VERSION", "to see which library a program runs with (OpenSHMEM)"),
    ("SHMEM_DEBUG", "to follow what the library does (OpenSHMEM)"),
    ("SHMEM_CHECK", "the checks cost too much in a program that is known to be right"),
];
