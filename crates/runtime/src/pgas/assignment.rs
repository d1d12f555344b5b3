//! The place of a process in a job: assigned by the agent that started it, or a job of one PE.
//!
//! Invariant: of all processes that hold a control connection one claims it, and no other reads
//! from it.
//!
//! Left out: the use of the place (`boot`).

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use raidshmem_control::CONTROL_FD;
use raidshmem_control::page::Page;
use raidshmem_core::launched::{self, ForeignTask};
use raidshmem_core::layout::Layout;
use raidshmem_core::message::{AssignmentMessage, Build, Job, Past, PeMessage, ToPe};
use raidshmem_core::placement::Domains;
use raidshmem_core::quantity::{Incarnation, Pe, ViewNumber};
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_core::view::{Member, View};
use raidshmem_sys::socket::{Channel, ChannelError};
use raidshmem_sys::{is_open, memory, process};

use super::panics;

/// The reason that a process has no place in a job.
#[derive(Debug, thiserror::Error)]
pub enum AssignmentError {
    /// The control connection failed.
    #[error("{0}; was the program started by this oshrun?")]
    Channel(#[from] ChannelError),
    /// Another program of this PE has called `shmem_init`.
    #[error(
        "an earlier program of this PE has called shmem_init, and a PE runs one: start this \
         program by an oshrun of its own"
    )]
    SecondProgram,
    /// The process is one of several tasks, each of which would be a job of one PE.
    #[error("{0}")]
    Task(#[from] ForeignTask),
    /// Memory could not be obtained.
    #[error("symmetric memory: {0}")]
    Memory(#[from] std::io::Error),
}

impl AssignmentError {
    /// Returns the exit status of the process.
    pub fn status(&self) -> i32 {
        match self {
            AssignmentError::Channel(_) | AssignmentError::Memory(_) => 1,
            AssignmentError::SecondProgram | AssignmentError::Task(_) => 2,
        }
    }
}

/// The place of a process in the job, as assigned.
pub(super) struct Assignment {
    pub job: Job,
    pub assignment: AssignmentMessage,
    /// True if the PEs of this machine share processors.
    pub oversubscribed: bool,
    pub page: Arc<Page>,
    pub channel: Option<Arc<Channel>>,
    /// The memory files received so far, including that of its own node.
    pub files: BTreeMap<u32, Arc<OwnedFd>>,
}

/// Returns the place of this process.
///
/// # Errors
/// The connection is broken or taken; there is no memory; this is one of several tasks of another
/// launcher, and no agent of ours started it.
pub(super) fn assignment(settings: &Settings, build: &str) -> Result<Assignment, AssignmentError> {
    let control = std::env::var(CONTROL_FD).ok();
    if let Some(fd) = control.as_ref().and_then(|fd| fd.parse::<i32>().ok()) {
        return received(fd, build);
    }
    // A program that a PE starts finds the variable blank.
    let task = launched::task(|name| std::env::var(name).ok());
    match task.filter(|_| control.is_none() && !settings.singleton) {
        Some(task) => Err(task.into()),
        None => singleton(settings),
    }
}

/// Receives the place from the agent that started this process.
fn received(fd: i32, build: &str) -> Result<Assignment, AssignmentError> {
    if !is_open(fd) {
        return Err(ChannelError::Gone(fd).into()); // the parent process closed it
    }
    // SAFETY: the agent left this descriptor open for this process and names it in the environment;
    // no other code in the process knows of it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    process::blank_variable(CONTROL_FD); // children must not take the connection for theirs
    let channel = Arc::new(Channel::inherited(fd));
    if !channel.claim()? {
        return Err(AssignmentError::SecondProgram);
    }
    panics::set_agent(&channel);
    // When an agent dies, the kernel kills the child that it started, but not a process that this
    // child, perhaps a script, started in turn.
    let (first, mut fds) = channel.receive::<ToPe>()?;
    let (ToPe::ParentDeathPipe, Some(pipe)) = (first, fds.pop()) else {
        return Err(ChannelError::Malformed(0).into());
    };
    process::arm(pipe)?;
    channel.send(&Build(build.to_owned()), &[])?;
    channel.send(&PeMessage::Hello, &[])?;
    let (message, mut fds) = channel.receive::<ToPe>()?;
    let (ToPe::AssignmentMessage { job, assignment, oversubscribed }, Some(page)) =
        (message, fds.pop())
    else {
        return Err(ChannelError::Malformed(0).into());
    };
    if !job.is_sound() || !assignment.is_sound(&job) {
        return Err(ChannelError::Malformed(0).into());
    }
    let page = Arc::new(Page::attach(&page, job.n_pes as usize)?);
    let mut files = BTreeMap::new();
    while !files.contains_key(&assignment.node) {
        if let (ToPe::File { node }, mut fds) = channel.receive::<ToPe>()?
            && let Some(file) = fds.pop()
        {
            files.insert(node, Arc::new(file));
        }
    }
    Ok(Assignment { job: *job, assignment, oversubscribed, page, channel: Some(channel), files })
}

/// Returns the place in a job of one PE, which is its own agent.
fn singleton(settings: &Settings) -> Result<Assignment, AssignmentError> {
    let heap_len = settings.symmetric_size.unwrap_or_else(|| memory::default_heap(1));
    let job = Job {
        id: 1,
        n_pes: 1,
        heap_len,
        node_of: vec![0],
        machine_of: vec![0],
        fabric: Fabric::Shm,
        resume: None,
        domains: Domains::default(),
    };
    let (page, _) = Page::create(1)?;
    page.publish(&View { number: ViewNumber(1), pes: vec![Member::first(0)], local: false });
    let memory = memory::create("raidshmem-pe", Layout::new(heap_len as usize, 1).total)
        .map_err(std::io::Error::from)?;
    let (fired, lost, incarnations) = (Vec::new(), Vec::new(), vec![Incarnation::FIRST]);
    let assignment = AssignmentMessage {
        pe: Pe(0),
        incarnation: Incarnation::FIRST,
        memory: 0,
        node: 0,
        fired,
        lost,
        incarnations,
        past: Past::default(),
        from_disk: false,
        prelude: None,
        moves: Vec::new(),
    };
    let files = BTreeMap::from([(0, Arc::new(memory))]);
    Ok(Assignment {
        job,
        assignment,
        oversubscribed: false,
        page: Arc::new(page),
        channel: None,
        files,
    })
}
