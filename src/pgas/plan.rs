//! The file of `SHMEM_FT_PLAN`: what checkpoints of this very program leave out.
//!
//! Left out: what it says, which is `store::advice`.

#![forbid(unsafe_code)]

use std::path::Path;

use raidshmem_archive::program;
use raidshmem_core::settings::Settings;
use raidshmem_core::store::advice::{Advice, AdviceError};
use raidshmem_sys::input::{self, FILE_MAX, Pipes};

use super::world::advised::Advised;

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error(
        "SHMEM_FT_PLAN={}: {error}: expected a file that can be read, of at most {} MiB",
        .path.escape_debug(),
        FILE_MAX >> 20
    )]
    NoFile {
        /// The file.
        path: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// It is no plan.
    #[error("SHMEM_FT_PLAN={}: {error}", .path.escape_debug())]
    Wrong {
        /// The file.
        path: String,
        /// What is wrong with it.
        error: AdviceError,
    },
    /// It is that of another program.
    #[error(
        "SHMEM_FT_PLAN={}: it is for build {plan}, and this program is build {own}: expected a \
         plan that oshadvise -o wrote for this one", .path.escape_debug()
    )]
    OtherBuild {
        /// The file.
        path: String,
        /// What it is for.
        plan: String,
        /// What runs.
        own: String,
    },
}

/// Reads it, if there is one.
///
/// # Errors
/// It is none for this program.
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
        // One that leaves nothing out needs no table in every checkpoint.
        Ok(own) if own == plan.build && plan.objects.is_empty() => Ok(None),
        Ok(own) if own == plan.build => Ok(Some(Advised::new(plan, settings.audit))),
        Ok(own) => Err(PlanError::OtherBuild { path, plan: plan.build, own }),
        Err(error) => Err(PlanError::NoFile { path: "/proc/self/exe".to_owned(), error }),
    }
}
