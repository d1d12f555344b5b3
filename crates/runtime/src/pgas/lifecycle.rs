//! From `shmem_init` to `shmem_finalize`: the one [`World`] of this process.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use raidshmem_core::message::{PeMessage, StartFailure};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::caller;

use super::boot::Frontend;
use super::complain::{complain, set_own_pe};
use super::{World, abort, banner, boot, last, panics};

static WORLD: OnceLock<World> = OnceLock::new();
/// The stage: 0 before init, 1 between init and finalize, 2 after.
static STAGE: AtomicU8 = AtomicU8::new(0);
/// The process that was initialised: its children are not PEs.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// A lock for the thread that leaves the job; other threads wait for it.
static LEAVING: Mutex<()> = Mutex::new(());
/// The thread that leaves; 0 if no thread does.
static LEAVER: AtomicI32 = AtomicI32::new(0);
/// The recovery that a PE in `shmem_finalize` runs when another PE is lost.
static RECOVER: OnceLock<fn(&'static World)> = OnceLock::new();
/// True if the PE leaves the job in good order at an exit with any status.
static ENDS_ANYHOW: AtomicBool = AtomicBool::new(false);

/// Initialises the library; a second call does nothing. Returns the thread level provided, which is
/// the one requested. Wrong settings end the process with one line and exit status 2. `recover` is
/// called when a PE is lost while this one is in `shmem_finalize`.
pub fn init(requested: i32, frontend: Frontend, recover: fn(&'static World)) -> i32 {
    if WORLD.get().is_some() {
        return requested;
    }
    match boot::boot(requested, frontend, exits, ends) {
        Ok(world) => {
            set_own_pe(world.me());
            let world = WORLD.get_or_init(|| world);
            PROCESS.store(std::process::id(), Ordering::Relaxed);
            RECOVER.get_or_init(|| recover);
            abort::watch(world);
            last::note_end_of_thread();
            world.far_calls().send_always();
            STAGE.store(1, Ordering::Release);
            // The first checkpoint reports a fault seen here.
            let _ = world.barriers().barrier("shmem_init");
            world.first_calls().begin_prelude();
            banner::greet(world);
            world.call_log().log_if_one_thread();
        }
        Err(error) => cannot_start(&error.words(), error.status(), error.cause()),
    }
    requested
}

/// Ends this PE, which cannot continue.
fn ends(words: &str) -> ! {
    match WORLD.get() {
        Some(world) => world.members.abort(words),
        None => cannot_start(words, 1, boot::cause_of_memory()),
    }
}

/// Ends this process, which cannot become a PE; the launcher prints the reason, once for all.
fn cannot_start(words: &str, status: i32, cause: StartFailure) -> ! {
    if !panics::send(&PeMessage::CannotStart { status, words: words.to_owned(), cause }) {
        complain(words);
    }
    std::process::exit(status)
}

/// Returns true between `init` and `finalize`.
#[inline]
pub fn initialized() -> bool {
    STAGE.load(Ordering::Acquire) == 1
}

/// Returns true after `finalize`.
pub fn ended() -> bool {
    STAGE.load(Ordering::Acquire) == 2
}

/// Returns the world, if the library is initialised.
#[inline]
pub fn try_world() -> Option<&'static World> {
    if initialized() { WORLD.get() } else { None }
}

/// Returns the world; without one, prints an error and exits with status 2.
#[inline]
pub fn world() -> &'static World {
    match try_world() {
        Some(world) => world,
        None => no_world(),
    }
}

/// Like [`world()`], for a caller that knows the name of its routine.
#[inline]
pub fn world_for(routine: &str) -> &'static World {
    match try_world() {
        Some(world) => world,
        None => untimely(routine),
    }
}

#[cold]
fn no_world() -> ! {
    const OURS: &[&str] = &["sh", "psh", "_my_pe", "_num_pes", "p_my_pe", "p_num_pes"];
    let routine = caller::exported(OURS).unwrap_or("an OpenSHMEM routine".to_owned());
    // A name and its twin may share their code: the call is reported without the `p`.
    untimely(routine.strip_prefix('p').unwrap_or(&routine))
}

#[cold]
fn untimely(routine: &str) -> ! {
    let when = match STAGE.load(Ordering::Acquire) {
        0 => "before shmem_init",
        _ => "after shmem_finalize",
    };
    complain(&format!(
        "{routine} was called {when}: allowed only between shmem_init and shmem_finalize"
    ));
    std::process::exit(2)
}

/// Leaves the job in good order: waits until every PE has come here. A second call does nothing,
/// nor does a call in a child process.
pub fn finalize() {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // A signal handler may exit in the middle of it, on the same thread.
    let inside = LEAVER.load(Ordering::Relaxed) == thread;
    if inside || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let _leaving = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(world), Some(recover)) = (try_world(), RECOVER.get()) {
        LEAVER.store(thread, Ordering::Relaxed);
        world.leave(*recover);
        STAGE.store(2, Ordering::Release);
        last::note_end_of_thread();
        LEAVER.store(0, Ordering::Relaxed);
    }
}

/// Handles the end of the process by `exit` or by the end of `main`: status 0 is the end of a
/// program that has done its work, and any other is a death.
fn exits(status: i32) {
    if (status == 0 && !breaks(Mutant::NoFinalizeAtExit)) || ENDS_ANYHOW.load(Ordering::Relaxed) {
        finalize();
    }
    let is_pe = PROCESS.load(Ordering::Relaxed) == std::process::id();
    if let Some(world) = WORLD.get().filter(|_| is_pe && is_under_valgrind()) {
        world.segments.close();
    }
}

/// Returns true under a tool of valgrind, which preloads a library of its own.
fn is_under_valgrind() -> bool {
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    preloaded.contains("/vgpreload_")
}

/// Makes the library finish at the exit of the program, whatever its status.
pub fn end_at_any_exit() {
    ENDS_ANYHOW.store(true, Ordering::Relaxed);
}

/// Ends the whole job with `status`, for a reason already reported.
pub fn end_job(status: i32) -> ! {
    end_with(status, None)
}

/// Ends the whole job with `status`, as the program requests; reports any status but 0.
pub fn global_exit(status: i32) -> ! {
    end_with(status, Some(status).filter(|status| *status != 0))
}

fn end_with(status: i32, said: Option<i32>) -> ! {
    if let Some(world) = try_world() {
        let me = world.me();
        let words = said.map(|status| format!("PE {me} called shmem_global_exit({status})"));
        world.members.end_job(status, words);
    }
    std::process::exit(status)
}
