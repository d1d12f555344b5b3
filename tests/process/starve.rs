//! Shortages: memory, descriptors, address space, space in `/dev/shm` and on a disk.
//!
//! A checkpoint for which there is no memory is refused on every PE, with the same words, and the
//! last one stays valid. A job that cannot start ends with a line that names the shortage.
//! Resources that the library does not use may be missing altogether.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::support::cgroup::Group;
use super::support::jacobi::{self, TINY};
use super::support::{Job, Outcome, mounts, program};

fn run(mode: &str, how: &str, mib: u64, heap: &str, limit: Option<&str>) -> Outcome {
    let job = Job::new(4).mode(mode).env("SHMEM_SYMMETRIC_SIZE", heap);
    let job = match limit {
        Some(limit) => job.env("SHMEM_FT_MEMORY_LIMIT", limit),
        None => job,
    };
    job.program(&program("large"), &[how, &mib.to_string()]).run()
}

/// Runs `large` in each mode that keeps checkpoints, and checks its outcome.
fn in_each_mode(how: &str, limit: &str, check: impl Fn(&str, &Outcome)) {
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        let outcome = run(mode, how, 8, "32M", Some(limit));
        goes_on(&outcome);
        check(mode, &outcome);
    }
}

/// Checks that every PE got the same refusal, `times` times; returns its words.
#[track_caller]
fn refused(outcome: &Outcome, times: usize) -> &str {
    let told = |pe: usize| {
        let start = format!("PE {pe} is refused: ");
        outcome.out.lines().filter_map(move |line| line.strip_prefix(&start))
    };
    let words = told(0).next().unwrap_or_default();
    for pe in 0..4 {
        let same = told(pe).filter(|&line| line == words).count();
        outcome.check(same == times, &format!("PE {pe} should be refused {times} times"));
    }
    outcome.check(words.starts_with("checkpoint refused: "), "the words should say so");
    words
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
    outcome.all_print(4, " is done");
}

/// Four PEs with slightly more than 1 MiB: 1 in the snapshot and a third of it in each of two
/// slots, that is 7 in all with `raid5`, 9 with `rs`, 8 with `double`, 4 with `single`. With 8 MiB
/// more all of them exceed the limit.
#[test]
fn a_checkpoint_over_the_limit_is_refused_and_the_program_continues() {
    in_each_mode("ask", "20M", |mode, outcome| {
        let words = refused(outcome, 1);
        let named = words.contains(&format!(" for {mode}, and SHMEM_FT_MEMORY_LIMIT allows 20.0"));
        outcome.check(named, "mode and limit should be named");
        outcome.check(outcome.count(words) == 1, "PE 0 should report it on standard error, once");
    });
}

#[test]
fn a_checkpoint_within_the_limit_is_made() {
    in_each_mode("ask", "128M", |_, outcome| {
        outcome.check(!outcome.out.contains("refused"), "nothing should be refused");
    });
}

/// The last checkpoint is intact: a death after the refusal rolls back to it.
#[test]
fn after_a_refusal_a_death_rolls_back_to_the_last_checkpoint() {
    in_each_mode("die", "20M", |_, outcome| {
        outcome.says("oshrun: PE 1 was killed by SIGKILL");
        // PE 1 is refused, dies, and is refused again; so are the others.
        refused(outcome, 2);
    });
}

/// A program with only the thesis' loop would retry forever: its checkpoint calls succeed without
/// a checkpoint, until memory suffices for one.
#[test]
fn a_program_that_does_not_ask_continues_without_new_checkpoints() {
    in_each_mode("ignore", "20M", |_, outcome| {
        let words = refused(outcome, 2);
        outcome.check(outcome.count(words) == 1, "PE 0 should report it on standard error, once");
        let goes_on =
            "the job continues without a new checkpoint: a loss rolls it back to checkpoint 2";
        outcome.check(outcome.count(goes_on) == 1, "and what it means for the job");
    });
}

