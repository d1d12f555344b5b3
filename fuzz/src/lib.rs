//! One function per parser: accepts any bytes and returns; a panic is a bug.
//!
//! Besides not panicking, each checks a law of the input that it accepts: writing it out and
//! reading it back gives an equal value. `fuzz_targets/` passes these functions to libFuzzer,
//! `tests/fuzz.rs` to its own mutator.

mod archive;
mod reader;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use raidshmem_control::noise::{Session, Side};
use raidshmem_core::ended::Ended;
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::membership::{Action, Membership, MembershipEvent, Shape};
use raidshmem_core::message::{
    AssignmentMessage, Down, Job, Past, PeMessage, ProgressReport, ToPe, Up,
};
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::moves::Move;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_core::store::advice::{Advice, whole_pages};
use raidshmem_core::store::coverage::{Coverage, Piece};
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::stamp::Stamp;
use raidshmem_core::view::{Member, MoveRequest, View};
use raidshmem_launch::cli::args::Args;
use raidshmem_launch::cli::hosts;
use raidshmem_report::page::page;
use raidshmem_report::record::Record;
use raidshmem_segment::statics::{elf, select};
use raidshmem_sys::socket::decode;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A job of two PEs that lost one of them.
const REPORT: &str = r#"{"raidshmem_report":1,"job":{"raidshmem":"0","program":"a","host":"b",
"launcher":7,"since":"c","nodes":["d","e"],"node_of":[0,1],"spares":0,"mode":"raid5","parity":1,
"snapshots":1,"slots":2,"groups":[[0,1]],"heap":4096,"fabric":"shm","settings":[{"name":"f",
"value":null,"default":false,"doc":"g"}]},"end":{"status":3,"words":"h","ran":9.5},"totals":
{"checkpoints":1,"saving":0.5,"again":1.5,"recovery":2.5,"processes":1,"nodes":0,"data":99,
"kept":44},"checkpoints":[
{"count":1,"first":1,"last":1,"begin":1.0,"end":1.5,"took":0.5,"longest":0.5}],
"events":[{"time":0.5,"event":"started"},{"time":2.0,"event":"lost","pes":[1],"node":1,"cause":"i"},
{"time":2.1,"event":"replaced","pe":1,"node":0,"incarnation":1},{"time":2.2,"event":"step","step":
"rebuild"},{"time":2.3,"event":"rebuilt","pe":1,"checkpoint":1,"bytes":99,"from":[0],"took":0.1},
{"time":2.4,"event":"resumed","checkpoint":1,"took":0.3},{"time":3.0,"event":"said","line":"j"}],
"left_out":0,"at_end":[{"pe":1,"memory":5,"scrubbed":[9,1,1]}]}"#;

/// A plan with two checkpoints.
const PLAN: &str = r#"build = "0badf00d"

[[object]]
name = "table"
at = "main.c:5"
address = 16480
bytes = 8192

[[object]]
name = "grid"
at = "it's \"q\".c:14"
code = [[4400, 4421], [4500, 4501]]

[[place]]
at = "main.c:16"
code = [[5000, 5016], [5016, 5032]]
dead = [0, 1]

[[place]]
at = "main.c:20"
code = [[5032, 5040]]
dead = []
"#;

pub use archive::archive;
pub use reader::reader;

/// A parser under test.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("archive", archive),
    ("args", args),
    ("cgroup", cgroup),
    ("control", control),
    ("elf", statics),
    ("heap", heap),
    ("hosts", hosts),
    ("manifest", manifest),
    ("membership", membership),
    ("noise", noise),
    ("plan", plan),
    ("reader", reader),
    ("report", report),
    ("rules", rules),
    ("settings", settings),
    ("stamp", stamp),
    ("words", words),
];

/// Parses a packet of a control connection, as each possible message.
pub fn control(bytes: &[u8]) {
    message::<PeMessage>(bytes);
    message::<Up>(bytes);
    message::<Down>(bytes);
    message::<ToPe>(bytes);
    message::<ProgressReport>(bytes);
    message::<View>(bytes);
    if let Ok(ToPe::AssignmentMessage { job, assignment, .. }) = decode::<ToPe>(bytes)
        && job.is_sound()
        && assignment.is_sound(&job)
    {
        let layout = Layout::new(job.heap_len as usize, job.n_pes as usize);
        assert!(layout.total > layout.store && layout.heap_len >= job.heap_len as usize);
    }
}

