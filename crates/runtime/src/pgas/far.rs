//! Operations of a job with logs on PEs that are not mapped, and meetings with them
//! (`core/replay/far.rs`).
//!
//! Each is a record that its target appends to its mirror of this PE's log. A put returns when its
//! record is on its way; a quiet waits for all acknowledgements. What a dead process has not
//! acknowledged is sent to its substitute.
//!
//! Left out: the mirrors and the transport (`world/far.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::far::message::{FarMessage, NumberedRecord};
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_core::replay::port::{CallPort, LogMode};
use raidshmem_core::view::{Member, State};
use raidshmem_sys::{lock, process};

use super::World;
use super::caller::{Caller, Cut};
use super::world::far::FarLogs;
use super::world::local::MeetingGroup;

/// The most bytes to one PE that are not acknowledged, beyond one record.
const WINDOW: usize = 4 << 20;
/// Bytes of the stack of the thread that sends.
const STACK: usize = 256 << 10;
/// The most bytes of a put in a record.
const PUT_MAX: usize = 1 << 28;

/// The messages of this PE to far ones, in a job with logs.
#[derive(Clone, Copy)]
pub(super) struct FarCalls<'a> {
    world: &'a World,
}

/// The time in which a thread waits, and sends what may leave.
pub(super) struct SendingScope<'a> {
    calls: FarCalls<'a>,
    far: &'a FarLogs,
}

impl SendingScope<'_> {
    /// Passes messages to the engine that may leave since others have arrived.
    #[inline]
    pub fn depart_due(&self) {
        self.calls.depart_if_due(self.far);
    }
}

impl Drop for SendingScope<'_> {
    fn drop(&mut self) {
        self.far.waiters.fetch_sub(1, Ordering::SeqCst);
        self.depart_due();
    }
}

impl World {
    /// Returns the messages of this PE to far ones.
    #[inline]
    pub(super) fn far_calls(&self) -> FarCalls<'_> {
        FarCalls { world: self }
    }
}

impl<'a> FarCalls<'a> {
    /// Returns the mirrors of the logs of far PEs, if the job has any.
    #[inline]
    pub fn mirrors(self) -> Option<&'a FarLogs> {
        self.world.local.far.as_deref()
    }

    /// Returns true if an operation on PE `pe` is a message to it.
    #[inline]
    pub fn is_far(self, pe: Pe) -> bool {
        let world = self.world;
        world.local.far.is_some() && pe != world.me() && world.segments.is_remote(pe)
    }

    pub(super) fn pes(self) -> impl Iterator<Item = Pe> {
        Pe::all(self.world.n_pes()).filter(move |&pe| self.is_far(pe))
    }

    /// Passes the messages that leave now to the engine. What is lost with a process, its
    /// substitute gets.
    pub fn depart(self, far: &FarLogs) {
        let Some(engine) = self.world.comm.engine() else { return };
        let _in_order = lock(&far.sending);
        while let Some((pe, parts)) = far.next_departure() {
            let _ = parts.iter().try_for_each(|part| engine.tell(pe, part));
        }
    }

    /// Like [`FarCalls::depart`], if others have arrived that release messages.
    #[inline]
    fn depart_if_due(self, far: &FarLogs) {
        if far.take_due() {
            self.depart(far);
        }
    }

    /// Sends what may leave while no thread of this PE waits in the library.
    pub fn send_always(self)
    where
        'a: 'static,
    {
        let Some(far) = self.mirrors().filter(|far| far.has_replica()) else { return };
        let begun = process::helper("shmem-letters", STACK, move || {
            far.sender.get_or_init(std::thread::current);
            loop {
                self.depart_if_due(far);
                std::thread::park();
            }
        });
        if let Err(error) = begun {
            let words = format!("a thread for messages cannot be started: {error}");
            self.world.members.abort(&words);
        }
    }

    /// Makes the calling thread, which waits, the one that sends.
    pub fn send_while_waiting(self) -> Option<SendingScope<'a>> {
        let far = self.mirrors().filter(|far| far.has_replica())?;
        far.waiters.fetch_add(1, Ordering::SeqCst);
        Some(SendingScope { calls: self, far })
    }

    pub(super) fn pass_answers(self, far: &FarLogs, answers: Vec<(Pe, FarMessage)>) {
        answers.into_iter().for_each(|(pe, answer)| far.depart(pe, answer));
        self.depart(far);
    }

    /// Chooses the PE that holds the replica of the own log.
    fn choose_holder(self, far: &FarLogs) {
        let (view, own) = (self.world.members.view(), self.world.members.node());
        let node = |member: &Member| (member.state == State::Alive).then_some(member.node);
        let mut nodes: Vec<Option<u32>> = view.pes.iter().map(node).collect();
        nodes[self.world.me().at()] = Some(own);
        far.choose_holder(&nodes);
    }

    /// Sends new processes of far PEs what they lack.
    pub fn tell_new_processes(self) {
        let Some(far) = self.mirrors() else { return };
        self.choose_holder(far);
        let words = far.words();
        for (pe, process) in self.world.comm.connections().filter(|&(pe, _)| self.is_far(pe)) {
            if let Some(messages) = far.untold(pe, process) {
                let all = std::iter::once(words.clone()).chain(messages);
                all.for_each(|message| far.depart(pe, message));
            }
        }
        self.depart(far);
    }

    /// Sends the words of the own log to all far PEs.
    pub fn tell_words(self) {
        let Some(far) = self.mirrors() else { return };
        let words = far.words();
        self.pes().for_each(|pe| far.depart(pe, words.clone()));
        self.depart(far);
    }

    /// Begins an interval of the own log, and takes what has waited for it.
    pub fn begin(self, interval: LogInterval) {
        let Some(far) = self.mirrors() else { return };
        let answers = far.begin(interval);
        self.tell_new_processes();
        self.pass_answers(far, answers);
    }

    /// Takes messages of far PEs again, at the end of a replay.
    pub fn open(self) {
        if let Some(far) = self.mirrors() {
            self.pass_answers(far, far.open());
        }
    }

    /// Waits until all operations on far PEs are complete. Not in a replay, in which no PE waits
    /// for another: if a call follows in the log, all before it were complete.
    pub fn quiet(self) {
        let logs = self.world.local.way() == LogMode::Logged;
        let Some(far) = self.mirrors().filter(|_| logs) else { return };
        let is_quiet = || {
            let links = far.links();
            self.pes().all(|pe| links.is_quiet(pe))
        };
        if !is_quiet() {
            // If all PEs roll back, the caller learns of it from its next checkpoint call.
            Caller::new(self.world, "shmem_quiet").wait(is_quiet).unwrap_or(());
        }
    }
}

