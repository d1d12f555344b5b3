//! The file of `SHMEM_FT_PLAN`: what checkpoints of exactly this program leave out.
//!
//! Left out: the contents of a plan (`store::advice`).

#![forbid(unsafe_code)]

use std::path::Path;

use raidshmem_archive::program;
use raidshmem_core::settings::Settings;
use raidshmem_core::store::advice::{Advice, AdviceError};
use raidshmem_sys::input::{self, FILE_MAX, Pipes};

use super::world::advised::Advised;

/// The reason that a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error(
        "SHMEM_FT_PLAN={}: {error}: expected a file that can be read, of at most {} MiB",
        .path.escape_debug(),
        FILE_MAX >> 20
    )]
    NoFile {
        /// The file.
        path: String,
        /// The error of the kernel.
        error: std::io::Error,
    },
    /// The file is not a plan.
    #[error("SHMEM_FT_PLAN={}: {error}", .path.escape_debug())]
    Wrong {
        /// The file.
        path: String,
        /// The fault in it.
        error: AdviceError,
    },
    /// The plan is for another program.
    #[error(
        "SHMEM_FT_PLAN={}: it is for build {plan}, and this program is build {own}: expected a \
         plan that oshadvise -o wrote for this one", .path.escape_debug()
    )]
    OtherBuild {
        /// The file.
        path: String,
        /// The build that the plan is for.
        plan: String,
        /// The build that runs.
        own: String,
    },
}

/// Reads the plan, if there is one.
///
/// # Errors
/// There is a plan, but not a usable one for this program.
pub fn read(settings: &Settings) -> Result<Option<Advised>, PlanError> {
    let Some(path) = settings.plan.clone() else { return Ok(None) };
    let text = match input::text(Path::new(&path), FILE_MAX, Pipes::Refused) {
        Ok(text) => text,
        Err(error) => return Err(PlanError::NoFile { path, error }),
    };
    let plan = match Advice::parse(&text) {
        Ok(plan) => plan,
        Err(error) => return Err(PlanError::Wrong { path, error }),
    };
    match std::fs::read("/proc/self/exe").map(|own| program::digits(&program::read(&own).build)) {
        // A plan that leaves nothing out needs no table in every checkpoint.
        Ok(own) if own == plan.build && plan.objects.is_empty() => Ok(None),
        Ok(own) if own == plan.build => Ok(Some(Advised::new(plan, settings.audit))),
        Ok(own) => Err(PlanError::OtherBuild { path, plan: plan.build, own }),
        Err(error) => Err(PlanError::NoFile { path: "/proc/self/exe".to_owned(), error }),
    }
}
