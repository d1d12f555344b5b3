//! Groups as they appear in containers, batch systems and on bare machines.

use super::*;

/// A machine with v1, and v2 without controllers.
const HYBRID_GROUPS: &str = "9:name=systemd:/\n8:pids:/\n4:memory:/jobs/10fe88f0\n2:cpuacct:/\n\
    1:cpu:/\n0::/\n";
const HYBRID_MOUNTS: &str = "\
    23 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
    31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
    39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
/// A step of a batch system on a machine with v2.
const STEP_GROUPS: &str = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n";
const UNIFIED_MOUNTS: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime \
    shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
/// A v1 container that sees the groups of the machine by their names.
const DOCKER_GROUPS: &str = "11:memory:/docker/0b56ed\n5:cpu,cpuacct:/docker/0b56ed\n0::/x\n";
const DOCKER_MOUNTS: &str = "\
    731 730 0:32 /docker/0b56ed /sys/fs/cgroup/memory ro master:15 - cgroup cgroup rw,memory\n\
    733 730 0:26 /docker/0b56ed /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup \
    rw,cpu,cpuacct\n";

fn found(groups: &str, mounts: &str, controller: &str) -> Vec<String> {
    let folders = folders(groups, mounts, controller);
    let text = |path: PathBuf| path.to_str().unwrap().trim_end_matches('/').to_owned();
    folders.into_iter().map(text).collect()
}

#[test]
fn the_own_group_and_those_above_it_are_found_in_either_version() {
    let top = "/sys/fs/cgroup/memory";
    let jobs = [format!("{top}/jobs/10fe88f0"), format!("{top}/jobs"), top.to_owned()];
    let second = "/sys/fs/cgroup/unified".to_owned();
    let both = [&jobs[..], std::slice::from_ref(&second)].concat();
    assert_eq!(found(HYBRID_GROUPS, HYBRID_MOUNTS, "memory"), both);
    assert_eq!(
        found(HYBRID_GROUPS, HYBRID_MOUNTS, "pids"),
        ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"]
    );
    let step = found(STEP_GROUPS, UNIFIED_MOUNTS, "memory");
    assert_eq!(step.len(), 7);
    assert_eq!(step[0], "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
    assert_eq!(step[6], "/sys/fs/cgroup");
}

#[test]
fn in_a_container_its_own_group_is_the_topmost() {
    assert_eq!(found(DOCKER_GROUPS, DOCKER_MOUNTS, "memory"), ["/sys/fs/cgroup/memory"]);
    assert_eq!(found(DOCKER_GROUPS, DOCKER_MOUNTS, "cpu"), ["/sys/fs/cgroup/cpu,cpuacct"]);
    assert_eq!(found("0::/\n", UNIFIED_MOUNTS, "memory"), ["/sys/fs/cgroup"]);
}

/// A group outside of the mounted part of the tree, or outside of the namespace.
#[test]
fn invisible_limits_are_not_guessed() {
    for (groups, mounts) in [
        ("11:memory:/user.slice\n", DOCKER_MOUNTS),
        ("0::/../other\n", UNIFIED_MOUNTS),
        (STEP_GROUPS, DOCKER_MOUNTS),
        (STEP_GROUPS, ""),
        ("", UNIFIED_MOUNTS),
        ("0:\n:\n4:memory\nmemory\n", HYBRID_MOUNTS),
    ] {
        assert_eq!(found(groups, mounts, "memory"), Vec::<String>::new(), "{groups}");
    }
}

#[test]
fn a_folder_with_a_space_in_its_name_is_found() {
    let mounts = "35 24 0:30 / /my\\040groups\\134x rw - cgroup2 none rw\n";
    assert_eq!(found("0::/a\n", mounts, "memory"), ["/my groups\\x/a", "/my groups\\x"]);
    assert_eq!(unescape("a\\04\\999\\377"), Path::new("a\\04\\999\\377"));
}

/// The files of a tree of groups.
type Files<'a> = &'a [(&'a str, &'a str)];

fn combined(folders: &[&str], files: Files) -> Option<CgroupMemory> {
    let read = |path: &Path| {
        let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some(file.1.to_owned())
    };
    memory_of(folders.iter().map(PathBuf::from), read)
}

#[test]
fn the_lowest_limit_and_the_least_that_is_free_count() {
    let files: Files = &[
        ("/cg/job/step/memory.max", "max\n"),
        ("/cg/job/step/memory.current", "900\n"),
        ("/cg/job/memory.max", "5000\n"),
        ("/cg/job/memory.current", "4000\n"),
        ("/cg/job/memory.stat", "anon 2000\ninactive_file 300\nactive_file 20\nshmem 1000\n"),
        ("/cg/memory.max", "9000\n"),
        ("/cg/memory.high", "6000\n"),
        ("/cg/memory.current", "5500\n"),
        ("/cg/memory.stat", "slab_reclaimable 10\n"),
    ];
    let combined = |folders: &[&str]| combined(folders, files);
    assert_eq!(combined(&["/cg/job/step"]), None);
    assert_eq!(
        combined(&["/cg/job/step", "/cg/job"]),
        Some(CgroupMemory { limit: 5000, free: 1320 })
    );
    let all = ["/cg/job/step", "/cg/job", "/cg", "/"];
    assert_eq!(combined(&all), Some(CgroupMemory { limit: 5000, free: 510 }));
}

/// In v1, sums over the groups below have names of their own, and each group reports the limits of
/// the groups above.
#[test]
fn files_of_the_first_version() {
    let stat = "inactive_file 7\nactive_file 7\ntotal_inactive_file 400\ntotal_active_file 50\n\
        hierarchical_memory_limit 3000\n";
    let files: Files = &[
        ("/m/a/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/m/a/memory.usage_in_bytes", "2000\n"),
        ("/m/a/memory.stat", stat),
        ("/m/b/memory.limit_in_bytes", "1000\n"),
        ("/m/b/memory.usage_in_bytes", "1500\n"),
        ("/m/c/memory.limit_in_bytes", "1000\n"),
    ];
    assert_eq!(combined(&["/m/a"], files), Some(CgroupMemory { limit: 3000, free: 1450 }));
    assert_eq!(
        combined(&["/m/b"], files),
        Some(CgroupMemory { limit: 1000, free: 0 }),
        "above its limit"
    );
    assert_eq!(combined(&["/m/c"], files), None, "its usage is unknown");
}

/// Reads this machine, whatever it has.
#[test]
fn the_files_of_this_machine_are_read() {
    if let Some(CgroupMemory { limit, free }) = memory() {
        assert!(free <= limit, "{free} of {limit}");
    }
}
