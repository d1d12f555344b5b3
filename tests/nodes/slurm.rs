//! A real Slurm: `munged`, `slurmctld` and a `slurmd` for each host of a test's network, with keys,
//! configuration and state in a folder of their own; no file of the machine is read or changed.
//!
//! Each daemon has its own host name. All of them, and the folder, are removed with the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::daemons::Daemons;
use super::net::HUB;
use super::support::processes::{self, Found};
use super::support::{LIMIT, MARKER, has_ucx, jacobi, mounts, program, skip};

/// The time in which the daemons must start.
const START: Duration = Duration::from_secs(30);

struct Slurm {
    hosts: usize,
    /// The daemons of the hosts, then the others.
    daemons: Daemons,
}

impl Slurm {
    fn start(hosts: usize) -> Slurm {
        let mut slurm = Slurm { hosts, daemons: Daemons::new("slurm", hosts) };
        slurm.configure();
        for host in 0..hosts {
            let words = ["slurmd", "-D", "-f", &slurm.path("slurm.conf")];
            let host = slurm.daemons.net.host(host);
            slurm.run(&host, &words);
        }
        let key = format!("--key-file={}", slurm.path("munge.key"));
        let file = |option: &str| format!("--{option}-file={}", slurm.path(option));
        let socket = format!("--socket={}", slurm.path("munge.sock"));
        let [pid, log, seed] = ["pid", "log", "seed"].map(file);
        let munged = ["munged", "--foreground", "--force", &socket, &key, &pid, &log, &seed];
        let controller = ["slurmctld", "-D", "-f", &slurm.path("slurm.conf")];
        for words in [&munged[..], &controller[..]] {
            let hub = slurm.daemons.net.hub();
            slurm.run(&hub, words);
        }
        slurm.daemons.wait_for("every host idle", START, || {
            slurm.ask(&["sinfo", "-h", "-o", "%T %D"]) == format!("idle {hosts}\n")
        });
        slurm
    }

    fn path(&self, name: &str) -> String {
        self.daemons.path(name)
    }

