//! `oshinfo`: version, settings with what is in force here, kernels and addresses chosen.

use raidshmem::settings::{Settings, table};
use raidshmem::sys::memory;

fn main() {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        None => print_all(),
        Some("--markdown") => print!("{}", raidshmem::settings::markdown()),
        Some("--points") => points(),
        Some("--version" | "-V") => println!("oshinfo {}", env!("CARGO_PKG_VERSION")),
        Some(other) => {
            let known = ["--help", "-h"].contains(&other);
            let line = "usage: oshinfo [--markdown | --points | --version]";
            if known {
                return println!("{line}");
            }
            eprintln!("oshinfo: {other}: {line}");
            std::process::exit(2);
        }
    }
}

fn points() {
    for point in raidshmem::inject::Point::ALL {
        println!("{:<10} {}", point.name(), point.doc());
    }
}

fn print_all() {
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let settings = match Settings::from_env(environment) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("oshinfo: {error}");
            std::process::exit(2);
        }
    };
    println!("raidshmem {} (OpenSHMEM 1.6)", env!("CARGO_PKG_VERSION"));
    let mib = |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| format!("{} MiB", b >> 20));
    println!("processors        {}", std::thread::available_parallelism().map_or(1, usize::from));
    println!("memory            {}, {} free", mib(memory::total()), mib(memory::available()));
    println!("fabrics           shm");
    println!("parity kernel     {:?}", raidshmem_codec::kernel::Kernel::best());
    let expedited = raidshmem::sys::futex::register_barrier();
    println!("waiting           futex, membarrier {}", if expedited { "yes" } else { "no" });
    println!("\nsettings");
    for entry in table() {
        let value = entry.show(&settings).unwrap_or_else(|| "unset".to_string());
        println!("  {:<24} {:<8} {} [{}]", entry.name, value, entry.doc, entry.allowed());
    }
}