fn message<M: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(bytes) else { return };
    let written = postcard::to_allocvec(&message).expect("what was read can be written");
    let again: M = decode(&written).expect("what was written can be read");
    assert_eq!(postcard::to_allocvec(&again).ok(), Some(written));
}

/// Feeds messages of agents, in order, to the deciding state machine.
pub fn membership(bytes: &[u8]) {
    let said = decode::<Vec<(u32, Up)>>(bytes).unwrap_or_else(|_| plausible(bytes));
    let pairs = [("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_INJECT", "1@3,node:1@2:copy")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::from_env(pairs.into_iter()).expect("right settings");
    let shape = Shape { node_of: vec![0, 0, 1, 1], nodes: 3, spares: vec![2], fabric: Fabric::Shm };
    let (mut machine, _) = Membership::new(&shape, &settings, vec![0; 4]);
    let (mut view, mut over) = (ViewNumber(0), false);
    for (node, up) in said {
        let event = match up {
            Up::Memory { pe, memory } => MembershipEvent::MemoryMade { pe, memory },
            Up::Message { proc, what } => MembershipEvent::Message { proc, what },
            Up::Ended { proc, how } => MembershipEvent::Ended { proc, how },
            Up::Shown { number } => MembershipEvent::Shown { node, number },
            Up::Started { .. } | Up::Failed { .. } => MembershipEvent::NodeLost { node },
            Up::StopSignal => MembershipEvent::Drain { node },
            _ => continue, // heartbeats and news, which this machine never sees
        };
        for action in machine.handle(event) {
            assert!(!over, "an action after the end: {action:?}");
            match action {
                Action::Send { message: Down::Show(shown), .. } => {
                    assert!(shown.number >= view && shown.pes.len() == 4, "views only grow");
                    view = shown.number;
                }
                Action::End { .. } => over = true,
                _ => {}
            }
        }
    }
}

/// Maps three bytes to one event, with small numbers: possible events of a job, in any order.
fn plausible(bytes: &[u8]) -> Vec<(u32, Up)> {
    let one = |&[kind, a, b]: &[u8; 3]| {
        let (a, b) = (u32::from(a % 16), u32::from(b % 8));
        let said = |what| Up::Message { proc: a, what };
        let up = match kind % 14 {
            0 => Up::Memory { pe: Pe(a), memory: b },
            1 => Up::Ended { proc: a, how: Ended::Killed(9) },
            2 => Up::Ended { proc: a, how: Ended::Exited(b as i32) },
            3 | 4 => Up::Shown { number: ViewNumber(b.into()) },
            5 | 6 => said(PeMessage::Hello),
            7 => said(PeMessage::AtPoint { rule: b }),
            8 => said(PeMessage::Finalizing { joined: ViewNumber(b.into()), cut: a % 2 == 1 }),
            9 => said(match a % 4 {
                3 => PeMessage::NeedsOthers,
                2 => PeMessage::CaughtUp,
                _ => PeMessage::Finalized,
            }),
            10 => said(PeMessage::Verdict { status: 3, words: String::new() }),
            11 => Up::StopSignal,
            12 => {
                let request = MoveRequest { serial: 1, node: a % 4, joins: a % 2 == 1 };
                let (view, checkpoint) = (ViewNumber(b.into()), CheckpointNumber(1));
                said(PeMessage::Drained { request, view, checkpoint })
            }
            _ => Up::Failed { what: String::new() },
        };
        (a % 4, up)
    };
    bytes.as_chunks::<3>().0.iter().map(one).collect()
}

/// Parses lines `NAME=VALUE` of an environment.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    match Settings::from_env(pairs) {
        Ok(settings) => {
            let again =
                Settings::from_env(settings.to_env().into_iter().map(|(n, v)| (n.to_owned(), v)));
            assert_eq!(again, Ok(settings));
        }
        Err(error) => one_line(&error.to_string()),
    }
}

fn one_line(error: &str) {
    assert!(!error.is_empty() && !error.contains('\n'), "not one line: {error:?}");
}

