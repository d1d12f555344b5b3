//! Invalid input: one line that names the culprit and the allowed values, a status, and nothing
//! left.

use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use super::support::built::library;
use super::support::{Job, Outcome, another_build, program};

/// Returns lines of the launcher and the library, without the initial one about survivable losses.
fn said(outcome: &Outcome) -> Vec<&str> {
    let ours = |line: &&str| line.starts_with("oshrun: ") || line.starts_with("raidshmem: ");
    let start = |line: &&str| !line.starts_with("oshrun: raid5: ");
    outcome.err.lines().filter(ours).filter(start).collect()
}

/// Checks for status 2 and one line that contains all of `parts`.
#[track_caller]
fn refused(job: Job, parts: &[&str]) {
    let outcome = job.run();
    outcome.status(2);
    let lines = said(&outcome);
    outcome.check(lines.len() == 1, "one line was expected");
    for part in parts {
        outcome.check(lines[0].contains(part), &format!("`{part}` was expected"));
    }
}

#[test]
fn the_command_line_is_checked_before_anything_starts() {
    let table: &[(&[&str], &[&str])] = &[
        (&["-n", "0", "true"], &["-n 0", "expected 1 to "]),
        (&["-n", "-3", "true"], &["-n -3", "expected 1 to "]),
        (&["-n", "many", "true"], &["-n many", "expected 1 to "]),
        (&["-np", "many", "true"], &["-n many", "expected 1 to "]),
        (&["-n", "p", "true"], &["-n p", "expected 1 to "]),
        (&["-n", "2", "--bind-to", "core", "true"], &["--bind-to", "--bind core"]),
        (&["-n", "2", "--mca", "a", "b", "true"], &["--mca", "SHMEM_FT_"]),
        (&["-c", "2", "true"], &["-c: an option of other launchers", "-n N"]),
        (&["-n2", "--verbos", "true"], &["--verbos", "no such option", "nearest is --verbose"]),
        (&["-n2", "-n3", "true"], &["-n is given twice"]),
        (&["-n"], &["-n: expected -n N"]),
        (&[], &["no program"]),
        (&["-n", "2"], &["no program"]),
        (&["-n", "2", "true", ":", "-n", "1", "true"], &["`:`", "one program"]),
        (&["-n2", "-x", "=1", "true"], &["-x =1", "VAR=VALUE"]),
        (&["-n2", "--wdir", "none", "true"], &["--wdir none", "a folder to run in"]),
        (&["-n2", "--wdir", "/etc/passwd", "true"], &["--wdir /etc/passwd", "a folder"]),
        (&["-n2", "--timeout", "0", "true"], &["--timeout 0", "expected seconds"]),
        (&["-n2", "--timeout", "soon", "true"], &["--timeout soon", "expected seconds"]),
        (&["-n2", "--output", "/dev/null/x", "true"], &["--output /dev/null/x", "a folder"]),
        (&["-n2", "--stdin", "1", "true"], &["--stdin 1", "none"]),
        (&["-n2", "--stop-signal", "KILL", "true"], &["--stop-signal KILL", "USR1"]),
        (&["-n2", "--mode", "raid6", "true"], &["--mode raid6", "none, single, double"]),
        (&["-n2", "--group", "1", "true"], &["--group 1", "2 to 64"]),
        (&["-n2", "--hostfile", "none", "true"], &["--hostfile none", "can be read"]),
        (&["-n2", "--hostfile", "/dev/null", "true"], &["0 hosts", "1 to"]),
        (&["-Ha", "--hostfile", "x", "true"], &["--hosts and --hostfile"]),
        (&["-n", "2", "-z", "true"], &["-z", "no such option"]),
        (&["-n", "1.5", "true"], &["-n 1.5", "expected 1 to "]),
        (&["-n", "99999", "true"], &["-n 99999", "expected 1 to "]),
        (&["-n", "", "true"], &["-n ", "expected 1 to "]),
        (&["-n", "2", ""], &["no such program"]),
        (&["-n", "2", "./no-such-program"], &["./no-such-program", "no such program"]),
        (&["-n", "2", "no-such-program"], &["no-such-program", "PATH"]),
        (&["-n", "2", "/"], &["/", "not an executable file"]),
        (&["-n", "2", "/etc/passwd"], &["/etc/passwd", "not an executable file"]),
        (&["-n", "2", "--nodes", "0", "true"], &["--nodes 0", "expected 1 to 2"]),
        (&["-n", "2", "--nodes", "3", "true"], &["--nodes 3", "expected 1 to 2"]),
        (&["-n", "2", "--nodes", "-1", "true"], &["--nodes -1", "expected 1 to 2"]),
        (&["-n", "2", "--nodes", "two", "true"], &["--nodes two", "expected 1 to 2"]),
        (&["-n", "2", "--spares", "-1", "true"], &["--spares -1", "expected 0 to "]),
        (&["-n", "2", "--spares", "99999", "true"], &["--spares 99999", "expected 0 to "]),
        (&["-n", "2", "--kill", "", "true"], &["--kill: rule ``", "PE@CHECKPOINT"]),
        (&["-n", "2", "--kill", "1@", "true"], &["--kill: rule `1@`", "0, 1, 2 and so on"]),
        (
            &["-n", "2", "--kill", "@1", "true"],
            &["--kill: rule `@1`", "a PE number, node:K or stop:PE"],
        ),
        (&["-n", "2", "--kill", "1@1,0@2", "true"], &["--kill: rule `1@1,0@2`"]),
        (&["-n", "2", "--kill-node", "x@1", "true"], &["--kill-node: rule `node:x@1`"]),
        (&["-n", "2", "--kill", "5@1", "true"], &["5@1", "PEs 0 to 1"]),
        (&["-n", "2", "--kill-node", "1@1", "true"], &["node:1@1", "nodes 0 to 0"]),
        (&["-n", "2", "--kill", "1@1:nowhere", "true"], &["nowhere", "encoded"]),
        (&["-n", "2", "--kill", "one", "true"], &["one", "PE@CHECKPOINT"]),
    ];
    for (words, parts) in table {
        refused(Job::of(words), parts);
    }
}

