//! The ports of local rollback in mapped memory.
//!
//! The logic of a call and the order of its accesses are in `core/replay/`; the accesses are here.
//! An access fails with [`Cut`] if all PEs roll back.
//!
//! Invariant: a call has one [`Caller`], which holds the own log; the log does not move during the
//! call.

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{self, AtomicOutcome, Carried, Located, LogRecord, Stage};
use raidshmem_core::replay::meeting::together;
use raidshmem_core::replay::merge::SubstitutePort;
use raidshmem_core::replay::own::LoggedCall;
use raidshmem_core::replay::port::{CallPort, LogMode, MeetingPort};
use raidshmem_core::update::WordAt;
use raidshmem_core::view::{Member, State as Life};
use raidshmem_segment::log::{Log, Word};
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use tracing::info;

use super::World;
use super::world::local::MeetingGroup;

/// The error of an access: all PEs roll back.
#[derive(Debug, Clone, Copy)]
pub struct Cut;

/// A call of this PE, its log, and what it has read for a meeting.
pub(super) struct Caller<'a> {
    pub world: &'a World,
    pub log: Log<'a>,
    pub call: &'static str,
    /// The PEs that it meets.
    group: &'a MeetingGroup,
    /// The contribution of each of these PEs.
    pub parts: Vec<Located>,
    /// The view in which the handover began.
    view: ViewNumber,
}

impl<'a> Caller<'a> {
    /// Returns the port of a call.
    #[inline(always)]
    pub(super) fn new(world: &'a World, call: &'static str) -> Caller<'a> {
        Caller::in_group(world, call, &MeetingGroup::World)
    }

    /// Returns the port of a call in which these PEs meet.
    #[inline(always)]
    pub(super) fn in_group(
        world: &'a World,
        call: &'static str,
        group: &'a MeetingGroup,
    ) -> Caller<'a> {
        let (log, view) = (world.call_log().own_log(), ViewNumber(0));
        Caller { world, log, call, group, parts: Vec::new(), view }
    }

    /// Reads again where the own log is: PEs may be mapped otherwise in another view.
    pub(super) fn renew_log(&mut self) {
        self.log = self.world.call_log().own_log();
    }

    /// Waits until `is_so` holds; fails if all PEs roll back before that.
    pub(super) fn wait(&self, is_so: impl Fn() -> bool) -> Result<(), Cut> {
        self.wait_as(Waiting::anyone(self.call), is_so)
    }

    /// Like `wait`, with a description of the wait.
    pub(super) fn wait_as(&self, waiting: Waiting, is_so: impl Fn() -> bool) -> Result<(), Cut> {
        let mut cut = false;
        self.world.wait_raw(
            || waiting,
            || {
                let so = is_so();
                cut = !so && self.world.all_roll_back();
                so || cut
            },
        );
        if cut { Err(Cut) } else { Ok(()) }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = Pe> {
        let me = self.world.me();
        Pe::all(self.world.n_pes()).filter(move |&pe| pe != me)
    }
}

impl<'a> CallPort for Caller<'a> {
    type Cut = Cut;
    type Logs = &'a World;
    type There = Log<'a>;
    type Member = Member;

    #[inline]
    fn me(&self) -> Pe {
        self.world.me()
    }

