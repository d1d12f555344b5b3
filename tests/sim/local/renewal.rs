//! The port by which a substitute on another node gets its log back.

use std::rc::Rc;

use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::far::links::FarLinks;
use raidshmem_core::replay::far::renewal::RenewalPort;
use raidshmem_core::replay::far::replica::LogReplica;
use raidshmem_core::replay::log::Stage;
use raidshmem_core::view::State as Life;

use super::far::Mirrors;
use super::port::{Caller, Sight, Stop, words};

impl Sight<'_> {
    /// Maps and connects to the PEs of the view that the node shows.
    pub fn follows(&mut self) {
        let view = Rc::clone(self.job.page(self.own().node));
        if self.own().mapped_in != view.number {
            self.own_mut().map(&view);
            self.job.connects(self.process);
        }
    }

    /// Returns true if all living PEs have answered the request for the replica.
    fn is_answered(&self) -> bool {
        let view = self.view();
        let links = self.own().links.as_ref().expect("it has its number");
        let mut others = view.pes.iter().enumerate().filter(|&(pe, member)| {
            member.state == Life::Alive && self.job.are_far(self.process, pe)
        });
        others.all(|(pe, member)| links.has_answered(Pe::of(pe), member.incarnation))
    }
}

impl Caller<'_> {
    /// Waits for `look` to find something.
    pub fn finds<A: Clone + 'static>(
        &mut self,
        look: impl Fn(&mut Sight) -> Option<A>,
    ) -> Result<A, Stop> {
        self.shared(|sight| {
            sight.follows();
            match look(sight) {
                Some(found) => Ok(found),
                None if !sight.view().local => Err(Stop::Cut),
                None => Err(Stop::Blocked),
            }
        })
    }
}

impl RenewalPort for Caller<'_> {
    type Cut = Stop;

    fn fetch(&mut self) -> Result<(), Stop> {
        self.shared(|sight| {
            sight.job.with_links(sight.process, |links, _| links.begin_fetch());
            sight.job.connects(sight.process);
            Ok(())
        })
    }

    fn await_answers(&mut self) -> Result<(), Stop> {
        self.finds(|sight| sight.is_answered().then_some(()))
    }

    fn newest(&mut self) -> Result<Option<LogReplica>, Stop> {
        self.private(|sight| {
            let newest = sight.job.with_links(sight.process, |links, _| links.newest_replica());
            Ok(newest.flatten())
        })
    }

    fn restore(&mut self, replica: &LogReplica) -> Result<(), Stop> {
        self.private(|sight| {
            let sent = sight.job.sent.borrow();
            let places = words(&replica.records);
            let entries: Vec<_> = places.iter().map(|&at| sent[at as usize].clone()).collect();
            drop(sent);
            let times = entries.iter().map(|entry| entry.record.time.max(entry.found.seen));
            let arrived = replica.arrivals.iter().map(|arrival| arrival.time);
            let last = times.chain(arrived).max().unwrap_or_default();
            let (node, incarnation) = (sight.own().node, sight.own().incarnation);
            let clock = sight.job.clock(node);
            *clock = last.max(*clock);
            let log = sight.log();
            (log.entries, log.met, log.era) = (entries, replica.head.met, replica.interval.era);
            log.interval = CheckpointNumber(replica.interval.checkpoint);
            (log.replica, log.flight, log.lacks) = (None, None, true);
            log.stage = (incarnation, Stage::Replaying);
            log.taken.fill(0);
            log.acked.fill(0);
            Ok(())
        })
    }

    fn resend(&mut self, replica: LogReplica) -> Result<(), Stop> {
        self.shared(|sight| {
            let n_pes = sight.job.shared.len();
            let far = Pe::all(n_pes).filter(|pe| sight.is_far(pe.at())).collect::<Vec<_>>();
            let of = (replica.interval, replica.arrivals.clone());
            let begin =
                |links: &mut FarLinks, port: &mut Mirrors| links.begin_restore(port, of, far);
            let answers = sight.job.with_links(sight.process, begin);
            sight.job.connects(sight.process);
            sight.job.answers(sight.process, answers.unwrap_or_default());
            Ok(())
        })
    }

    fn give_up(&mut self, why: Reason) -> Stop {
        self.sight.request(why);
        Stop::Cut
    }
}