/// Parses a value of `SHMEM_FT_INJECT`.
pub fn rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match raidshmem_core::inject::parse(&text) {
        Ok(rules) => {
            let written = raidshmem_core::inject::list(&rules);
            assert_eq!(raidshmem_core::inject::parse(&written), Ok(rules));
        }
        Err(error) => one_line(&error.to_string()),
    }
}

/// Parses the words of a command line, separated by zero bytes; the program is this one.
pub fn args(bytes: &[u8]) {
    use clap::Parser;
    let text = String::from_utf8_lossy(bytes);
    let words = std::iter::once("oshrun").chain(text.split('\0')).map(str::to_owned);
    let Ok(args) = Args::try_parse_from(words.chain(["/proc/self/exe".to_owned()])) else { return };
    match args.prepare(std::iter::empty()) {
        Ok(ready) => {
            let Shape { node_of, nodes, spares, .. } = &ready.shape;
            assert!(node_of.iter().chain(spares).all(|node| node < nodes));
            assert_eq!(ready.protected.site.group_of.len(), node_of.len());
        }
        Err(error) => one_line(&error.to_string()),
    }
}

/// Parses the input of `oshreport`; formats accepted input as a page.
pub fn report(bytes: &[u8]) {
    match Record::read(&String::from_utf8_lossy(bytes)) {
        Ok(record) => {
            assert!(page(&record).ends_with("</html>"));
            let written = record.to_json().expect("what was read can be written");
            assert!(Record::read(&written).is_ok(), "what was written can be read");
        }
        Err(error) => one_line(&error.to_string()),
    }
}

/// Parses a list of hosts, in the syntax of `--hosts` and of Slurm, with its counts after a space.
pub fn hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match hosts::parse(&text) {
        Ok(hosts) => assert!(!hosts.is_empty()),
        Err(error) => one_line(&error.to_string()),
    }
    let (list, counts) = text.split_once(' ').unwrap_or((&text, "2"));
    let variable = |name: &'static str| match name {
        "SLURM_JOB_NODELIST" => Some(list.to_owned()),
        "SLURM_TASKS_PER_NODE" => Some(counts.to_owned()),
        _ => Some("1".to_owned()),
    };
    if let Some(Err(error)) = hosts::of_slurm(variable) {
        one_line(&error.to_string());
    }
}

/// Parses the kernel's files about the control groups of a process, about mounts, and about a
/// group, separated by zero bytes.
pub fn cgroup(bytes: &[u8]) {
    use raidshmem_sys::cgroup::{folders, memory_of};
    let text = String::from_utf8_lossy(bytes);
    let mut files = text.split('\0');
    let mut next = || files.next().unwrap_or_default().to_owned();
    let (groups, mounts, file) = (next(), next(), next());
    for controller in ["memory", "pids", ""] {
        let found = folders(&groups, &mounts, controller);
        let above = found.iter().any(|path| path.iter().any(|part| part == ".."));
        assert!(!above || mounts.contains(['.', '\\']), "a group outside of the tree: {found:?}");
    }
    let memory = memory_of([Default::default()], |_| Some(file.clone()));
    assert!(
        memory.is_none_or(|memory| memory.free <= memory.limit),
        "more free than exists: {memory:?}"
    );
}

/// Parses input of a sealed connection: of one that just began, and, with changes in transit (three
/// bytes per change: position and value), of one that is open. A message is accepted unaltered, or
/// not at all.
pub fn noise(bytes: &[u8]) {
    let secret = Secret([7; 32]);
    let pass = |from: &mut Session, to: &mut Session| {
        let bytes: Vec<u8> = from.output().drain(..).collect();
        to.hear(&bytes)
    };
    for side in [Side::Agent, Side::Launcher] {
        let mut session = Session::new(side, &secret);
        let _ = session.hear(bytes);
        assert_eq!(session.take(), None, "a message without a sender");
    }
    let mut agent = Session::new(Side::Agent, &secret);
    let mut launcher = Session::new(Side::Launcher, &secret);
    pass(&mut agent, &mut launcher).expect("both know the secret");
    pass(&mut launcher, &mut agent).expect("both know the secret");
    let said: Vec<Vec<u8>> = bytes.chunks(100).map(<[u8]>::to_vec).collect();
    said.iter().for_each(|message| agent.say(message.clone()).expect("it is open"));
    let mut sealed: Vec<u8> = agent.output().drain(..).collect();
    for &[low, high, change] in bytes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([low, high]));
        if let Some(byte) = sealed.get_mut(at) {
            *byte ^= change;
        }
    }
    let _ = launcher.hear(&sealed);
    let taken: Vec<Vec<u8>> = std::iter::from_fn(|| launcher.take()).collect();
    assert!(said.starts_with(&taken), "a message that was not said so");
}