/// Refused checkpoints with a loss meanwhile: all PEs get the error again.
#[test]
fn a_loss_without_new_checkpoints_rolls_back_to_the_last() {
    in_each_mode("late", "20M", |_, outcome| {
        outcome.says("oshrun: PE 1 was killed by SIGKILL");
        let words = refused(outcome, 4);
        outcome.check(outcome.count(words) == 2, "before the loss and after it");
    });
}

/// Refused from the first on: there is nothing to roll back to, and nothing else is wrong.
#[test]
fn a_job_without_memory_for_checkpoints_finishes() {
    let job = || Job::new(4).mode("raid5").env("SHMEM_FT_MEMORY_LIMIT", "64K");
    let outcome = jacobi::job(job(), TINY).run();
    outcome.right_sum(TINY).says("the job continues without a new checkpoint: none was made yet");
    let outcome = jacobi::job(job().kill(&["1@1:before"]), TINY).run();
    outcome.status(3).says("unrecoverable: PE 1 was lost before the first checkpoint");
}

/// A control group with less memory than the machine: refused, instead of killed by the kernel. The
/// group's file cache does not count.
#[test]
fn a_control_group_is_a_small_machine() {
    let run = |limit: u64, first: &str| {
        let group = Group::new(limit << 20)?;
        let first = format!("{} && {first}", group.enter());
        let job = Job::new(4).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "32M").leaves("file");
        let job = job.program(&program("large"), &["ask", "24"]).after(&first);
        Ok::<_, String>(job.run())
    };
    // Four PEs take 25 MiB and two thirds of that each, and 24 that they have not written: 263.
    let outcome = match run(220, "touch file") {
        Ok(outcome) => outcome,
        Err(why) => return super::support::skip("control-groups", &why),
    };
    goes_on(&outcome);
    let words = refused(&outcome, 1);
    outcome.check(words.contains("PEs 0-3 need 2"), "the PEs of the machine should be named");
    let cached = "dd if=/dev/zero of=file bs=1M count=200 conv=fsync 2> /dev/null";
    for (limit, first) in [(600, "touch file"), (400, cached)] {
        let outcome = run(limit, first).expect("there was one");
        goes_on(&outcome);
        outcome.check(!outcome.out.contains("refused"), "memory is there");
    }
}

/// The machine's memory as the limit. The heap is not touched, so the test uses none of it.
#[test]
fn a_checkpoint_larger_than_the_machine_is_refused() {
    let total = raidshmem_sys::memory::total().expect("the machine has memory") >> 20;
    let (heap, mib) = (format!("{}M", total / 5), total / 5 - 64);
    let outcome = run("raid5", "ask", mib, &heap, None);
    goes_on(&outcome);
    let words = refused(&outcome, 1);
    let named = words.contains(" MiB more memory for raid5, and their machine has ");
    outcome.check(named && words.ends_with(" MiB free"), "mode and machine should be named");
    goes_on(&run("raid5", "die", mib, &heap, None));
}

/// A single PE cannot describe its memory: all refuse, or the next barrier would never complete.
#[test]
fn a_manifest_that_is_full_on_one_pe_is_refused_on_all() {
    let outcome = Job::new(4).mode("raid5").program(&program("manifest"), &[]).run();
    outcome.status(0);
    let words = refused(&outcome, 1);
    outcome.check(words.contains("PE 2 has more allocations or registered"), "PE 2 is the one");
}

/// Checks for the right sum, or an end with a status of `oshrun` and a line that names the
/// shortage. Returns true if it was the sum.
#[track_caller]
fn right_or_named(outcome: &Outcome, missing: &[&str]) -> bool {
    if outcome.status == 0 {
        outcome.right_sum(TINY);
        return true;
    }
    outcome.check([1, 2, 3].contains(&outcome.status), "a status of oshrun");
    let named = missing.iter().any(|missing| outcome.count(missing) > 0);
    outcome.check(named, &format!("one of {missing:?} should be named"));
    false
}