    fn configure(&self) {
        let write = |name: &str, text: &str| fs::write(self.path(name), text).expect("a file");
        let hosts: Vec<String> = (0..self.hosts).map(|host| format!("n{host}")).collect();
        let address = |host: usize| format!("10.9.0.{}", host + 1);
        let nodes: String = (0..self.hosts)
            .map(|host| format!("NodeName=n{host} NodeAddr={} CPUs=2\n", address(host)))
            .collect();
        let folder = self.daemons.folder().display();
        write(
            "slurm.conf",
            &format!(
                "ClusterName=test\nSlurmctldHost=hub({HUB})\nSlurmUser=root\nMailProg=/bin/true\n\
                 AuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock,cred_expire=5\n\
                 SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
                 SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
                 StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
                 SelectType=select/cons_tres\nSlurmdParameters=config_overrides\n\
                 JobAcctGatherType=jobacct_gather/none\nKillWait=1\n\
                 {nodes}PartitionName=all Nodes={} Default=YES State=UP\n",
                hosts.join(",")
            ),
        );
        write("cgroup.conf", "CgroupPlugin=cgroup/v1\n"); // named, to prevent a search
        let lines = (0..self.hosts).map(|host| format!("{} n{host}\n", address(host)));
        write("hosts", &format!("127.0.0.1 localhost\n{}", lines.collect::<String>()));
        let mut key = [0; 64];
        let random = fs::File::open("/dev/urandom").expect("random bytes");
        std::io::Read::read_exact(&mut &random, &mut key).expect("random bytes");
        fs::write(self.path("munge.key"), key).expect("a key");
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.path("munge.key"), own).expect("it is made secret");
        hosts.iter().for_each(|host| fs::create_dir_all(self.path(host)).expect("a folder"));
    }

    /// Returns a command in a namespace, where the host has its name and knows those of the others.
    fn command(&self, namespace: &str, words: &[&str]) -> Command {
        let host = match namespace.rsplit_once("-h") {
            Some((_, number)) if number != "ub" => format!("n{number}"),
            _ => "hub".to_owned(),
        };
        let hosts = format!("--bind '{}'", self.path("hosts"));
        let hosts = mounts::mount(&hosts, Path::new("/etc/hosts"));
        let first = mounts::privately(&format!("hostname {host} && {hosts}"));
        let mut command = self.daemons.net.command(namespace, &first, words);
        command.env("SLURM_CONF", self.path("slurm.conf")).env(MARKER, self.marker());
        command.current_dir(self.daemons.folder());
        command
    }

    fn marker(&self) -> String {
        self.daemons.net.hub()
    }

    fn run(&mut self, namespace: &str, words: &[&str]) {
        let file = |end: &str| {
            let name = format!("{namespace}-{}.{end}", words[0]);
            fs::File::create(self.path(&name)).expect("a file")
        };
        let mut command = self.command(namespace, words);
        command.env_remove(MARKER).stdout(file("out")).stderr(file("err"));
        self.daemons.start(command);
    }

    /// Returns the output of a Slurm command; empty while the controller does not answer.
    fn ask(&self, words: &[&str]) -> String {
        let output = self.command(&self.daemons.net.hub(), words).output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns every process of jobs.
    fn of_jobs(&self) -> Vec<Found> {
        processes::of_job(u32::MAX, &self.marker()) // of no session
    }

    /// Submits `script`, whose output goes to the file `job.out`, and returns its job number.
    fn submit(&self, options: &[&str], script: &str) -> String {
        fs::write(self.path("job.sh"), format!("#!/bin/sh\n{script}\n")).expect("a script");
        let words = ["sbatch", "--parsable", "--output=job.out"];
        let number = self.ask(&[&words[..], options, &["job.sh"]].concat());
        assert!(
            number.trim().parse::<u32>().is_ok(),
            "sbatch: {number}\n{}",
            self.daemons.report()
        );
        number.trim().to_owned()
    }

    /// Waits for the end of a submitted job.
    #[track_caller]
    fn wait_for_end(&self, job: &str) {
        self.daemons.wait_for("end of the job", LIMIT, || {
            self.ask(&["scontrol", "show", "job", job]).contains("JobState=COMPLETED")
        });
    }

    /// Returns the output and the status of each of these commands of a batch script.
    #[track_caller]
    fn batch(&self, options: &[&str], commands: &[String]) -> Vec<Ended> {
        let numbered = commands.iter().enumerate();
        let lines = numbered.map(|(nth, command)| {
            format!("({command}) > {nth}.said 2>&1; echo $? > {nth}.status\n")
        });
        let settings = "export SHMEM_SYMMETRIC_SIZE=16M SHMEM_FT_NODE_TIMEOUT=20\n";
        let job = self.submit(options, &(settings.to_owned() + &lines.collect::<String>()));
        self.wait_for_end(&job);
        let read = |name: String| fs::read_to_string(self.path(&name)).expect("it was written");
        let ended = |(nth, command): (usize, &String)| Ended {
            status: read(format!("{nth}.status")).trim().parse().expect("a status"),
            said: read(format!("{nth}.said")),
            command: command.clone(),
        };
        commands.iter().enumerate().map(ended).collect()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.path("job.out")).unwrap_or_default()
    }

    #[track_caller]
    fn wait_for_line(&self, text: &str) {
        let line = format!("line `{text}`");
        self.daemons.wait_for(&line, LIMIT, || self.output().contains(text));
    }
}

/// A command of a batch script that has ended.
#[derive(Debug)]
struct Ended {
    command: String,
    said: String,
    status: i32,
}

impl Ended {
    /// Fails the test unless its lines with `text` are these, in any order, and its status is
    /// `status`.
    #[track_caller]
    fn has(&self, status: i32, text: &str, lines: &[&str]) {
        let mut found: Vec<&str> = self.said.lines().filter(|line| line.contains(text)).collect();
        found.sort_unstable();
        let is_so = found == lines && self.status == status;
        assert!(is_so, "{}: {lines:?} and {status} were expected: {self:#?}", self.command);
    }
}

/// True if this machine has Slurm.
fn has_slurm() -> bool {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let has = |tool| std::env::split_paths(&folders).any(|folder| folder.join(tool).is_file());
    let there = ["munged", "slurmctld", "slurmd", "srun"].into_iter().all(has);
    if !there {
        skip("slurm", "it is not installed");
    }
    there
}

const REFUSED: &str = "srun started 2 tasks, and each would be a job of one PE: \
                       expected srun --mpi=pmi2, oshrun -n 2 PROGRAM, or SHMEM_FT_SINGLETON=1";
const ALONE: &str = "hello from PE 0 of 1";

