//! Runs a model as written, and with one access weakened at a time.

use std::collections::BTreeMap;
use std::panic;
use std::thread;

use crate::atomic::{Access, Ordering, Site, sites, weaken};

/// Switches of a thread that has more to do, per run.
const PREEMPTIONS: usize = 2;

/// An access with an ordering, and the weakest with which the models still pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    pub access: Access,
    pub written: Ordering,
    pub needed: Ordering,
}

/// Returns the orderings that the access allows, weakest first.
fn orderings(access: Access) -> &'static [Ordering] {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    match access {
        Access::Load => &[Relaxed, Acquire],
        Access::Store => &[Relaxed, Release],
        Access::Update => &[Relaxed, Release, Acquire, AcqRel],
        Access::Fence => &[Relaxed, Release, Acquire, AcqRel, SeqCst],
    }
}

/// Explores the model, with one access weakened if there is a change, and returns the accesses that
/// it made; an error is the panic of the run that failed.
fn explore(
    model: fn(),
    change: Option<(Site, Ordering)>,
) -> Result<BTreeMap<Site, (Access, Ordering)>, String> {
    // A thread for each, since the state of a failed exploration is of no use to the next.
    let explored = thread::spawn(move || {
        weaken(change);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.max_branches = 100_000;
        builder.check(model);
        sites()
    });
    explored.join().map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"a panic").to_string(),
    })
}

/// Explores the models of a structure, and returns the ordering that each access needs: that of the
/// most demanding model.
///
/// # Panics
/// If a model fails as written.
pub fn needs(models: &[fn()]) -> BTreeMap<Site, Need> {
    let mut all = BTreeMap::new();
    for model in models {
        let accesses = explore(*model, None).unwrap_or_else(|why| panic!("as written: {why}"));
        for (site, (access, written)) in accesses {
            all.entry(site).or_insert((access, written));
        }
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {})); // weakened models are expected to panic
    let weakest = |site, access| {
        let passes = |ordering: &&Ordering| {
            models.iter().all(|model| explore(*model, Some((site, **ordering))).is_ok())
        };
        *orderings(access).iter().find(passes).expect("it passes as written")
    };
    let needs = all.into_iter().map(|(site, (access, written))| {
        (site, Need { access, written, needed: weakest(site, access) })
    });
    let needs = needs.collect();
    panic::set_hook(hook);
    needs
}