/// From too few at the start, through too few for a recovery, to enough: in the launcher and in the
/// agent, which get the same limit.
#[test]
fn without_descriptors_the_job_ends_with_a_line() {
    for kill in ["", "1@3"] {
        let mut right = 0;
        for most in 6..=40 {
            let job = Job::new(4).mode("raid5").after(&format!("ulimit -n {most}"));
            let job = if kill.is_empty() { job } else { job.kill(&[kill]) };
            let outcome = jacobi::job(job, TINY).run();
            right += usize::from(right_or_named(&outcome, &["oo many open files"]));
        }
        assert!((5..35).contains(&right), "{right} limits of 35 were enough");
    }
}

/// Runs `jacobi` in a shell that runs `limit` first.
fn limited(limit: &str, kill: &str) -> Outcome {
    let jacobi = program("jacobi");
    let script = format!("{limit}; exec \"$0\" \"$@\"");
    let mut args = vec!["-c", &script, jacobi.to_str().expect("a plain name")];
    args.extend_from_slice(TINY);
    let job = Job::new(4).mode("raid5");
    let job = if kill.is_empty() { job } else { job.kill(&[kill]) };
    job.program(Path::new("/bin/sh"), &args).run()
}

#[test]
fn a_pe_without_descriptors_reports_it() {
    needs!(long);
    let mut right = 0;
    for most in 4..=24 {
        for kill in ["", "1@3"] {
            let outcome = limited(&format!("ulimit -n {most}"), kill);
            right += usize::from(right_or_named(&outcome, &["oo many open files"]));
        }
    }
    assert!((4..40).contains(&right), "{right} limits of 42 were enough");
}

/// The kernel limits the descriptors in flight between a user's processes, unless the user is root:
/// far fewer than here, where every PE is sent those of all.
#[test]
fn descriptors_in_flight_may_be_more_than_the_kernel_lets_be() {
    let user = "ulimit -n 220; exec setpriv --bounding-set=-all --inh-caps=-all -- \"$@\"";
    for nodes in ["1", "4"] {
        let job = Job::new(40).env("SHMEM_SYMMETRIC_SIZE", "1M").args(&["--nodes", nodes]);
        let outcome = job.program(&program("hello"), &[]).after(user).run();
        outcome.status(0).check(outcome.out.lines().count() == 40, "a line of each PE");
    }
    // Concurrent jobs of one user share that limit.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let job = Job::new(40).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "1M");
                let job = job.args(&["--nodes", "4"]).kill_node(&["1@3"]);
                let job = jacobi::job(job.env("SHMEM_FT_GROUP_SIZE", "4"), TINY).after(user);
                job.run().right_sum(TINY).says("node 1 was lost");
            });
        }
    });
}

/// The usual limit is far below the hard one. Launcher and agent raise theirs, and programs get the
/// usual one.
#[test]
fn the_usual_limit_of_descriptors_is_that_of_programs_only() {
    let job = || Job::new(16).env("SHMEM_SYMMETRIC_SIZE", "1M").after("ulimit -S -n 40");
    let outcome = job().args(&["--nodes", "2", "sh", "-c", "ulimit -n"]).run();
    outcome.status(0).check(outcome.out == "40\n".repeat(16), "40 of each PE");
    let outcome = job().program(&program("hello"), &[]).run();
    outcome.status(0).check(outcome.out.lines().count() == 16, "a line of each PE");
}

#[test]
fn more_pes_than_an_agent_has_descriptors_for_are_refused_before_one_starts() {
    let job = Job::new(300).env("SHMEM_SYMMETRIC_SIZE", "64K").after("ulimit -n 900");
    let outcome = job.args(&["echo", "started"]).run();
    let line = "oshrun: node 0: too many open files: 300 PEs need at least 906, and ulimit -n \
                allows 900\n";
    outcome.status(1).check(outcome.err == line && outcome.out.is_empty(), "one line");
}

/// Starting its processes takes longer than the node's lease.
#[test]
fn a_node_that_has_much_to_start_is_not_lost() {
    let job = Job::new(1500).env("SHMEM_SYMMETRIC_SIZE", "64K");
    let outcome = job.env("SHMEM_FT_NODE_TIMEOUT", "1").args(&["true"]).run();
    outcome.status(0).check(outcome.err.is_empty(), "nothing should be reported");
}

