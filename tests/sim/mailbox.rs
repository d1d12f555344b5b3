//! Posts of PEs: PEs of one node read them in place; PEs of other nodes write them into the
//! reader's mailbox, since they cannot read each other's memory.
//!
//! A PE's findings go to the members of its group, and arrive before its post that announces them.
//! A post goes to the parent in the tree or to the children, in two parts, each with its own delay,
//! so that a reader may see half of it; no post overtakes the previous one. A transfer in flight
//! when its writer dies may be lost, or arrive, or be delayed for long; one that arrives after the
//! reader has entered a view with another incarnation is rejected. An incarnation and its successor
//! write in different halves, and findings bear a tag.

use raidshmem_core::protocol::At;
use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::protocol::meeting;
use raidshmem_core::quantity::{Incarnation, Pe, ViewNumber};
use raidshmem_core::tree::Tree;
use raidshmem_core::tree::meeting::{Meeting, MeetingStep};
use raidshmem_core::tree::post::{self, FIRST, MeetingId, WORDS, Way};

use super::job::{Job, What};
use super::memory::Posted;
use super::pe::Proc;
use super::plan::Broken;

/// A transfer into the mailbox of a PE.
#[derive(Debug)]
pub struct Transfer {
    from: usize,
    writer: u32,
    to: usize,
    memory: u32,
    part: Part,
    /// True if it was delayed once after its writer died.
    held: bool,
}

/// A part of an entry.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The tag, and the findings.
    Findings(Posted),
    /// The first or second half of a post.
    Post([u64; WORDS], bool),
}

/// The posts of one incarnation of a PE, with its tag; 0 means no incarnation.
#[derive(Debug, Clone, Copy)]
pub struct Half {
    tag: u32,
    posted: Posted,
    post: [u64; WORDS],
}

impl Default for Half {
    fn default() -> Half {
        Half { tag: 0, posted: Posted::default(), post: [0; WORDS] }
    }
}

/// The meetings of a process.
#[derive(Default)]
pub struct Meetings {
    /// Checkpoints begun since the last reset.
    pub checkpoints: u64,
    /// The last meeting of a recovery that is over.
    last: Option<MeetingId>,
    /// The contributions of all to the settling meeting, in that view.
    settled: Option<Brought>,
    now: Option<(MeetingId, Meeting<Brought>)>,
}

impl Job {
    /// True if the PE is remote for a process.
    pub fn is_remote(&self, p: &Proc, pe: usize) -> bool {
        self.plan.far && p.view.pes.get(pe).is_some_and(|member| member.node != p.node)
    }

    /// Returns the findings of a member of the own group.
    pub fn found_by(&self, p: &Proc, pe: usize) -> Posted {
        if !self.is_remote(p, pe) || pe == p.me() {
            return self.memory(p, pe).posted;
        }
        let wanted = p.view.pes[pe].incarnation;
        let Half { tag, posted, .. } = self.read_half(p, pe);
        let own = tag == wanted.0 + 1 || self.untagged();
        if own { posted } else { Posted::default() }
    }

    /// Returns the mailbox entry of PE `pe`'s incarnation in the view of a process.
    fn read_half(&self, p: &Proc, pe: usize) -> Half {
        let half = self.half(p.view.pes[pe].incarnation);
        self.memory(p, p.me()).mailbox.get(&(pe, half)).copied().unwrap_or_default()
    }

    fn half(&self, incarnation: Incarnation) -> usize {
        if self.untagged() { 0 } else { (incarnation.0 & 1) as usize }
    }

    fn untagged(&self) -> bool {
        self.plan.broken == Broken::WordsNotTagged
    }

    fn send(&mut self, p: &Proc, to: usize, part: Part, earliest: u64) -> u64 {
        let time = (self.now + self.delay(self.plan.message)).max(earliest + 1);
        let (from, memory) = (p.me(), p.mapped[to]);
        let transfer = Transfer { from, writer: p.id, to, memory, part, held: false };
        self.at(time, What::Mailbox(Box::new(transfer)));
        time
    }

    /// Sends a PE's findings to the members of its group that cannot read them. Returns the time of
    /// their arrival.
    pub fn publish(&mut self, p: &mut Proc) -> u64 {
        let groups = p.groups();
        let group = groups.plan.of[p.me()].group;
        let members = groups.shapes[group].members.clone();
        let posted = self.memory(p, p.me()).posted;
        let mut there = self.now;
        for to in members {
            if to != Pe::of(p.me()) && self.is_remote(p, to.at()) {
                self.count(p, 1);
                there = there.max(self.send(p, to.at(), Part::Findings(posted), 0));
            }
        }
        if self.plan.broken == Broken::StepBeforeWords { self.now } else { there }
    }