/// Parses the manifest at the start of a snapshot.
pub fn manifest(bytes: &[u8]) {
    let layout = Layout::new(1 << 20, 4);
    match Coverage::parse(&layout, bytes) {
        Ok(manifest) => {
            let coverage = &manifest.coverage;
            let pieces = coverage.pieces(0..coverage.len().min(1 << 20));
            let visible =
                |piece: Piece| piece.at >= layout.statics && piece.range().end <= layout.store;
            assert!(pieces.into_iter().all(visible), "a piece outside the segment");
            coverage.digest();
            let again = private::encode(manifest.private.iter().copied());
            assert_eq!(private::decode(&again), Some(manifest.private));
        }
        Err(error) => one_line(&error.to_string()),
    }
}

/// Parses a plan.
pub fn plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let plan = match Advice::parse(&text) {
        Ok(plan) => plan,
        Err(error) => return one_line(&error.to_string()),
    };
    assert_eq!(Advice::parse(&plan.text()).as_ref(), Ok(&plan), "{}", plan.text());
    let blocks: Vec<_> =
        (0..plan.objects.len()).map(|at| (at * 9000..at * 9000 + 8500, at)).collect();
    let find = |range: &Range<u64>| Some(range.start as usize % 5000..range.end as usize % 9000);
    for place in 0..=plan.places.len() {
        let out = plan.left_out(place, &blocks, find);
        assert!(out.windows(2).all(|pair| pair[0].end < pair[1].start), "ranges overlap");
        let none = plan.places.get(place).is_none_or(|place| place.dead.is_empty());
        assert!(!none || out.is_empty(), "what is not dead is left out");
        let pages = whole_pages(out);
        assert!(pages.iter().all(|range| range.start % 4096 == 0 && range.end % 4096 == 0));
    }
    for code in plan.places.iter().flat_map(|place| &place.code) {
        assert!(plan.place(code.end).is_some(), "its last byte is code of a place");
        assert_eq!(plan.place(0), None);
    }
}

/// Parses the state of an allocator.
pub fn heap(bytes: &[u8]) {
    let Ok(mut heap) = Heap::decode(bytes) else { return };
    let again = Heap::decode(&heap.encode()).expect("what was written can be read");
    assert_eq!((again.digest(), again.used()), (heap.digest(), heap.used()));
    if let Some(offset) = heap.alloc(100, 64) {
        assert!(offset + 100 <= heap.capacity());
        heap.free(offset).expect("it was allocated");
    }
    let live = heap.live();
    assert!(live.windows(2).all(|pair| pair[0].end <= pair[1].start), "live ranges overlap");
}

/// Returns a stamp of PE 3, for that checkpoint and incarnation.
fn stamp_of(number: u64, incarnation: u32) -> Stamp {
    let (number, incarnation) = (CheckpointNumber(number), Incarnation(incarnation));
    Stamp { number, job: 9, pe: Pe(3), incarnation, whole: true }
}

/// Parses a tile preceded by its stamp: unsealed bytes are rejected.
pub fn stamp(bytes: &[u8]) {
    let Some((stamp, tile)) = bytes.split_at_checked(STAMP) else { return };
    let tile = &tile[..tile.len().min(TILE)];
    let expected = stamp_of(7, 2);
    if expected.holds(stamp, tile) {
        let sealed = (0..=2).map(|incarnation| {
            Stamp { incarnation: Incarnation(incarnation), ..expected }.seal(tile)
        });
        assert!(sealed.into_iter().any(|sealed| sealed == stamp), "a stamp that was not made here");
    }
    for other in [Stamp { number: CheckpointNumber(6), ..expected }, Stamp { job: 8, ..expected }] {
        assert!(!(expected.holds(stamp, tile) && other.holds(stamp, tile)));
    }
}

/// Parses words of the control page and of the store header.
pub fn words(bytes: &[u8]) {
    for word in bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight"))) {
        if let Some(phase) = Phase::unpack(word) {
            assert_eq!(phase.pack(), word);
        }
        let member = Member::unpack(word);
        assert_eq!(Member::unpack(member.pack()), member);
    }
}