/// One of several tasks without PMI is refused with a line; a single process is a job of one PE.
#[test]
fn tasks_of_srun_without_pmi_are_refused_and_a_process_of_its_own_is_a_job_of_one_pe() {
    if !has_slurm() {
        return;
    }
    let slurm = Slurm::start(2);
    let hello = program("hello").display().to_string();
    let command = |start: &str| format!("{start} {hello}");
    let starts = ["srun -n 2", "SHMEM_FT_SINGLETON=1 srun -n 2", "", "srun -N 1 -n 1"];
    let options = ["--nodes=2", "--ntasks-per-node=1"];
    let ended = slurm.batch(&options, &starts.map(command));
    let [by_srun, wanted, script, one] = &ended[..] else { panic!("{ended:?}") };
    let line = |of| format!("raidshmem: SLURM_STEP_NUM_TASKS=2 and SLURM_PROCID={of}: {REFUSED}");
    by_srun.has(2, "raidshmem: ", &[&line(0), &line(1)]);
    assert!(!by_srun.said.contains("hello"), "{by_srun:#?}");
    wanted.has(0, "hello", &[ALONE; 2]);
    script.has(0, "hello", &[ALONE]);
    one.has(0, "hello", &[ALONE]);
    for ended in [wanted, script, one] {
        ended.has(0, "raidshmem: ", &[]); // srun prints more when it waits for hosts
    }
    let words = ["salloc", "--quiet", "--nodes=2", "--ntasks=4", &hello];
    assert_eq!(slurm.ask(&words).trim(), ALONE, "in salloc");
}

/// Tasks of a step are the PEs of a job. Its status is that of the job, a PE is killed and another
/// one adopts its memory, and a signal to the step stops the job; nothing is left of it.
#[test]
fn tasks_of_srun_with_pmi_are_the_pes_of_a_job_that_survives() {
    if !has_slurm() || !has_ucx() {
        return;
    }
    let slurm = Slurm::start(2);
    let run =
        |settings: &str, program: &str| format!("{settings} srun --mpi=pmi2 -N 2 -n 4 {program}");
    let [hello, exits] = ["hello", "exits"].map(|name| program(name).display().to_string());
    let sum = jacobi::serial(jacobi::TINY);
    let jacobi = format!("{} {}", program("jacobi").display(), jacobi::TINY.join(" "));
    let ended = slurm.batch(
        &["--nodes=2", "--ntasks-per-node=2", "--overcommit"],
        &[
            run("", &hello),
            run("", &format!("sh -c '{hello}; exit 3'")),
            run("SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_INJECT=1@3", &jacobi),
            run("", &format!("{exits} global 7")),
        ],
    );
    let hellos = [0, 1, 2, 3].map(|pe| format!("hello from PE {pe} of 4"));
    ended[0].has(0, "hello", &hellos.each_ref().map(String::as_str));
    ended[1].has(3, "hello", &hellos.each_ref().map(String::as_str));
    assert_eq!(ended[2].status, 0, "{:#?}", ended[2]);
    assert_eq!(jacobi::sum(&ended[2].said), Some(sum.as_str()), "{:#?}", ended[2]);
    assert!(ended[2].said.contains("PE 1 was killed"), "{:#?}", ended[2]);
    ended[3].has(7, "hello", &[]);
    let end = Instant::now() + START;
    for found in slurm.of_jobs() {
        assert!(processes::ends_before(found.pid, end), "left behind: {}", found.line());
    }
}

/// A step of one task on one of two hosts.
#[test]
fn oshrun_in_a_step_has_the_hosts_of_the_allocation() {
    if !has_slurm() || !has_ucx() {
        return;
    }
    let slurm = Slurm::start(2);
    let oshrun = format!("{} -n 2 --report-placement", env!("CARGO_BIN_EXE_oshrun"));
    let show = format!("{oshrun} {}", program("hello").display());
    let starts = ["", "srun -n 1 -N 1", "srun -n 1 -N 1 sh -c 'exec \"$@\"' sh"];
    let commands = starts.map(|start| format!("{start} {show}"));
    let both = ["hello from PE 0 of 2", "hello from PE 1 of 2"];
    for ended in slurm.batch(&["--nodes=2", "--ntasks-per-node=1"], &commands) {
        ended.has(0, "hello", &both);
        assert!(["n0", "n1"].iter().all(|host| ended.said.contains(host)), "{ended:#?}");
    }
}

