//! Output of a PE at its start: version and settings if the environment asks for them with
//! `SHMEM_VERSION` and `SHMEM_INFO` (once in a job, on standard output), and the first event of
//! each PE.

use std::io::Write;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::in_force;
use raidshmem_core::settings::units::show_size;
use raidshmem_sys::startup;
use tracing::info;

use super::complain::complain;
use super::{World, run_time};

/// Prints the lines of a start.
pub(super) fn greet(world: &World) {
    let words = || {
        let (heap, at) = (
            world.segments.layout().heap_len,
            world.segments.own().base().wrapping_add(world.segments.layout().heap),
        );
        let (n, process) = (world.n_pes(), std::process::id());
        let mode = world.settings.backup_mode.name();
        let more = if world.pace.oversubscribed { "more" } else { "not more" };
        let (incarnation, level) = (world.members.incarnation(), world.thread_level);
        let pool = world.store.pool.threads();
        format!(
            "one of {n} PEs, incarnation {incarnation}, process {process}, thread level \
             {level}, heap of {heap} bytes at {at:p}, {more} PEs than processors, mode \
             {mode}, checkpoints by {pool} threads"
        )
    };
    info!("{}", words());
    if world.me() != Pe(0) || world.members.incarnation() != Incarnation::FIRST {
        return;
    }
    if let Some(line) = run_time::line().filter(|_| world.settings.report) {
        world.members.report(ProgressReport::Note { line });
    }
    if startup::is_random() && world.segments.statics().is_some() {
        complain(
            "the executable and its libraries lie at random addresses, because \
             personality(ADDR_NO_RANDOMIZE) is refused here: a substitute is refused if its \
             memory holds an address in them",
        );
    }
    let mut out = std::io::stdout().lock(); // a full disk is no reason to stop
    if world.settings.version {
        let _ = writeln!(out, "raidshmem {} (OpenSHMEM 1.6)", env!("CARGO_PKG_VERSION"));
    }
    if world.settings.info {
        let _ = write!(out, "{}", in_force(&world.settings, &chosen(world)));
    }
}

/// Returns the choices that the settings left to the library.
fn chosen(world: &World) -> Vec<(&'static str, String)> {
    let sizes = world.store.protection().map(|protection| protection.plan.sizes().to_string());
    let group = sizes.map(|sizes| ("SHMEM_FT_GROUP_SIZE", sizes));
    let heap = show_size(world.segments.layout().heap_len as u64);
    let always = [
        ("SHMEM_FT_THREADS", world.store.pool.threads().to_string()),
        ("SHMEM_FT_FABRIC", world.job.fabric.name().to_owned()),
        ("SHMEM_SYMMETRIC_SIZE", heap),
    ];
    group.into_iter().chain(always).collect()
}