struct Image<'a>(&'a [u8]);

impl elf::ExecutableMemory for Image<'_> {
    fn read(&self, address: usize, len: usize) -> Option<Vec<u8>> {
        let from = address.checked_sub(BASE)?;
        Some(self.0.get(from..from.checked_add(len)?)?.to_vec())
    }
}

/// The base address of a fuzzed executable.
const BASE: usize = 0x1000;

/// Parses program headers (8 bytes each: kind, flags, address, length) up to a kind of 0, then the
/// memory of an executable.
pub fn statics(bytes: &[u8]) {
    const KINDS: [u32; 4] = [1, 2, 0x6474_e552, 7];
    let mut headers = Vec::new();
    let mut rest = bytes;
    while let Some((&[kind, flags, a, b, c, l, m, n], tail)) = rest.split_first_chunk::<8>() {
        rest = tail;
        if kind == 0 {
            break;
        }
        let number = |low, mid, high| u32::from_le_bytes([low, mid, high, 0]) as usize;
        let (address, len) = (number(a, b, c), number(l, m, n));
        let kind = KINDS[kind as usize % KINDS.len()];
        headers.push(elf::ProgramHeader { kind, flags: flags.into(), address, len });
    }
    let image = Image(rest);
    let mut foreign: Vec<Range<usize>> = Vec::new();
    if let Ok(Some(dynamic)) = elf::Dynamic::read(&headers, 0, &image) {
        let _ = dynamic.needed();
        for machine in [elf::Machine::X86_64, elf::Machine::Aarch64] {
            foreign.extend(dynamic.foreign(machine).unwrap_or_default());
        }
    }
    if let Some(found) = select(&elf::Executable::new(&headers, foreign), 4096) {
        assert!(found.start % 4096 == 0 && found.len % 4096 == 0 && found.len > 0);
        let inside = found.start..found.start + found.len;
        assert!(found.excluded.iter().all(|e| inside.start <= e.start && e.end <= inside.end));
    }
}

/// Returns a job with four PEs on two nodes of one machine.
fn job_of_four() -> Job {
    Job {
        id: 5,
        n_pes: 4,
        heap_len: 1 << 20,
        node_of: vec![0, 0, 1, 1],
        machine_of: vec![0, 0],
        fabric: Fabric::Shm,
        resume: None,
        domains: Domains::of_hosts(vec!["left".to_owned(), "right".to_owned()]),
    }
}

/// Returns private memory in the format of a manifest.
fn private_memory() -> Vec<u8> {
    let region = Saved { name: "`counter`", contents: &[1, 2, 3] };
    private::encode([region].into_iter())
}

/// Control groups of versions 1 and 2: the groups of a process, the mounts, and the file of a
/// group.
const GROUPS: [&str; 2] = [
    "4:memory:/jobs/7\n0::/\0\
     35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
     41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\0\
     inactive_file 7\nhierarchical_memory_limit 4096\n",
    "0::/a/b\0\
     35 24 0:30 /a /my\\040groups rw shared:9 - cgroup2 cgroup2 rw\n\0\
     1234\n",
];