/// Three hosts with a PE each and two spare ones. Two are lost: first the job's processes on a
/// host, by SIGKILL, then a host with all its processes, which Slurm gives up as well.
#[test]
fn a_job_of_sbatch_continues_without_its_lost_hosts_on_the_spare_ones() {
    needs!(has_ucx);
    const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "6144", "--halo", "32"];
    let slurm = Slurm::start(5);
    let script = format!(
        "export SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=16M SHMEM_FT_NODE_TIMEOUT=5\n\
         {} -n 3 --verbose {} {}\necho status $?",
        env!("CARGO_BIN_EXE_oshrun"),
        program("jacobi").display(),
        LONG.join(" ")
    );
    let job = slurm.submit(&["--no-kill", "--nodes=5", "--ntasks-per-node=1"], &script);
    slurm.wait_for_line("checkpoint 3: ");
    let of_job: Vec<u32> = slurm.of_jobs().iter().map(|found| found.pid).collect();
    let there = slurm.daemons.net.processes(&slurm.daemons.net.host(1));
    assert!(there.iter().filter(|pid| of_job.contains(pid)).count() >= 3, "supervisor, agent, PE");
    slurm.daemons.net.kill(1, Some(slurm.daemons.id(1)));
    slurm.wait_for_line("node 1 was lost with PE 1");
    slurm.wait_for_line("all PEs resume from checkpoint");

    slurm.daemons.net.link(2, false);
    slurm.daemons.net.kill(2, None);
    slurm.ask(&["scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=killed"]);
    assert!(slurm.ask(&["sinfo", "-h", "-n", "n2", "-o", "%T"]).starts_with("down"));
    slurm.wait_for_line("node 2 was lost with PE 2");
    slurm.wait_for_line("status ");
    slurm.wait_for_end(&job);
    let output = slurm.output();
    assert!(output.contains("status 0\n"), "{output}");
    assert_eq!(jacobi::sum(&output), Some(jacobi::serial(LONG).as_str()), "{output}");
    assert_eq!(output.matches("was lost with").count(), 2, "{output}");
    let end = Instant::now() + START;
    for found in slurm.of_jobs() {
        assert!(processes::ends_before(found.pid, end), "left behind: {}", found.line());
    }
}

/// Slurm drains a host: its PE moves to the spare one, and nothing is computed again.
#[test]
fn a_host_that_slurm_drains_leaves_the_job() {
    needs!(has_ucx);
    const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "49152", "--halo", "32"];
    let slurm = Slurm::start(4);
    let script = format!(
        "export SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=16M\n\
         {} -n 3 --verbose {} {}\necho status $?",
        env!("CARGO_BIN_EXE_oshrun"),
        program("jacobi").display(),
        LONG.join(" ")
    );
    let job = slurm.submit(&["--nodes=4", "--ntasks-per-node=1"], &script);
    slurm.wait_for_line("checkpoint 3: ");
    let launcher = slurm.of_jobs().into_iter().find(|found| found.words.contains("oshrun -n 3"));
    let launcher = launcher.expect("the launcher").pid.to_string();
    let words = ["--add", "n9", &launcher];
    let command =
        [&["nsenter", "--net", "--target", &launcher, env!("CARGO_BIN_EXE_oshrun")][..], &words];
    let refused = slurm.command(&slurm.daemons.net.hub(), &command.concat()).output();
    let said = String::from_utf8_lossy(&refused.expect("nsenter runs").stderr).into_owned();
    assert!(said.ends_with(": n9 is not in the allocation of the job\n"), "{said}");
    slurm.ask(&["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=repair"]);
    slurm.wait_for_line("node 1 is drained after the next checkpoint, since Slurm drains n1");
    slurm.wait_for_line("node 1 is drained: PE 1 moved to node 3; nothing was computed again");
    slurm.wait_for_end(&job);
    let output = slurm.output();
    assert!(output.contains("status 0\n"), "{output}");
    assert_eq!(jacobi::sum(&output), Some(jacobi::serial(LONG).as_str()), "{output}");
    assert_eq!(output.matches("since Slurm drains").count(), 1, "{output}");
}

/// The script of `docs/running.md`, with Slurm's signal sent to the steps by hand: the job stops
/// with its state on disk, is queued again, and resumes from there.
#[test]
fn a_job_whose_time_limit_expires_is_queued_again_and_continues() {
    needs!(has_ucx);
    const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "6144", "--halo", "32"];
    let slurm = Slurm::start(3);
    let text = include_str!("../../docs/running.md");
    let (_, script) = text.split_once("export SHMEM_FT_STORE=$PWD").expect("the script");
    let (script, _) = script.split_once("```").expect("its end");
    let program = format!("{} {}", program("jacobi").display(), LONG.join(" "));
    let script = script.replace("-n 16", "-n 3 --verbose").replace("./program", &program);
    let script = script.replace("oshrun ", &format!("{} ", env!("CARGO_BIN_EXE_oshrun")));
    let settings = "export SHMEM_SYMMETRIC_SIZE=16M SHMEM_FT_NODE_TIMEOUT=5";
    let script = format!("{settings}\nexport SHMEM_FT_STORE=$PWD{script}");
    let options = ["--nodes=3", "--ntasks-per-node=1", "--requeue", "--open-mode=append"];
    let job = slurm.submit(&options, &script);
    slurm.wait_for_line("checkpoint 3: ");
    slurm.ask(&["scancel", "--signal=USR1", &job]);
    slurm.wait_for_line("stopped on request, with checkpoint ");
    slurm.wait_for_line("oshrun: begins from set ");
    slurm.wait_for_end(&job);
    let output = slurm.output();
    assert_eq!(jacobi::sum(&output), Some(jacobi::serial(LONG).as_str()), "{output}");
    assert!(!output.contains("was killed by") && !output.contains("was lost"), "{output}");
}
