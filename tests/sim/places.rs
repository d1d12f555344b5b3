//! Programs that call the checkpoint at two places: before their loop until it succeeds, and at the
//! loop's end. The library's rules decide which PEs are late after a restart, and the result of
//! their calls; a PE's published state for it is a word of its memory here.

use raidshmem_core::protocol::Outcome;
use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::protocol::driver::OpProgress as Followed;
use raidshmem_core::quantity::ViewNumber;
use raidshmem_core::store::site::{Activity, Called, Progress, Verdict, apart, follow};

use super::job::Job;
use super::pe::Proc;

const BEFORE: u64 = 1;
const INSIDE: u64 = 2;

impl Job {
    /// Publishes the call that a process is about to make. Returns true if the process is late, and
    /// has computed nothing.
    pub fn is_behind(&mut self, p: &mut Proc) -> bool {
        if !self.plan.two {
            return false;
        }
        let site = if p.before { BEFORE } else { INSIDE };
        let late = p.apart.as_ref().is_some_and(|apart| apart.is_late(site));
        p.written |= !p.before;
        let (number, new) = (p.agreed.next(), p.joined == ViewNumber(0));
        self.own(p).posted.call = Called { site, number, new, late, varied: false };
        late
    }

    fn progress(&self, p: &Proc, activity: Activity) -> Progress {
        let site = self.memory(p, p.me()).posted.call.site;
        let written = u64::from(p.written);
        Progress { activity, barriers: 0, reached: false, site, written }
    }

    /// Publishes a process' activity, while any PE is late.
    pub fn show_deed(&mut self, p: &mut Proc, activity: Activity) {
        let Some(behind) = p.apart.as_ref().map(|apart| apart.others.clone()) else { return };
        let progress = self.progress(p, activity);
        self.own(p).progress = Some((p.joined, progress));
        for pe in behind {
            if let Some(proc) = self.carrier[pe.at()] {
                self.wake(proc);
            }
        }
    }

    pub fn follow(&mut self, p: &mut Proc) -> Followed {
        let reference = p.apart.as_ref().expect("it is behind").reference;
        let shown = self.memory(p, reference.at()).progress.filter(|(view, _)| *view == p.joined);
        let own = self.progress(p, Activity::Checkpoint);
        match follow(&own, shown.map(|(_, progress)| progress).as_ref(), Vec::new) {
            Some(Verdict::Pass) => {
                self.ending.passed += 1;
                Followed::Out(Outcome::Behind)
            }
            Some(verdict) => {
                self.broken_promise = Some(format!("PE {} is posted {verdict:?}", p.me()));
                Followed::Wait
            }
            None if self.faulted(p) => Followed::Out(Outcome::Changed),
            None => Followed::Wait,
        }
    }

    /// Finds the late PEs, by the calls of all PEs alive in the view of a restart.
    pub fn find_diverged(&mut self, p: &mut Proc) {
        let Brought::Settling(_, calls, ending, _) = &p.met else { return };
        if self.plan.two {
            let own = self.memory(p, p.me()).posted.call.site;
            (p.apart, p.written) = (apart(calls, own).filter(|_| *ending == 0), false);
        }
    }

    /// Records that a process leaves its checkpoint call, saved or skipped.
    pub fn leaves_call(&mut self, p: &mut Proc, saved: bool) {
        p.before = false;
        let me = p.me();
        match &mut p.apart {
            Some(apart) if !saved => apart.behind = false,
            apart => *apart = None,
        }
        if saved && self.plan.two && self.memory(p, me).live != self.plan.content(me, p.number.0) {
            self.broken_promise = Some(format!("no mix: PE {me} saves other bytes"));
        }
    }
}