impl Caller<'_> {
    /// Sends a record, and returns its number.
    pub(super) fn send(&self, pe: Pe, record: NumberedRecord, fetches: bool) -> Result<u64, Cut> {
        let far = self.world.far_calls().mirrors().ok_or(Cut)?;
        let (number, message) = far.send(pe, record, fetches);
        message.into_iter().for_each(|message| far.depart(pe, message));
        self.world.far_calls().depart(far);
        let is_open = || far.links().open_bytes(pe) <= WINDOW;
        if self.world.local.way() == LogMode::Logged && !is_open() {
            self.wait(is_open)?;
        }
        Ok(number)
    }

    pub(super) fn numbered(
        &self,
        record: LogRecord,
        compared: u64,
        payload: &[u8],
    ) -> NumberedRecord {
        let is_of_all = record.kind == Kind::Meeting && record.group() == 0;
        let met = if is_of_all { self.world.log_meetings().meeting(record.at) } else { 0 };
        NumberedRecord { number: 0, record, compared, payload: payload.into(), met }
    }

    /// Sends a put of `bytes`, in as many records as it needs.
    pub(super) fn send_put(&self, record: LogRecord, bytes: &[u8]) -> Result<(), Cut> {
        let send = |at: u64, part: &[u8]| {
            let record = LogRecord { at, len: part.len() as u32, ..record };
            self.send(record.target(), self.numbered(record, 0, part), false).map(drop)
        };
        if bytes.len() <= PUT_MAX {
            return send(record.at, bytes);
        }
        let (block, step) = (record.block.0 as usize, record.block.1);
        for (nth, block) in bytes.chunks(block.max(1)).enumerate() {
            for (piece, part) in block.chunks(PUT_MAX).enumerate() {
                send(record.at + nth as u64 * step + (piece * PUT_MAX) as u64, part)?;
            }
        }
        Ok(())
    }

    /// Sends an atomic operation. Returns the value that it found, or zero unless it `fetches`.
    pub(super) fn send_change(
        &mut self,
        record: LogRecord,
        (compared, fetches): (Option<u64>, bool),
    ) -> Result<u64, Cut> {
        let number = self.send_far(record, compared.unwrap_or_default(), fetches)?;
        if fetches { self.await_far(record.target(), number) } else { Ok(0) }
    }

    /// Reads blocks of bytes of PE `pe`: their length, number, and distance.
    pub(super) fn read_far(
        &self,
        pe: Pe,
        at: usize,
        (block, blocks, step): (usize, usize, usize),
    ) -> Result<Vec<u8>, Cut> {
        let far = self.world.far_calls().mirrors().ok_or(Cut)?;
        let shape = (block as u64, blocks as u64, step as u64);
        let (ticket, message) = far.links().request(pe, at as u64, shape);
        far.depart(pe, message);
        self.world.far_calls().depart(far);
        self.wait(|| far.links().is_answered(pe, ticket))?;
        Ok(far.links().answer(pe, ticket))
    }

    /// Sends the contribution to a meeting, whose own record begins at `from`, to the members that
    /// are far; without a record, the words of the own log.
    pub(super) fn send_meeting(
        &self,
        group: &MeetingGroup,
        from: Option<usize>,
    ) -> Result<(), Cut> {
        if self.world.far_calls().mirrors().is_none() {
            return Ok(());
        }
        let Some(found) = from.and_then(|from| self.log.read(from)) else {
            self.world.far_calls().tell_words();
            return Ok(());
        };
        let len = found.record.len as usize;
        let payload = self.world.segments.bytes_of(self.world.me(), found.payload, len);
        let is_in = |pe: &Pe| match group {
            MeetingGroup::World => true,
            MeetingGroup::Part { pes, .. } => pes.contains(pe),
        };
        let record = self.numbered(found.record, 0, payload);
        for pe in self.world.far_calls().pes().filter(is_in) {
            self.send(pe, record.clone(), false)?;
        }
        Ok(())
    }

    /// Waits until all far PEs have seen the words of the own log; not in a replay.
    pub(super) fn show_words(&self) -> Result<(), Cut> {
        self.world.far_calls().tell_words();
        if self.world.local.way() == LogMode::Replayed {
            return Ok(());
        }
        self.world.far_calls().pes().try_for_each(|pe| self.read_far(pe, 0, (0, 0, 0)).map(drop))
    }
}
