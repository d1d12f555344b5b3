//! Operations of a job with logs on PEs that are not mapped, and meetings with them
//! (`core/replay/far.rs`).
//!
//! Each is a record that its target appends to its mirror of this PE's log. A put returns when its
//! record is on its way; a quiet waits for all acknowledgements. What a dead process has not
//! acknowledged is sent to its substitute.
//!
//! Left out: the mirrors and the messages (`world/far.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::far::{LogInterval, NumberedRecord};
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_segment::log::Word;

use super::World;
use super::caller::{Caller, Cut};
use super::world::far::{FarLogs, Outgoing};
use super::world::local::MeetingGroup;

/// The most bytes to one PE that are not acknowledged, beyond one record.
const WINDOW: usize = 4 << 20;

impl World {
    /// Returns the mirrors of the logs of far PEs, if the job has any.
    #[inline]
    pub(super) fn far_logs(&self) -> Option<&FarLogs> {
        self.local.far.as_deref()
    }

    /// Returns true if an operation on PE `pe` is a message to it, in a job with logs.
    #[inline]
    pub(super) fn is_far(&self, pe: Pe) -> bool {
        self.local.far.is_some() && self.segments.is_remote(pe)
    }

    fn far_pes(&self) -> impl Iterator<Item = Pe> {
        Pe::all(self.n_pes()).filter(|&pe| self.is_far(pe))
    }

    /// Sends fragments. Those that are lost with a process are sent to its substitute.
    fn send_far(&self, pe: Pe, fragments: &[Vec<u8>]) {
        let engine = self.comm.engine();
        let _ = engine.map(|engine| fragments.iter().try_for_each(|part| engine.tell(pe, part)));
    }

    fn send_all(&self, outgoing: Outgoing) {
        outgoing.into_iter().for_each(|(pe, part)| self.send_far(pe, &[part]));
    }

    /// Sends new processes of far PEs what they lack.
    pub(super) fn tell_new_processes(&self) {
        let Some(far) = self.far_logs() else { return };
        for (pe, process) in self.comm.connections().filter(|&(pe, _)| self.is_far(pe)) {
            if let Some(parts) = far.untold(pe, process) {
                self.send_far(pe, &far.words(self.members.incarnation()));
                self.send_far(pe, &parts);
            }
        }
    }

    /// Sends the words of the own log to all far PEs.
    pub(super) fn tell_words(&self) {
        let Some(far) = self.far_logs() else { return };
        let words = far.words(self.members.incarnation());
        self.far_pes().for_each(|pe| self.send_far(pe, &words));
    }

    /// Begins an interval of the own log, and takes what has waited for it.
    pub(super) fn begin_far(&self, interval: LogInterval) {
        let Some(far) = self.far_logs() else { return };
        let answers = far.begin(interval);
        self.tell_new_processes();
        self.send_all(answers);
    }

    /// Takes messages of far PEs again, at the end of a replay.
    pub(super) fn open_far(&self) {
        if let Some(far) = self.far_logs() {
            self.send_all(far.open());
        }
    }

    /// Waits until all operations on far PEs are complete.
    pub(super) fn quiet_far(&self) {
        let Some(far) = self.far_logs().filter(|_| self.logs()) else { return };
        let is_quiet = || self.far_pes().all(|pe| far.is_quiet(pe));
        if !is_quiet() {
            // If all PEs roll back, the caller learns of it from its next checkpoint call.
            Caller::new(self, "shmem_quiet").wait(is_quiet).unwrap_or(());
        }
    }
}

impl Caller<'_> {
    /// Sends a record, and returns its number.
    fn send(&self, pe: Pe, record: NumberedRecord, fetches: bool) -> Result<u64, Cut> {
        let far = self.world.far_logs().ok_or(Cut)?;
        let (number, parts) = far.note(pe, record, fetches);
        self.world.send_far(pe, &parts);
        if far.open_bytes(pe) > WINDOW {
            self.wait(|| far.open_bytes(pe) <= WINDOW)?;
        }
        Ok(number)
    }

    fn numbered(&self, record: LogRecord, compared: u64, payload: &[u8]) -> NumberedRecord {
        let met = self.log.get(Word::Met);
        NumberedRecord { number: 0, record, compared, payload: payload.to_vec(), met }
    }

    /// Sends a put of `bytes`.
    pub(super) fn send_put(&self, record: LogRecord, bytes: &[u8]) -> Result<(), Cut> {
        let record = LogRecord { len: bytes.len() as u32, ..record };
        self.send(record.target(), self.numbered(record, 0, bytes), false).map(drop)
    }

    /// Sends an atomic operation. Returns the value that it found, or zero unless it `fetches`.
    pub(super) fn send_change(
        &self,
        record: LogRecord,
        (compared, fetches): (Option<u64>, bool),
    ) -> Result<u64, Cut> {
        let pe = record.target();
        let far = self.world.far_logs().ok_or(Cut)?;
        let with = self.numbered(record, compared.unwrap_or_default(), &[]);
        let number = self.send(pe, with, fetches)?;
        if !fetches {
            return Ok(0);
        }
        self.wait(|| far.found(pe, number).is_some())?;
        Ok(far.found(pe, number).unwrap_or_default())
    }

    /// Reads blocks of bytes of PE `pe`: their length, number, and distance.
    pub(super) fn read_far(
        &self,
        pe: Pe,
        at: usize,
        (block, blocks, step): (usize, usize, usize),
    ) -> Result<Vec<u8>, Cut> {
        let far = self.world.far_logs().ok_or(Cut)?;
        let shape = (block as u64, blocks as u64, step as u64);
        self.world.send_far(pe, &far.request(pe, at as u64, shape));
        self.wait(|| far.is_answered(pe))?;
        Ok(far.answer(pe))
    }

    /// Sends the contribution to a meeting, whose own record begins at `from`, to the members that
    /// are far; without a record, the words of the own log.
    pub(super) fn send_meeting(
        &self,
        group: &MeetingGroup,
        from: Option<usize>,
    ) -> Result<(), Cut> {
        if self.world.far_logs().is_none() {
            return Ok(());
        }
        let Some(found) = from.and_then(|from| self.log.read(from)) else {
            self.world.tell_words();
            return Ok(());
        };
        debug_assert_eq!(found.record.kind, Kind::Meeting);
        let len = found.record.len as usize;
        let payload = self.world.segments.bytes_of(self.world.me(), found.payload, len);
        let is_in = |pe: &Pe| match group {
            MeetingGroup::World => true,
            MeetingGroup::Part { pes, .. } => pes.contains(pe),
        };
        let members: Vec<Pe> = self.world.far_pes().filter(is_in).collect();
        for pe in members {
            self.send(pe, self.numbered(found.record, 0, payload), false)?;
        }
        Ok(())
    }

    /// Waits until all far PEs have seen the words of the own log.
    pub(super) fn show_words(&self) -> Result<(), Cut> {
        self.world.tell_words();
        let far: Vec<Pe> = self.world.far_pes().collect();
        far.into_iter().try_for_each(|pe| self.read_far(pe, 0, (0, 0, 0)).map(drop))
    }
}