    pub fn land(&mut self, mut transfer: Box<Transfer>) {
        let dead = !self.procs[transfer.writer as usize].alive;
        if dead && !transfer.held && self.plan.chance.one_in(3) {
            transfer.held = true;
            let later = self.now + self.delay(40 * self.plan.message);
            return self.at(later, What::Mailbox(transfer));
        }
        let Transfer { from, writer, to, memory, part, held } = *transfer;
        let entered = self.carrier[to].map(|proc| &self.procs[proc as usize].view);
        let newest =
            entered.and_then(|view| view.pes.get(from)).map_or(Incarnation(0), |pe| pe.incarnation);
        // A PE that enters a view disconnects from the incarnations that are dead in it.
        let incarnation = self.procs[writer as usize].incarnation;
        let fenced = incarnation < newest && !self.untagged();
        let lost = dead && !held && self.plan.chance.one_in(2);
        if lost || fenced {
            return;
        }
        let half = self.half(incarnation);
        let mailbox = &mut self.memories[to][memory as usize].mailbox;
        let entry = mailbox.entry((from, half)).or_default();
        match part {
            Part::Findings(posted) => (entry.tag, entry.posted) = (incarnation.0 + 1, posted),
            Part::Post(words, second) => {
                let range = if second { WORDS / 2..WORDS } else { 0..WORDS / 2 };
                entry.post[range.clone()].copy_from_slice(&words[range]);
                if let Some(proc) = self.carrier[to] {
                    self.wake(proc);
                }
            }
        }
    }

    // ---- meetings -----------------------------------------------------------------------------

    /// Brings a process' contribution to the meeting of a state.
    pub fn come(&mut self, p: &mut Proc, at: At, own: Brought) {
        let number = meeting(at).unwrap_or_else(|| {
            p.meetings.checkpoints += 1;
            FIRST + p.meetings.checkpoints
        });
        let stage = MeetingId { view: p.view.number, number };
        let goes_on = p.meetings.last < Some(stage);
        let tree = &self.tree(p.view.number)[p.me()];
        p.meetings.now = goes_on.then(|| (stage, Meeting::begin(tree, own)));
    }

    fn tree(&self, view: ViewNumber) -> &[Tree] {
        &self.views[view.0 as usize].trees
    }

    /// Returns the contributions of all to the meeting that a process has reached; `None` until all
    /// have arrived.
    pub fn met(&mut self, p: &mut Proc, at: At) -> Option<Brought> {
        let Some((stage, mut now)) = p.meetings.now.take() else {
            return p.meetings.settled.or(Some(Brought::Nothing));
        };
        let me = p.me();
        loop {
            let read = |pe: Pe, way: Way| {
                let pe = pe.at();
                let words = match self.is_remote(p, pe) {
                    true => self.read_half(p, pe).post,
                    false => self.memory(p, pe).posts[way as usize],
                };
                post::open(&words, stage, way).map(|body| Brought::read(at, &body, None))
            };
            let tree = &self.tree(p.view.number)[me];
            let MeetingStep::Post(way) = now.advance(tree, read) else { break };
            let to = match way {
                Way::Up => tree.parent.as_slice(),
                Way::Down => &tree.children,
            };
            let to: Vec<usize> = to.iter().map(|pe| pe.at()).collect();
            self.post(p, &to, way, post::seal(stage, way, &now.sum().body()));
            if now.is_over() {
                if meeting(at).is_some() {
                    p.meetings.last = Some(stage);
                }
                if at == At::MeetSettling {
                    p.meetings.settled = Some(*now.sum());
                }
                return Some(*now.sum());
            }
        }
        p.meetings.now = Some((stage, now));
        None
    }

    fn post(&mut self, p: &mut Proc, to: &[usize], way: Way, words: [u64; WORDS]) {
        self.own(p).posts[way as usize] = words;
        self.count(p, to.len() as u64);
        let mut last = p.told_at;
        for &pe in to {
            if self.is_remote(p, pe) {
                for second in [false, true] {
                    last = last.max(self.send(p, pe, Part::Post(words, second), p.told_at));
                }
            } else if let Some(proc) = self.carrier[pe] {
                self.wake(proc);
            }
        }
        p.told_at = last;
    }

    /// Counts protocol messages that a process sends.
    fn count(&mut self, p: &Proc, messages: u64) {
        let sent = &mut self.ending.sent;
        sent.resize(self.carrier.len(), 0);
        sent[p.me()] += messages;
    }
}
