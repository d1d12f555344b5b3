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

impl World {
    /// Prints the lines of a start.
    pub(super) fn greet(&self) {
        let words = || {
            let (heap, at) = (
                self.segments.layout().heap_len,
                self.segments.own().base().wrapping_add(self.segments.layout().heap),
            );
            let (n, process) = (self.n_pes(), std::process::id());
            let mode = self.settings.backup_mode.name();
            let more = if self.pace.oversubscribed { "more" } else { "not more" };
            let (incarnation, level) = (self.members.incarnation(), self.thread_level);
            let pool = self.store.pool.threads();
            format!(
                "one of {n} PEs, incarnation {incarnation}, process {process}, thread level \
                 {level}, heap of {heap} bytes at {at:p}, {more} PEs than processors, mode \
                 {mode}, checkpoints by {pool} threads"
            )
        };
        info!("{}", words());
        if self.me() != Pe(0) || self.members.incarnation() != Incarnation::FIRST {
            return;
        }
        if let Some(line) = run_time::line().filter(|_| self.settings.report) {
            self.members.report(ProgressReport::Note { line });
        }
        if startup::is_random() && self.segments.statics().is_some() {
            complain(
                "the executable and its libraries lie at random addresses, because \
                 personality(ADDR_NO_RANDOMIZE) is refused here: a substitute is refused if its \
                 memory holds an address in them",
            );
        }
        let mut out = std::io::stdout().lock(); // a full disk is no reason to stop
        if self.settings.version {
            let _ = writeln!(out, "raidshmem {} (OpenSHMEM 1.6)", env!("CARGO_PKG_VERSION"));
        }
        if self.settings.info {
            let _ = write!(out, "{}", in_force(&self.settings, &self.chosen()));
        }
    }

    /// Returns the choices that the settings left to the library.
    fn chosen(&self) -> Vec<(&'static str, String)> {
        let sizes = self.store.protection().map(|protection| protection.plan.sizes().to_string());
        let group = sizes.map(|sizes| ("SHMEM_FT_GROUP_SIZE", sizes));
        let heap = show_size(self.segments.layout().heap_len as u64);
        let always = [
            ("SHMEM_FT_THREADS", self.store.pool.threads().to_string()),
            ("SHMEM_FT_FABRIC", self.job.fabric.name().to_owned()),
            ("SHMEM_SYMMETRIC_SIZE", heap),
        ];
        group.into_iter().chain(always).collect()
    }
}
