//! The machine as `oshinfo` finds it, and the settings in force: as text and as JSON.

#![forbid(unsafe_code)]

use std::fmt;

use raidshmem_core::settings::{Fabric, Pages, Settings, table};
use raidshmem_engines as engines;
use raidshmem_fabric::FabricError;
use raidshmem_sys::huge::{HugeFiles, NoHuge};
use raidshmem_sys::memory;
use serde_json::{Value, json};

/// The version of the JSON format; a change that a reader would notice raises it.
const FORMAT: u32 = 1;

/// An engine, with true if it can be loaded and finds a device, or the reason why it cannot be
/// loaded.
pub type EngineState = (Fabric, Result<bool, FabricError>);

/// The machine and the settings. `Display` prints the text of `oshinfo`.
#[derive(Debug)]
pub struct Inventory {
    settings: Settings,
    processors: usize,
    /// Bytes, if they are known.
    total: Option<u64>,
    free: Option<u64>,
    huge_pages: HugePages,
    engines: Vec<EngineState>,
    kernel: Result<String, String>,
    membarrier: bool,
}

/// The availability of huge pages to large heaps and their checkpoints.
#[derive(Debug)]
struct HugePages {
    available: bool,
    why: String,
}

impl Inventory {
    /// Examines this machine, of which `engines` are known already.
    pub fn new(settings: Settings, engines: Vec<EngineState>) -> Inventory {
        let kernel = raidshmem_codec::kernel::Kernel::chosen();
        Inventory {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            total: memory::total(),
            free: memory::available(),
            huge_pages: huge_pages(&settings),
            kernel: kernel.map(|kernel| kernel.to_string()).map_err(|error| error.to_string()),
            membarrier: raidshmem_sys::futex::register_barrier(),
            settings,
            engines,
        }
    }

    /// Returns the state of an engine; shared memory is always available.
    fn state(&self, fabric: Fabric) -> Result<bool, FabricError> {
        let known = self.engines.iter().find(|(other, _)| *other == fabric);
        known.map_or(Ok(true), |(_, state)| state.clone())
    }

    /// Returns the engine that a job on one machine, or on several, would use, and why.
    fn chosen(&self, one_machine: bool) -> Result<(Fabric, String), FabricError> {
        let chosen =
            engines::choose(self.settings.fabric, one_machine, |fabric| self.state(fabric));
        chosen.map(|(fabric, why)| (fabric, why.to_string()))
    }

    /// Returns the fabrics of this machine.
    fn fabrics(&self) -> impl Iterator<Item = Fabric> {
        let all = Fabric::ALL.into_iter().filter(|&fabric| fabric != Fabric::Auto);
        all.filter(|&fabric| self.state(fabric).is_ok())
    }

    /// Lists the fabrics, and those that a job on one machine and on several would use.
    fn show_fabrics(&self) -> String {
        let chosen = |one_machine| match self.chosen(one_machine) {
            Ok((fabric, _)) => fabric.name().to_owned(),
            Err(error) => error.to_string(),
        };
        let there = self.fabrics().map(Fabric::name).collect::<Vec<_>>().join(", ");
        format!("{there}; on one machine: {}; on several: {}", chosen(true), chosen(false))
    }

    /// Returns JSON. Sizes are in bytes.
    pub fn json(&self) -> Value {
        let chosen = |one_machine| match self.chosen(one_machine) {
            Ok((fabric, why)) => json!({ "name": fabric.name(), "why": why }),
            Err(error) => json!({ "name": null, "why": error.to_string() }),
        };
        let engine = |(fabric, state): &EngineState| {
            let error = state.as_ref().err().map(ToString::to_string);
            json!({ "name": fabric.name(), "device": matches!(state, Ok(true)), "error": error })
        };
        let settings = table().iter().map(|entry| {
            json!({
                "name": entry.name,
                "value": entry.show(&self.settings),
                "default": entry.default(),
                "allowed": entry.allowed(),
                "about": entry.doc,
            })
        });
        json!({
            "raidshmem_info": FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "openshmem": "1.6",
            "processors": self.processors,
            "memory": { "total": self.total, "free": self.free },
            "huge_pages": { "available": self.huge_pages.available, "why": self.huge_pages.why },
            "fabrics": self.fabrics().map(Fabric::name).collect::<Vec<_>>(),
            "engines": self.engines.iter().map(engine).collect::<Vec<_>>(),
            "on_one_machine": chosen(true),
            "on_several_machines": chosen(false),
            "parity_kernel": self.kernel.as_ref().ok(),
            "membarrier": self.membarrier,
            "settings": settings.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib =
            |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| format!("{} MiB", b >> 20));
        let HugePages { available, why } = &self.huge_pages;
        let yes = |is| if is { "yes" } else { "no" };
        let (Ok(kernel) | Err(kernel)) = &self.kernel;
        let facts = [
            ("processors", self.processors.to_string()),
            ("memory", format!("{}, {} free", mib(self.total), mib(self.free))),
            ("huge pages", format!("{} ({why})", yes(*available))),
            ("fabrics", self.show_fabrics()),
            ("parity kernel", kernel.clone()),
            ("waiting", format!("futex, membarrier {}", yes(self.membarrier))),
        ];
        writeln!(f, "raidshmem {} (OpenSHMEM 1.6)", env!("CARGO_PKG_VERSION"))?;
        for (what, value) in facts {
            writeln!(f, "{what:<17} {value}")?;
        }
        writeln!(f, "\nsettings")?;
        for entry in table() {
            let value = entry.show(&self.settings).unwrap_or_else(|| "unset".to_string());
            let (name, doc, allowed) = (entry.name, entry.doc, entry.allowed());
            writeln!(f, "  {name:<24} {value:<8} {doc} [{allowed}]")?;
        }
        Ok(())
    }
}

/// Finds out if large heaps and their checkpoints get huge pages here.
fn huge_pages(settings: &Settings) -> HugePages {
    let others = memory::huge_pages().unwrap_or_default();
    let (available, why) = match (settings.pages, HugeFiles::new(), others.as_str()) {
        (Pages::Small, ..) => (false, "SHMEM_FT_PAGES is small".to_owned()),
        (_, Ok(_), _) => (true, "in a tmpfs of the job's own".to_owned()),
        (_, Err(NoHuge::Mount(_)), word @ ("always" | "within_size" | "advise" | "force")) => {
            (true, format!("transparent_hugepage/shmem_enabled is {word}"))
        }
        (_, Err(why @ NoHuge::Mount(_)), word) => (
            false,
            format!("{why}; transparent_hugepage/shmem_enabled is {word}, advise is enough"),
        ),
        (_, Err(why), _) => (false, why.to_string()),
    };
    HugePages { available, why }
}