/// The kernel limits the processes of every user but root: as root the test continues as another
/// user with root's access to files.
#[test]
fn more_pes_than_a_user_may_have_processes_are_refused_with_the_limits() {
    if !rustix::process::getuid().is_root() {
        return super::support::skip(
            "root",
            "only root can be somebody else, whom ulimit -u binds",
        );
    }
    let user = "exec prlimit --nproc=20 setpriv --reuid 4242 --inh-caps +dac_override \
                --ambient-caps +dac_override -- \"$@\"";
    let job = Job::new(40).env("SHMEM_SYMMETRIC_SIZE", "1M").after(user);
    let outcome = job.args(&["sleep", "100"]).run();
    outcome.status(1).says("/sleep: cannot start: Resource temporarily unavailable (os error 11)");
    outcome.says("; ulimit -u is 20").check(outcome.err.lines().count() == 1, "one line");
}

/// The segments of all PEs are mapped at their largest size, so address space is what runs out.
#[test]
fn a_pe_without_address_space_reports_it() {
    let gib = |gib: u64| format!("ulimit -v {}", gib << 20);
    for most in [1, 3, 6, 10] {
        let outcome = limited(&gib(most), "");
        outcome.check([1, 3].contains(&outcome.status), "one or all PEs cannot begin");
        let said = ["symmetric memory: ", " cannot be mapped: "].map(|words| outcome.count(words));
        outcome.check(said != [0, 0], "what is missing");
        let again = outcome.count("at the same place");
        outcome.check(again == 0, "no substitute should start: it has that limit too");
    }
    // As a user sets it: launcher and agents have it, too.
    let job = Job::new(3).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "1G");
    let outcome = jacobi::job(job.after("ulimit -S -v 8000000"), TINY).run();
    outcome.status(1).says(" cannot start: symmetric memory: ").says("ulimit -v is 8000000 (KiB)");
    let lines: Vec<&str> = outcome.err.lines().collect();
    outcome.check(lines.iter().filter(|line| line.contains("memory")).count() == 1, "one line");
    limited(&gib(200), "1@3").right_sum(TINY);
}

/// The library locks nothing in memory.
#[test]
fn no_memory_need_be_lockable() {
    limited("ulimit -l 0", "1@3").right_sum(TINY);
}

/// A limit on file sizes applies to memory files too, and the kernel enforces it by a signal.
#[test]
fn a_limit_on_the_size_of_files_is_named() {
    let job = Job::new(4).mode("raid5").after("ulimit -f 1024");
    jacobi::job(job, TINY).run().status(1).says("memory for PEs: ");
}

/// Memory files have no name, and do not count there.
#[test]
fn a_full_dev_shm_is_harmless() {
    let mount = mounts::mount("-t tmpfs -o size=4k none", Path::new("/dev/shm"));
    let fill = mounts::privately(&format!(
        "{mount} && echo full > /dev/shm/full && ! echo more > /dev/shm/more || exit 9"
    ));
    let job = Job::new(4).mode("raid5").kill(&["1@3"]);
    let outcome = jacobi::job(job, TINY).after(&format!("{{ {fill}; }} 2> /dev/null")).run();
    if outcome.status == mounts::NOT_ALONE {
        return super::support::skip("mounts", "no /dev/shm of its own can be filled");
    }
    outcome.right_sum(TINY);
}