/// Returns a few valid inputs for each target: a mutator starts with them and the files of the
/// corpus.
pub fn examples() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let past = Past { ran: Duration::from_secs(90), recoveries: 1 };
    let pack = |said: &dyn Fn() -> postcard::Result<Vec<u8>>| said().expect("it can be written");
    let (fired, lost) = (vec![0], vec![Pe(1)]);
    let (incarnation, incarnations) = (Incarnation(2), vec![Incarnation::FIRST; 4]);
    let assignment = AssignmentMessage {
        pe: Pe(1),
        incarnation,
        memory: 3,
        node: 0,
        fired,
        lost,
        incarnations,
        past,
        from_disk: false,
        prelude: Some(vec![0, 1, 2]),
        moves: vec![Move { view: ViewNumber(2), pe: Pe(3), node: 0 }],
    };
    let job = job_of_four();
    let hello = |proc| (proc / 2, Up::Message { proc, what: PeMessage::Hello });
    let memory = |pe| (pe / 2, Up::Memory { pe: Pe(pe), memory: 0 });
    let begin: Vec<(u32, Up)> = (0..4).map(memory).chain((0..5).map(hello)).collect();
    let shown = (0..3).map(|node| (node, Up::Shown { number: ViewNumber(1) }));
    let killed = Ended::Killed(9);
    let mut death: Vec<(u32, Up)> = begin.iter().cloned().chain(shown).collect();
    death.push((0, Up::Ended { proc: 1, how: killed }));
    death.extend((0..3).map(|node| (node, Up::Shown { number: ViewNumber(2) })));
    let mut allocator = Heap::new(1 << 20);
    let first = allocator.alloc(5000, 64).expect("free memory");
    allocator.alloc(100, 4096).expect("free memory");
    allocator.free(first).expect("it was allocated");
    let layout = Layout::new(1 << 20, 4);
    let hole = layout.heap..layout.heap + 64;
    let first = layout.statics..layout.statics + 4096;
    let hole = std::slice::from_ref(&hole);
    let first = std::slice::from_ref(&first);
    let built = Coverage::build(&layout, first, &allocator, [hole, &[]], &private_memory());
    let tile = vec![3; 100];
    let sealed = stamp_of(7, 1).seal(&tile);
    let text = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    BTreeMap::from([
        ("archive", archive::examples()),
        ("reader", reader::examples()),
        ("report", text(&[REPORT])),
        ("plan", text(&[PLAN, "build = \"1\"\n"])),
        ("args", text(&["-n\x004", "-n\x008\0--nodes\x004\0--spares\x001\0--kill\x001@3:copy"])),
        ("control", control_examples(&job, &assignment)),
        ("cgroup", text(&GROUPS)),
        ("heap", vec![allocator.encode()]),
        ("manifest", vec![built.expect("it fits").1]),
        (
            "membership",
            vec![pack(&|| postcard::to_allocvec(&begin)), pack(&|| postcard::to_allocvec(&death))],
        ),
        ("hosts", text(&["a,b:2,c.d", "n[01-03,7],login 2(x3),1", "n[1-4]m[2,3] 4(x8)"])),
        ("noise", vec![vec![0; 300], (0..200).collect()]),
        ("rules", text(&["2@5", "node:1@3:copy, 0@0:resume"])),
        ("settings", text(&["SHMEM_FT_BACKUP_MODE=rs\nSHMEM_FT_PARITY=3\nSHMEM_FT_SCRUB=off\n"])),
        ("stamp", vec![[sealed.as_slice(), &tile].concat()]),
        ("words", vec![Phase::Encoded(CheckpointNumber(5)).pack().to_le_bytes().to_vec()]),
        ("elf", vec![executable()]),
    ])
}

/// Returns messages of the control connections.
fn control_examples(job: &Job, assignment: &AssignmentMessage) -> Vec<Vec<u8>> {
    let assignment = ToPe::AssignmentMessage {
        job: Box::new(job.clone()),
        assignment: assignment.clone(),
        oversubscribed: false,
    };
    let said =
        Up::Message { proc: 1, what: PeMessage::Finalizing { joined: ViewNumber(9), cut: false } };
    let packed = [
        postcard::to_allocvec(&assignment),
        postcard::to_allocvec(&PeMessage::AtPoint { rule: 3 }),
        postcard::to_allocvec(&said),
    ];
    packed.map(|bytes| bytes.expect("it can be written")).to_vec()
}

/// Returns a small executable: one writable segment with a dynamic section of relocations.
fn executable() -> Vec<u8> {
    let segment: [&[u8]; 3] = [
        &[4, 6, 0, 0x10, 0, 0, 0x20, 0], // kind 4 % 4 is the first: a loaded segment
        &[1, 6, 0, 0x10, 0, 0, 0x01, 0],
        &[0; 8],
    ];
    let mut bytes = segment.concat();
    let entries: [(u64, u64); 6] =
        [(5, 0x1100), (10, 64), (6, 0x1140), (7, 0x1180), (8, 48), (0, 0)];
    let mut memory: Vec<u8> = entries
        .iter()
        .flat_map(|&(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat())
        .collect();
    memory.resize(0x2000, 0);
    memory[0x180..0x188].copy_from_slice(&0x1800u64.to_le_bytes());
    memory[0x188..0x190].copy_from_slice(&(1u64 << 32 | 5).to_le_bytes());
    bytes.extend(memory);
    bytes
}