/// As in other launchers. Options after the program belong to the program.
#[test]
fn np_sets_the_number_of_pes() {
    for (words, pes, said) in [
        (&["-np", "3", "--nodes", "3", "echo", "-np", "2"][..], 3, "-np 2"),
        (&["--nodes", "2", "-np", "2", "echo", "x"], 2, "x"),
        (&["-n", "2", "echo", "-np", "1"], 2, "-np 1"),
    ] {
        let outcome = Job::of(words).env("SHMEM_SYMMETRIC_SIZE", "1M").run();
        let lines = format!("{said}\n").repeat(pes);
        outcome.status(0).check(outcome.out == lines, "a line of each PE was expected");
    }
}

/// Runs the program `exits` with these variables, and without `oshrun`.
fn started_by_another(variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(program("exits"));
    for launcher in ["SLURM_", "FLUX_", "PMI_", "OMPI_", "SHMEM_"] {
        let names = std::env::vars().map(|(name, _)| name);
        names
            .filter(|name| name.starts_with(launcher))
            .for_each(|name| _ = command.env_remove(name));
    }
    command.env("SHMEM_SYMMETRIC_SIZE", "1M").envs(variables.iter().copied());
    command.output().expect("it starts")
}

/// Each task would be a job of one PE, with a sum of its own.
#[test]
fn a_task_of_another_launcher_is_refused_with_a_line() {
    for (tasks, rank, launcher) in [
        ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
        ("FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux"),
        ("PMI_SIZE", "PMI_RANK", "mpirun or srun"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"),
    ] {
        let task = [(tasks, "4"), (rank, "3")];
        let output = started_by_another(&task);
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let start = format!("raidshmem: {tasks}=4 and {rank}=3: {launcher} started 4 tasks, ");
        assert!(line.starts_with(&start) && line.lines().count() == 1, "{line}");
        let wanted = [&task[..], &[("SHMEM_FT_SINGLETON", "1")]].concat();
        let of_pe = [&task[..], &[("RAIDSHMEM_CONTROL_FD", "")]].concat(); // as its program has it
        let alone = [(tasks, "1"), (rank, "0")];
        // A batch script and a shell in an allocation are not tasks of a step.
        let script = [("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")];
        for variables in [&wanted[..], &of_pe, &alone, &script] {
            let output = started_by_another(variables);
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        }
        // A task may be an oshrun, whose agents start PEs.
        let job = Job::new(2).env(tasks, "4").env(rank, "3").program(&program("exits"), &[]);
        job.run().status(0);
    }
}

/// Two blocks of each PE that do not fit.
#[test]
fn a_full_heap_is_reported_once_on_request() {
    let line = ": no space for 8388608 bytes in the symmetric heap, which has \
                SHMEM_SYMMETRIC_SIZE=1M: it returns NULL";
    for (debugs, lines) in [(true, 2), (false, 0)] {
        let job = Job::new(2).env("SHMEM_SYMMETRIC_SIZE", "1M");
        let job = if debugs { job.env("SHMEM_DEBUG", "1") } else { job };
        let outcome = job.program(&program("exits"), &["full"]).run();
        outcome.status(0).check(outcome.count(line) == lines, "one line of each PE");
    }
}

#[test]
fn settings_are_checked_before_anything_starts() {
    let table: &[(&str, &str, &[&str])] = &[
        ("SHMEM_FT_BACKUP_MODE", "raid6", &["raid6", "none, single, double, raid4, raid5, rs"]),
        ("SHMEM_FT_PARITY", "0", &["SHMEM_FT_PARITY=0", "1"]),
        ("SHMEM_FT_SNAPSHOTS", "3", &["SHMEM_FT_SNAPSHOTS=3", "1 to 2"]),
        ("SHMEM_FT_GROUP_SIZE", "1", &["SHMEM_FT_GROUP_SIZE=1", "2 to 64"]),
        ("SHMEM_FT_BACKUP_MOD", "raid5", &["SHMEM_FT_BACKUP_MOD", "SHMEM_FT_BACKUP_MODE"]),
        ("SHMEM_FT_MODE", "raid5", &["SHMEM_FT_MODE", "nearest is SHMEM_FT_BACKUP_MODE"]),
        ("SHMEM_FT_SUBSTITUTE", "maybe", &["maybe", "spawn, spare"]),
        ("SHMEM_FT_ADOPT", "yes", &["SHMEM_FT_ADOPT=yes", "1", "0"]),
        ("SHMEM_FT_PLACEMENT", "", &["SHMEM_FT_PLACEMENT=", "spread, strict"]),
        ("SHMEM_FT_MAX_RESTARTS", "-1", &["SHMEM_FT_MAX_RESTARTS=-1", "0 to 1000000"]),
        ("SHMEM_FT_MEMORY_LIMIT", "1", &["SHMEM_FT_MEMORY_LIMIT=1", "64K to 64T"]),
        ("SHMEM_FT_INJECT", "0@1,garbage", &["SHMEM_FT_INJECT", "`garbage`", "PE@CHECKPOINT"]),
        ("SHMEM_CHECK", "2", &["SHMEM_CHECK=2", "1 (on), 0 (off)"]),
        ("SHMEM_SYMMETRIC_SIZE", "lots", &["SHMEM_SYMMETRIC_SIZE=lots"]),
        ("SHMEM_SYMMETRIC_SIZE", "8MB", &["SHMEM_SYMMETRIC_SIZE=8MB", "64T", "less than 64K"]),
    ];
    for (name, value, parts) in table {
        refused(Job::new(4).env(name, value).args(&["true"]), parts);
    }
}

#[test]
fn mismatches_are_reported_with_numbers() {
    let size = "SHMEM_SYMMETRIC_SIZE";
    refused(Job::new(1000).env(size, "1G").args(&["true"]), &["-n 1000", "1024 MiB", "fewer PEs"]);
    refused(Job::new(1).mode("raid5").args(&["true"]), &["a group of 1 PE", "at least 2"]);
    let rs = Job::new(3).mode("rs").env("SHMEM_FT_PARITY", "3");
    refused(rs.args(&["true"]), &["a group of 3 PEs", "3 parities", "at least 4"]);
    let strict = Job::new(4).mode("raid5").env("SHMEM_FT_PLACEMENT", "strict");
    refused(strict.args(&["true"]), &["SHMEM_FT_PLACEMENT=strict", "not of a whole node"]);
}

/// PE 1's mistake, and the parts of its line.
const TABLE: &[(&str, &[&str])] = &[
    ("pe-high", &["PE 1", "shmem_long_p", "pe 2", "0..1"]),
    ("pe-low", &["PE 1", "shmem_long_p", "pe -1"]),
    ("local", &["PE 1", "shmem_long_p", "is not symmetric"]),
    ("malloc", &["PE 1", "shmem_putmem", "is not symmetric"]),
    ("null", &["PE 1", "shmem_long_get"]),
    ("past-end", &["PE 1", "shmem_putmem"]),
    ("overflow", &["PE 1", "shmem_long_put"]),
    ("misaligned", &["PE 1", "shmem_long_atomic_add"]),
    ("cmp", &["PE 1", "shmem_long_wait_until", "99"]),
    ("put-count", &["PE 1", "shmem_long_put", "more than any memory holds"]),
    ("get-word", &["PE 1", "shmem_long_get", "source", "is not symmetric"]),
    ("p-high", &["PE 1", "shmem_char_p", "pe 17", "0..1"]),
    ("broadcast-local", &["PE 1", "shmem_broadcastmem", "dest", "is not symmetric"]),
    ("root", &["PE 1", "shmem_broadcastmem", "PE_root 2", "0..1"]),
    ("stride", &["PE 1", "shmem_long_iput", "dst 0", "expected 1 or more"]),
    ("stride-end", &["PE 1", "shmem_long_iget", "source", "is not symmetric"]),
    ("block", &["PE 1", "shmem_long_ibput", "dst 1", "expected 2 or more"]),
    ("sig-op", &["PE 1", "shmem_long_put_signal", "sig_op 7", "SHMEM_SIGNAL_SET or _ADD"]),
    ("sig-addr", &["PE 1", "shmem_long_put_signal", "sig_addr", "is not symmetric"]),
    ("fetch-local", &["PE 1", "shmem_long_atomic_fetch", "source", "is not symmetric"]),
    ("put-constant", &["PE 1", "shmem_long_p", "dest", "is constant"]),
    ("reduce-constant", &["PE 1", "shmem_long_sum_reduce", "dest", "is constant"]),
    ("add-constant", &["PE 1", "shmem_long_atomic_add", "dest", "is constant"]),
    ("wait-constant", &["PE 1", "shmem_long_wait_until", "ivar", "is constant"]),
    ("swap-pe", &["PE 1", "shmem_long_atomic_swap", "pe 99", "0..1"]),
    ("wait-local", &["PE 1", "shmem_long_wait_until", "ivar", "is not symmetric"]),
    ("test-any-local", &["PE 1", "shmem_long_test_any", "ivars", "is not symmetric"]),
    ("pe-quiet", &["PE 1", "shmem_pe_quiet", "pe -1", "0..1"]),
    ("broadcast-source", &["PE 1", "shmem_broadcastmem", "source", "is not symmetric"]),
    ("collect-source", &["PE 1", "shmem_collectmem", "source", "is not symmetric"]),
    ("fcollect-source", &["PE 1", "shmem_fcollectmem", "source", "is not symmetric"]),
    ("alltoall-source", &["PE 1", "shmem_alltoallmem", "source", "is not symmetric"]),
    ("reduce-source", &["PE 1", "shmem_long_sum_reduce", "source", "is not symmetric"]),
    ("reduce-dest", &["PE 1", "shmem_long_sum_reduce", "dest", "is not symmetric"]),
    ("scan-source", &["PE 1", "shmem_long_sum_inscan", "source", "is not symmetric"]),
    ("set-root", &["PE 1", "shmem_broadcast64", "PE_root 5", "0..1"]),
    ("invalid-team", &["PE 1", "shmem_team_sync", "SHMEM_TEAM_INVALID"]),
    ("ctx-invalid", &["PE 1", "shmem_ctx_long_p", "SHMEM_CTX_INVALID"]),
    ("ctx-made-up", &["PE 1", "shmem_ctx_quiet", "or not a context"]),
    ("ctx-options", &["PE 1", "shmem_ctx_create", "options 0x40", "SHMEM_CTX_SERIALIZED"]),
    ("ctx-pe", &["PE 1", "shmem_ctx_long_p", "pe 2", "the context's team"]),
    ("ctx-private", &["PE 1", "shmem_ctx_getmem", "SHMEM_CTX_PRIVATE", "the thread that made"]),
    ("ctx-serialized", &["PE 1", "SHMEM_CTX_SERIALIZED", "one thread at a time"]),
    ("ctx-default", &["PE 1", "shmem_ctx_destroy", "the default context"]),
    ("ctx-destroyed", &["PE 1", "shmem_ctx_long_atomic_inc", "destroyed"]),
    ("ctx-destroyed-fence", &["PE 1", "shmem_ctx_fence", "destroyed"]),
    ("ctx-destroyed-session", &["PE 1", "shmem_ctx_session_stop", "destroyed"]),
    ("ctx-destroyed-team", &["PE 1", "shmem_ctx_get_team", "destroyed"]),
    ("ctx-twice", &["PE 1", "shmem_ctx_destroy", "destroyed"]),
    ("session-null", &["PE 1", "shmem_ctx_session_start", "config is NULL"]),
    ("set-negative", &["PE 1", "shmem_sync", "PE_size -1"]),
    ("reduce-negative", &["PE 1", "shmem_long_sum_to_all", "nreduce -1"]),
    ("lock-local", &["PE 1", "shmem_set_lock", "is not symmetric"]),
    ("lock-free", &["PE 1", "shmem_clear_lock", "does not hold the lock"]),
];

/// One PE makes a mistake: it prints one line that names call and argument, and the job ends.
#[test]
fn misuse_of_a_call_names_the_call_and_ends_the_job() {
    for (how, parts) in TABLE {
        refused(Job::new(2).mode("raid5").program(&program("misuse"), &[how]), parts);
    }
    for how in ["free-twice", "free-inside"] {
        let outcome = Job::new(2).program(&program("misuse"), &[how]).run();
        outcome.status(2).says("shmem_free");
    }
    // All PEs together, so each may print it.
    for (how, says) in [
        ("team-twice", "shmem_team_sync: the team is SHMEM_TEAM_INVALID or was destroyed"),
        ("team-mask", "shmem_team_split_strided: config_mask 0x9: expected SHMEM_TEAM_NUM_"),
        ("team-null", "shmem_team_split_strided: the config is NULL, and config_mask 0x1"),
        ("team-negative", "shmem_team_split_strided: num_contexts -1: expected 0 or more"),
        ("team-2d-mask", "shmem_team_split_2d: yaxis_mask 0x8: expected SHMEM_TEAM_NUM_CONTEXTS"),
        ("team-get-mask", "shmem_team_get_config: config_mask 0x2: expected SHMEM_TEAM_NUM_"),
        ("level", "shmem_init_thread: thread level 17: expected 0..3"),
        ("team-world", "shmem_team_destroy: expected a team from a split, once"),
        ("team-private", "shmem_team_destroy: a SHMEM_CTX_PRIVATE context of the team was not"),
        ("team-ctx", "shmem_ctx_quiet: the context is SHMEM_CTX_INVALID, destroyed"),
    ] {
        Job::new(2).program(&program("misuse"), &[how]).run().status(2).says(says);
    }
    let outcome = Job::new(1).program(&program("misuse"), &["init-after"]).run();
    outcome.status(2).says("shmem_init: the library has ended");
}

#[test]
fn a_call_before_init_or_after_finalize_is_named() {
    for (how, pes, routine, when) in [
        ("checkpoint-before", 1, "shmem_checkpoint_all", "before shmem_init"),
        ("put-before", 1, "shmem_long_p", "before shmem_init"),
        ("pe-before", 1, "shmem_my_pe", "before shmem_init"),
        ("restart-before", 1, "shmem_restart_pes", "before shmem_init"),
        ("put-after", 2, "shmem_long_p", "after shmem_finalize"),
    ] {
        let outcome = Job::new(pes).program(&program("misuse"), &[how]).run();
        let line = format!(
            "{routine} was called {when}: allowed only between shmem_init and shmem_finalize"
        );
        outcome.status(2).says(&line);
    }
}

/// Endless devices, a FIFO without a writer, and a folder; a plan also from a pipe, of which each
/// PE would read a part.
#[test]
fn a_file_that_a_setting_names_is_read_with_a_bound() {
    let endless = [
        ("/dev/zero", "file too large"),
        ("named", "it is a FIFO or a pipe"),
        ("/", "Is a directory (os error 21)"),
    ];
    for (file, why) in endless {
        let line = |setting: &str| {
            format!("{setting}{file}: {why}: expected a file that can be read, of at most 16 MiB")
        };
        let job = || Job::new(1).after("mkfifo named").leaves("named");
        let hello = program("hello");
        let plan = job().env("SHMEM_FT_PLAN", file).program(&hello, &[]).run();
        plan.status(2).check(plan.count(&line("SHMEM_FT_PLAN=")) == 1, "a line of the PE");
        let domains = job().env("SHMEM_FT_DOMAINS", file).program(&hello, &[]);
        refused(domains, &[&line("SHMEM_FT_DOMAINS=")]);
        let hosts = job().args(&["--hostfile", file]).program(&hello, &[]);
        refused(hosts, &[&line("--hostfile ")]);
    }
    let job = Job::new(1).env("SHMEM_FT_PLAN", "/dev/stdin").input("text");
    let outcome = job.program(&program("hello"), &[]).run();
    outcome.status(2).says("SHMEM_FT_PLAN=/dev/stdin: it is a FIFO or a pipe: expected a file");
}

/// As a shell does for `--hostfile <(command)`.
#[test]
fn hosts_are_read_from_a_pipe() {
    let job = Job::of(&["--hostfile", "/dev/stdin", "-n", "0", "true"]).input("localhost:2\n");
    refused(job, &["-n 0"]);
    let job = Job::of(&["--hostfile", "/dev/stdin", "true"]).input("local host\n");
    refused(job, &["--hostfile /dev/stdin:1: `local host`"]);
}

/// Some programs close inherited descriptors before they start others.
#[test]
fn a_program_reports_its_closed_connection() {
    let script = format!("RAIDSHMEM_CONTROL_FD=77 exec {}", program("hello").display());
    let outcome = Job::new(2).args(&["sh", "-c", &script]).run();
    outcome.status(1).says(
        "raidshmem: control connection: descriptor 77 was closed before this program began; was \
         the program started by this oshrun?",
    );
    let script = format!("RAIDSHMEM_CONTROL_FD=1 exec {}", program("hello").display());
    let outcome = Job::new(2).args(&["sh", "-c", &script]).run();
    outcome.status(1).says("raidshmem: control connection: Socket operation on non-socket");
}

/// A hidden option, and settings that are not valid text: nothing ends in a panic.
#[test]
fn unusual_values_are_refused_too() {
    refused(Job::of(&["--raidshmem-agent"]), &["an agent is started by oshrun itself"]);
    refused(Job::of(&["--raidshmem-agent", "77"]), &["an agent is started by oshrun itself"]);
    refused(Job::of(&["--raidshmem-agent", "x"]), &["an agent is started by oshrun itself"]);
    let mark = std::ffi::OsString::from_vec(b"ra\xffid5".to_vec());
    let job = Job::new(2).env_os("SHMEM_FT_BACKUP_MODE", &mark).args(&["true"]);
    refused(job, &["SHMEM_FT_BACKUP_MODE=", "none, single, double"]);
}

/// A program that finds the library of another installation.
#[test]
fn a_library_of_another_build_is_refused_in_one_line() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library-of-another-build");
    std::fs::create_dir_all(&folder).expect("a folder");
    another_build(&library(), &folder.join("libraidshmem.so.0"));
    let job = Job::new(2).env("LD_LIBRARY_PATH", folder.to_str().expect("a plain name"));
    let outcome = job.program(&program("steps"), &["2"]).run();
    outcome.status(1);
    let lines = said(&outcome);
    outcome.check(lines.len() == 1, "one line was expected");
    let words = "node 0: the program uses a libraidshmem of build ";
    outcome.check(lines[0].contains(words), &format!("`{words}` was expected"));
}