/// Of three shells only the one in a private mount namespace mounts. One without the mount stops
/// before it writes.
#[test]
fn tests_mount_only_in_their_own_namespace() {
    let folder = std::env::temp_dir().join(format!("raidshmem-mounts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = folder.canonicalize().expect("it is there");
    let mount = mounts::mount("-t tmpfs none", &folder);
    let run_script = |first: &[&str], script: &str| {
        let script = mounts::privately(&format!("{script}; exit $?"));
        let mut command = Command::new(first[0]);
        let status = command.args(&first[1..]).args(["/bin/sh", "-c", &script]).status();
        status.expect("it starts").code()
    };
    let run = |first: &[&str]| run_script(first, &mount);
    assert_eq!(run(&["env"]), Some(mounts::NOT_ALONE), "a mount of this process");
    let unshare = ["unshare", "--user", "--map-root-user", "--mount", "--propagation"];
    let with = |propagation| run(&[&unshare[..], &[propagation]].concat());
    match with("private") {
        Some(0) => {
            assert_eq!(with("shared"), Some(mounts::NOT_ALONE), "one that others see");
            let nothing = format!("mount() {{ true; }}; {mount}");
            let first = [&unshare[..], &["private"]].concat();
            assert_eq!(run_script(&first, &nothing), Some(1), "nothing was mounted");
        }
        _ => super::support::partly("mounts", "no user namespace: nothing was mounted"),
    }
    std::fs::remove_dir(folder).expect("nothing is mounted there");
}

/// The job only ever writes to standard output and error: if that fails it continues.
#[test]
fn a_full_disk_under_the_output_is_harmless() {
    let job = || Job::new(4).mode("raid5").args(&["--verbose"]).kill(&["1@3"]);
    jacobi::job(job(), TINY).after("exec 2> /dev/full").run().right_sum(TINY);
    let outcome = jacobi::job(job(), TINY).after("exec > /dev/full").run();
    outcome.says("all PEs resume from checkpoint 3 ");
}

/// Nor when its reader stops reading: lines wait until there is space, and the launcher still
/// answers heartbeats.
#[test]
fn a_reader_that_stops_delays_only_its_lines() {
    let fifo = "mkfifo full && exec 3<> full 2> full";
    let job = Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "2"]);
    let job = job.env("SHMEM_FT_NODE_TIMEOUT", "1").program(&program("steps"), &[]);
    let mut run = job.after(fifo).leaves("full").until("ready");
    let mut both = File::options();
    both.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let full = both.open(run.folder().join("full")).expect("its fifo");
    while (&full).write(&[0]).is_ok() {}
    std::thread::sleep(Duration::from_secs(3)); // the fault itself, of three limits
    assert!(run.is_alive(), "the job goes on");
    let mut fifo = File::open(run.folder().join("full")).expect("its fifo");
    drop(full);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = fifo.read_to_end(&mut bytes); // until the last process of the job has ended
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let outcome = run.end();
    outcome.status(0).prints("stopped");
    let said = reader.join().expect("it reads");
    assert!(said.contains("oshrun: checkpoint 2: ") && !said.contains("lost"), "{said}");
}

/// Limits that the program sets for itself when checkpoint 2 is agreed, at its current use; a PE or
/// a node is killed later. No checkpoint needs more: all are made. A recovery needs descriptors and
/// addresses, to map a substitute's memory: it gives the right bytes, or an end that names the
/// shortage.
#[test]
fn after_a_limit_a_death_is_borne_or_what_is_missing_is_named() {
    needs!(long);
    let fabrics: &[&str] = match super::support::has_ucx_too() {
        true => &["shm", "ucx"],
        false => &["shm"],
    };
    let cases = fabrics
        .iter()
        .flat_map(|&fabric| ["files", "space", "file-size", "locked"].map(|what| (fabric, what)));
    for (fabric, what) in cases {
        for kill in [["--kill", "1@5:copy"], ["--kill-node", "1@5:before"]] {
            let job = Job::new(4).mode("raid5").args(&["--nodes", "4", "--fabric", fabric]);
            let outcome = job.args(&kill).program(&program("limits"), &[what]).run();
            let limited = outcome.out.lines().filter(|line| line.ends_with(" is limited")).count();
            outcome.check(limited >= 4, "every PE should have its limit");
            outcome.check(!outcome.out.contains("refused"), "every checkpoint should be made");
            let harmless = fabric == "shm" && ["file-size", "locked"].contains(&what);
            if harmless || outcome.status == 0 {
                goes_on(&outcome);
            } else {
                let named = [
                    "oo many open files",
                    "annot allocate memory",
                    "cannot be reached",
                    "memory allocation of",
                ];
                let named = named.iter().any(|missing| outcome.count(missing) > 0);
                outcome.check(outcome.status == 3 && named, "what is missing should be named");
            }
        }
    }
}
