//! Machines with different administrator settings for huge pages in shared memory.

use std::path::Path;

use crate::image;
use crate::machine::Plan;
use crate::support::program;
use crate::switch::Switch;

/// KiB of live data of a PE.
const LIVE: u64 = 24 << 10;

#[test]
fn large_heaps_and_their_checkpoints_have_huge_pages_unless_denied() {
    let switch = Switch::new();
    let pages = program("pages");
    let (oshrun, oshinfo) = (env!("CARGO_BIN_EXE_oshrun"), env!("CARGO_BIN_EXE_oshinfo"));
    let payload = image::add("pages", &[Path::new(oshrun), Path::new(oshinfo), &pages]);
    let mut guest = Plan { memory: 1024, ..Plan::new(1) }.with(&payload).boot(&switch);
    guest.ready();
    let cases = [
        ("never", "auto", true), // through a file system of the job's own
        ("advise", "auto", true),
        ("deny", "auto", false),
        ("advise", "small", false),
    ];
    for (word, pages_setting, huge) in cases {
        let file = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        guest.must(&format!("echo {word} > {file}"));
        let pages_setting = format!("SHMEM_FT_PAGES={pages_setting}");
        let info = guest.must(&format!("{pages_setting} {oshinfo}"));
        let answer = if huge { "  yes (" } else { "  no (" };
        let line = info.lines().find(|line| line.starts_with("huge pages")).expect("a line of it");
        assert!(line.contains(answer), "{info}");
        let job = format!("{pages_setting} SHMEM_SYMMETRIC_SIZE=64M SHMEM_FT_BACKUP_MODE=raid5");
        let said = guest.must(&format!("{job} {oshrun} -n 2 {}", pages.display()));
        let lines = said.lines().filter(|line| line.starts_with("pages "));
        let mut seen = 0;
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kib = |at: usize| words[at].parse::<u64>().expect("KiB");
            // The snapshot, and parity of the same size, in a group of two.
            let [heap, store] = [kib(3), kib(5)];
            match huge {
                true => assert!(heap >= LIVE / 2 && store >= LIVE, "{said}"),
                false => assert_eq!((heap, store), (0, 0), "{said}"),
            }
            seen += 1;
        }
        assert_eq!(seen, 2, "{said}");
    }
}