    #[inline]
    fn logs(&self) -> &&'a World {
        &self.world
    }

    #[inline]
    fn way(&mut self) -> LogMode {
        self.world.local.way()
    }

    #[inline(always)]
    fn is_far(&mut self, to: Pe) -> bool {
        self.world.far_calls().is_far(to)
    }

    fn send_far(&mut self, record: LogRecord, compared: u64, fetches: bool) -> Result<u64, Cut> {
        self.send(record.target(), self.numbered(record, compared, &[]), fetches)
    }

    fn await_far(&mut self, to: Pe, number: u64) -> Result<u64, Cut> {
        let far = self.world.far_calls().mirrors().ok_or(Cut)?;
        self.wait(|| far.links().found(to, number).is_some())?;
        Ok(far.links().take_found(to, number).unwrap_or_default())
    }

    fn await_records(&mut self, until: u64) -> Result<(), Cut> {
        let far = self.world.far_calls().mirrors();
        let Some(far) = far.filter(|_| self.log.get(Word::Lacks) != 0) else { return Ok(()) };
        let mut obstacle = None;
        let is_local = self.world.call_log().wait(self.call, |_| {
            let links = far.links();
            obstacle = links.obstacle();
            !links.lacks(until) || obstacle.is_some()
        });
        match obstacle {
            Some(why) => Err(self.roll_all_back(why)),
            None if is_local => Ok(()),
            None => {
                self.world.all_roll_back();
                Err(Cut)
            }
        }
    }

    #[inline(always)]
    fn append(&mut self, record: LogRecord, payload: &[u8]) -> Result<Option<usize>, Cut> {
        let write = |from| self.world.log_writer().write(&self.log, from, payload);
        Ok(self.world.log_writer().append_to(&self.log, record, payload.len(), write))
    }

    #[inline(always)]
    fn append_change(
        &mut self,
        record: LogRecord,
        compares_with: Option<u64>,
    ) -> Result<Option<usize>, Cut> {
        let bytes = record.len as usize;
        Ok(self.world.log_writer().append_to(&self.log, record, bytes, |from| {
            if let Some(value) = compares_with {
                self.log.set_compared(from, value);
            }
        }))
    }

    #[inline]
    fn state(&mut self, from: usize) -> Result<Carried, Cut> {
        Ok(self.log.state(from))
    }

    #[inline]
    fn set_state(&mut self, from: usize, state: Carried) -> Result<(), Cut> {
        self.log.set_state(from, state);
        Ok(())
    }

    fn found(&mut self, from: usize) -> Result<AtomicOutcome, Cut> {
        Ok(self.log.found(from))
    }

    #[inline]
    fn set_found(&mut self, from: usize, found: AtomicOutcome) -> Result<(), Cut> {
        self.log.set_found(from, found);
        Ok(())
    }

    #[inline]
    fn last_answer(&mut self) -> Result<Option<Located>, Cut> {
        let last = self.world.local.cursor.answer.get().checked_sub(1);
        Ok(last.and_then(|from| self.log.read(from as usize)))
    }

    #[inline]
    fn repeat(&mut self, from: usize) -> Result<(), Cut> {
        self.log.repeat(from);
        Ok(())
    }

    #[inline]
    fn tick(&mut self) -> Result<u64, Cut> {
        Ok(self.world.log_writer().tick())
    }

    fn know(&mut self, time: u64) -> Result<(), Cut> {
        self.world.log_writer().know(time);
        Ok(())
    }

    #[inline(always)]
    fn fly(&mut self, to: Pe) -> Result<(), Cut> {
        self.log.word(Word::Flight).store(u64::from(to.0) + 1, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn land(&mut self) -> Result<(), Cut> {
        self.log.word(Word::Flight).store(0, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn order(&mut self) -> Result<(), Cut> {
        self.world.local.order();
        Ok(())
    }

    #[inline(always)]
    fn reached(&mut self, to: Pe) -> Result<Option<Log<'a>>, Cut> {
        Ok(self.world.call_log().reached(to))
    }

    #[inline(always)]
    fn has_taken(&mut self, there: Log<'a>, from: usize) -> Result<bool, Cut> {
        let interval = self.log.get(Word::Interval);
        Ok((from as u64) < there.has_taken(self.world.me(), interval))
    }

    fn adopt_view(&mut self) -> Result<(), Cut> {
        if self.world.all_roll_back() { Err(Cut) } else { Ok(()) }
    }

    fn has_no_record(&mut self) -> Cut {
        self.world.call_log().roll_all_back(self.log.against());
        Cut
    }

    /// Waits for a view with the substitute, which follows the loss on all nodes.
    fn await_shown(&mut self, to: Pe) -> Result<(), Cut> {
        if self.world.topology().has_several_nodes() {
            self.wait(|| self.world.members.member(to).state == Life::Alive)?;
        }
        self.adopt_view()
    }

    fn stage(&mut self, to: Pe) -> Result<Option<Stage>, Cut> {
        Ok(self.world.call_log().stage_of(to))
    }

    fn await_drained(&mut self, to: Pe) -> Result<(), Cut> {
        let is_past = || self.world.call_log().stage_of(to).is_some_and(Stage::is_past_replay);
        self.wait(|| !is_past() || self.world.call_log().reached(to).is_some())
    }

    #[inline]
    fn await_reached(&mut self, to: Pe) -> Result<Member, Cut> {
        if self.world.call_log().reached(to).is_none() {
            self.wait(|| self.world.call_log().reached(to).is_some())?;
        }
        Ok(self.world.members.member(to))
    }

    #[inline]
    fn is_still(&mut self, to: Pe, member: &Member) -> Result<bool, Cut> {
        fence(Ordering::Acquire); // read before the second look
        Ok(self.world.call_log().reached(to).is_some() && self.world.members.member(to) == *member)
    }

    #[inline]
    fn is_wiped(&mut self, pe: Pe) -> Result<bool, Cut> {
        fence(Ordering::Acquire); // found before the second look
        let member = self.world.members.member(pe);
        let is_elsewhere = member.node != self.world.segments.node_of(pe);
        Ok(pe != self.world.me() && (member.state == Life::NodeDead || is_elsewhere))
    }

    fn taken_by(&mut self, pe: Pe, from: usize) -> Result<Option<u64>, Cut> {
        Ok(log::taken_by(&self.world, pe, (self.world.me(), from)))
    }

    #[inline(always)]
    fn ring(&mut self, pe: Pe) -> Result<(), Cut> {
        self.world.segments.ring(pe);
        Ok(())
    }

    fn roll_all_back(&mut self, why: Reason) -> Cut {
        self.world.call_log().roll_all_back(&why);
        Cut
    }

    fn next(
        &mut self,
        is_it: impl FnOnce(&&'a World, &Located) -> bool,
    ) -> Result<Option<LoggedCall>, Cut> {
        let mut replay = lock(&self.world.local.replay);
        Ok(replay.replay.next(&self.world, |found| is_it(&self.world, found)))
    }

    fn is_over(&mut self) -> Result<bool, Cut> {
        Ok(lock(&self.world.local.replay).replay.is_over())
    }

    fn apply(&mut self, until: u64) -> Result<(), Cut> {
        lock(&self.world.local.replay).replay.merge.apply(&mut &*self.world, until);
        Ok(())
    }

    fn apply_all(&mut self) -> Result<bool, Cut> {
        let mut replay = lock(&self.world.local.replay);
        Ok(replay.replay.merge.apply_all(&mut &*self.world))
    }

    fn is_certain(&mut self) -> Result<bool, Cut> {
        Ok(lock(&self.world.local.replay).replay.merge.is_certain())
    }

    fn change_own(&mut self, from: usize, old: u64) -> Result<(), Cut> {
        let (me, mut replay) = (self.world.me(), lock(&self.world.local.replay));
        if let Some(found) = self.log.read(from) {
            replay.replay.merge.change(&mut &*self.world, (me, &found), old);
        }
        Ok(())
    }

    fn assigns_own(&mut self, from: usize) -> Result<(), Cut> {
        let found = self.log.read(from);
        found.iter().for_each(|at| lock(&self.world.local.replay).replay.merge.assigns_blocks(at));
        Ok(())
    }

    fn may_have_changed(&mut self, at: usize) -> Result<bool, Cut> {
        Ok(lock(&self.world.local.replay).replay.merge.may_have_changed(at))
    }

    fn own_word(&mut self, record: &LogRecord, otherwise: u64) -> Result<u64, Cut> {
        let word = WordAt { offset: record.at as usize, bytes: record.block.0 as usize };
        Ok(self.world.load(word).unwrap_or(otherwise))
    }

    fn begin_handover(&mut self) -> Result<(), Cut> {
        self.log.set(Word::Lacks, 0);
        let view = self.world.members.view();
        self.view = view.number;
        if !view.local {
            self.world.local.set_way(LogMode::Plain); // another loss rolled all PEs back
            return Err(Cut);
        }
        self.world.call_log().follow(&view); // this PE works in it from now on
        Ok(())
    }

    fn show(&mut self, stage: Stage) -> Result<(), Cut> {
        self.log.set_stage(self.world.members.incarnation().0, stage);
        Ok(())
    }

    /// Support for this barrier was checked before the replay.
    fn order_others(&mut self) -> Result<bool, Cut> {
        Ok(self.world.segments.order_others())
    }

    fn publish_taken(&mut self) -> Result<(), Cut> {
        let replay = lock(&self.world.local.replay);
        let taken = Pe::all(self.world.n_pes()).zip(replay.replay.merge.taken());
        for (pe, &to) in taken.filter(|&(pe, _)| !self.world.far_calls().is_far(pe)) {
            self.log.take(pe, to as u64);
        }
        Ok(())
    }

    fn log_again(&mut self) -> Result<(), Cut> {
        self.world.members.work_in(self.view);
        let mut replay = lock(&self.world.local.replay);
        replay.took = replay.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        drop(replay);
        self.world.local.set_way(LogMode::Logged);
        self.world.far_calls().open();
        Ok(())
    }

    fn wake_others(&mut self) -> Result<(), Cut> {
        self.others().for_each(|pe| self.world.segments.wake(pe));
        self.world.far_calls().tell_words();
        info!("has caught up in view {}", self.view);
        self.world.members.say(&PeMessage::CaughtUp);
        Ok(())
    }

    fn check_findings(&mut self) -> Result<(), Cut> {
        let Some(why) = self.world.log_meetings().findings() else { return Ok(()) };
        self.world.call_log().demand_global_rollback(why);
        Err(Cut)
    }
}

impl MeetingPort for Caller<'_> {
    fn next_meeting(&mut self) -> Result<u64, Cut> {
        Ok(*lock(&self.world.local.meetings).met(self.group) + 1)
    }

    fn come(&mut self, number: u64, from: Option<usize>) -> Result<(), Cut> {
        fence(Ordering::SeqCst); // what this PE did is done before it comes
        let mut meetings = lock(&self.world.local.meetings);
        if let Some(from) = from {
            self.log.link(meetings.last, from);
            meetings.last = Some(from);
        }
        *meetings.met(self.group) = number;
        drop(meetings);
        self.world.log_meetings().comes(self.group, &self.log, number);
        self.send_meeting(self.group, from)
    }

    fn has_arrived(&mut self, number: u64, from: usize) -> Result<(), Cut> {
        *lock(&self.world.local.meetings).met(self.group) = number;
        self.send_meeting(self.group, Some(from))
    }

    fn await_all(&mut self, number: u64) -> Result<(), Cut> {
        if let MeetingGroup::Part { pes, .. } = self.group {
            let has_come =
                |(index, &pe)| self.world.log_meetings().has_come(self.group, (index, pe));
            return self.wait(|| pes.iter().enumerate().all(has_come));
        }
        let number = self.world.log_meetings().meeting(number);
        let (mut away, mut cut) = (self.others().collect::<Vec<Pe>>(), false);
        self.world.wait_raw(
            || self.world.waiting_for_all(self.call),
            || {
                away.retain(|&pe| self.world.call_log().log_of(pe).get(Word::Met) < number);
                cut = !away.is_empty() && self.world.all_roll_back();
                cut || away.is_empty()
            },
        );
        if cut { Err(Cut) } else { Ok(()) }
    }

    fn view(&mut self) -> Result<ViewNumber, Cut> {
        fence(Ordering::Acquire); // what was read before is older
        Ok(self.world.members.view_number())
    }

    fn has_all_logs(&mut self) -> Result<bool, Cut> {
        Ok(self.world.log_meetings().has_all_logs())
    }

    fn await_logs(&mut self) -> Result<(), Cut> {
        self.wait(|| self.world.log_meetings().has_all_logs())
    }

    fn gather(&mut self, number: u64) -> Result<Option<u64>, Cut> {
        let parts = self.world.log_meetings().parts(self.group, number);
        let time = parts.as_deref().and_then(together);
        self.parts = parts.unwrap_or_default();
        Ok(time)
    }

    fn keep_parts(&mut self) -> Result<(), Cut> {
        let seen = self.parts.iter().map(|part| Some(part.from)).collect();
        *lock(&self.world.local.meetings).seen(self.group) = seen;
        Ok(())
    }

    fn is_any_log_later(&mut self) -> Result<bool, Cut> {
        let begins = |pe: Pe| self.world.call_log().log_of(pe).get(Word::Interval);
        let own = self.log.get(Word::Interval);
        Ok(Pe::all(self.world.n_pes()).any(|pe| begins(pe) > own))
    }
}
