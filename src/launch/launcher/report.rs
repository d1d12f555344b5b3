//! Reports of PEs, and the end by a signal, as lines for people.

#![forbid(unsafe_code)]

use raidshmem_core::message::{Found, Report};

use crate::launch::lines::say;

/// The status of a job that was stopped by `signal`, as a shell would show it.
pub(super) fn signalled(signal: i32) -> i32 {
    say(&format!("stopped by signal {signal}; every PE is killed"));
    128 + signal
}

/// What changed, as the end of a line.
fn changed(found: &Found) -> String {
    let Found { changed, of, by_pages } = found;
    let by = if *by_pages { "pages" } else { "digests" };
    format!("; {changed} of {of} blocks changed, by {by}")
}

/// A report as a line. `kept` is what a PE keeps for others in this job's mode.
pub(super) fn tell(report: &Report, kept: &str) -> String {
    let ms = |micros: &u64| *micros as f64 / 1000.0;
    let pes = |pes: &[u32]| pes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
    match report {
        Report::Checkpoint { number, bytes, parity_bytes, micros, found } => format!(
            "checkpoint {number}: {:.1} MiB a PE protected by {:.1} MiB of {kept} in {:.1} ms{}",
            mib(bytes),
            mib(parity_bytes),
            ms(micros),
            found.as_ref().map(changed).unwrap_or_default()
        ),
        Report::Adopted { pe, number, bytes, micros } => format!(
            "PE {pe}: memory of the dead process adopted, with {:.1} MiB of checkpoint {number}, \
             after {:.1} ms",
            mib(bytes),
            ms(micros)
        ),
        Report::Rebuilt { pe, number, bytes, from, micros } => format!(
            "PE {pe}: {:.1} MiB of checkpoint {number} rebuilt from PEs {} in {:.1} ms",
            mib(bytes),
            pes(from),
            ms(micros)
        ),
        Report::Resumed { number, micros } => {
            format!("all PEs resume from checkpoint {number} after {:.1} ms", ms(micros))
        }
        Report::Alone { pe, number, micros } => format!(
            "PE {pe} goes on alone from checkpoint {number} after {:.1} ms: the others are in \
             shmem_finalize",
            ms(micros)
        ),
        Report::Memory { pe, bytes } => format!("PE {pe}: {:.1} MiB of memory", mib(bytes)),
        Report::Damaged { pe, number, part, from } => {
            let found = format!("PE {pe}: damage in its {part} of checkpoint {number}");
            match from.as_deref() {
                Some([]) => format!("{found}, repaired"),
                Some(from) => format!("{found}, repaired from PEs {}", pes(from)),
                None => format!(
                    "{found}, not repaired: it counts as lost until checkpoint {}",
                    number + 1
                ),
            }
        }
        Report::Scrubbed { pe, counts } => format!(
            "PE {pe}: {:.1} MiB of its checkpoints looked over, {} damaged, {} repaired",
            mib(&counts.bytes),
            counts.damaged,
            counts.repaired
        ),
        Report::Note(line) => line.clone(),
    }
}
