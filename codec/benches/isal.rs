//! The codec compared with Intel's ISA-L, in one process: ratios of throughput.
//!
//! For each case both compute the same bytes from the same buffers (compared before timing starts),
//! in alternation. A round is one sample of each, and every other round reverses the order; the
//! figure is the median of the ratios within each round. The thread's processor time is measured,
//! so other load on the machine affects both alike or neither. "cache" is a stripe of half a MiB,
//! which stays in a core's L2; "memory" is one of 256 MiB. All shards are page-aligned, as in a
//! store; "staggered" ones start at different offsets within a page. Rates are bytes of sources per
//! second (for an update: of the delta).
//!
//! If `RAIDSHMEM_KERNEL` is ssse3, avx2, avx512 or gfni256, ISA-L uses the same instructions if it
//! can; otherwise it chooses. "raid6" is compared with `pq_gen`, "encode" with products by the same
//! matrix.
//!
//! `cargo bench -p raidshmem-codec --bench isal [-- FILTER]`, or `benches/peers/isal.sh`.
//! `ROUNDS=n` sets the number of rounds (default 9), `ISAL=file` a library other than
//! `libisal.so.2`. Prints `figure | ours GB/s | ISA-L GB/s | ratio | goal`. Goals for products
//! apply to GFNI.
//!
//! Left out: ISA-L's tables and the codec's plans, both of which are made once per set of losses.

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{busy, median};
use libloading::Library;
use raidshmem_codec::code::Code;
use raidshmem_codec::kernel::Kernel;

/// Number of vectors, length, addresses (results last).
type Generate = unsafe extern "C" fn(i32, i32, *const *mut u8) -> i32;
/// Sources, rows, matrix, tables.
type Tables = unsafe extern "C" fn(i32, i32, *const u8, *mut u8);
/// Length, sources, rows, tables, addresses of sources and of results.
type Encode = unsafe extern "C" fn(i32, i32, i32, *const u8, *const *const u8, *const *mut u8);
/// Length, sources, rows, index of the source, tables, its address, addresses of results.
type Update = unsafe extern "C" fn(i32, i32, i32, i32, *const u8, *const u8, *const *mut u8);

/// The functions of the library.
#[derive(Clone, Copy)]
struct Isal {
    xor_gen: Generate,
    pq_gen: Generate,
    tables: Tables,
    encode: Encode,
    update: Update,
}

impl Isal {
    /// Loads the variants for the instructions of `kernel`, if they have names of their own.
    fn of(kernel: Kernel) -> Result<Isal, libloading::Error> {
        let file = std::env::var_os("ISAL").unwrap_or("libisal.so.2".into());
        // SAFETY: the library has no constructors.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(file)? }));
        let (xor, rest, tables) = match kernel.name() {
            "ssse3" => ("_sse", "_sse", "_base"),
            "avx2" => ("_avx", "_avx2", "_base"),
            "avx512" => ("_avx512", "_avx512", "_base"),
            "gfni256" => ("_avx", "_avx2_gfni", "_gfni"),
            _ => ("", "", ""),
        };
        /// Returns the function `name` followed by `suffix`, or else `name`, as an `F`.
        unsafe fn function<F: Copy>(
            library: &Library,
            name: &str,
            suffix: &str,
        ) -> Result<F, libloading::Error> {
            // SAFETY: the caller guarantees that this is the function's type.
            let own = unsafe { library.get::<F>(format!("{name}{suffix}").as_bytes()) };
            // SAFETY: as above.
            own.or_else(|_| unsafe { library.get::<F>(name.as_bytes()) }).map(|f| *f)
        }
        // SAFETY: the types are those of the library's headers.
        unsafe {
            Ok(Isal {
                xor_gen: function(library, "xor_gen", xor)?,
                pq_gen: function(library, "pq_gen", rest)?,
                tables: function(library, "ec_init_tables", tables)?,
                encode: function(library, "ec_encode_data", rest)?,
                update: function(library, "ec_encode_data_update", rest)?,
            })
        }
    }
}

/// The size and alignment of the shards of a stripe.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    /// Of sources and results together.
    bytes: usize,
    /// Bytes by which each shard starts later within a page than its predecessor.
    stagger: usize,
}

const PLACES: [Place; 3] = [
    Place { name: "cache", bytes: 512 << 10, stagger: 0 },
    Place { name: "cache staggered", bytes: 512 << 10, stagger: 320 },
    Place { name: "memory", bytes: 256 << 20, stagger: 0 },
];

/// Bytes at a given offset within a page.
struct Shard {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Shard {
    fn new(nth: usize, len: usize, stagger: usize) -> Shard {
        let byte = |at: usize| (at * 31 + nth * 97 + at / 251) as u8;
        let bytes: Vec<u8> = (0..len + 2 * 4096).map(byte).collect();
        let start = bytes.as_ptr().align_offset(4096) + nth * stagger % 4096;
        Shard { bytes, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// The buffers of one sum, and ISA-L's view of them.
struct Case {
    isal: Isal,
    sources: Vec<Shard>,
    outs: Vec<Shard>,
    tables: Vec<u8>,
}

impl Case {
    /// Creates the sum of `k` sources with `coefficients`.
    fn new(isal: Isal, coefficients: &[u8], k: usize, place: Place) -> Case {
        let rows = coefficients.len() / k;
        let len = (place.bytes / (k + rows)).next_multiple_of(4096);
        let mut tables = vec![0; 32 * k * rows];
        // SAFETY: the matrix has `k * rows` bytes, the tables 32 for each of them.
        unsafe { (isal.tables)(k as i32, rows as i32, coefficients.as_ptr(), tables.as_mut_ptr()) }
        let shard = |nth: usize| Shard::new(nth, len, place.stagger);
        let (sources, outs) = ((0..k).map(shard).collect(), (k..k + rows).map(shard).collect());
        Case { isal, sources, outs, tables }
    }

    /// Returns length, sources and rows.
    fn shape(&self) -> (i32, i32, i32) {
        (self.outs[0].len as i32, self.sources.len() as i32, self.outs.len() as i32)
    }

    fn addresses(&mut self) -> (Vec<*const u8>, Vec<*mut u8>) {
        let outs = self.outs.iter_mut().map(|out| out.bytes_mut().as_mut_ptr()).collect();
        (self.sources.iter().map(|source| source.bytes().as_ptr()).collect(), outs)
    }

    fn ours(&mut self, operation: impl Fn(&[&[u8]], &mut [&mut [u8]])) {
        let sources: Vec<&[u8]> = self.sources.iter().map(Shard::bytes).collect();
        let mut outs: Vec<&mut [u8]> = self.outs.iter_mut().map(Shard::bytes_mut).collect();
        operation(black_box(&sources), black_box(&mut outs));
    }

    fn generate(&mut self, generate: Generate) {
        let ((len, k, rows), (sources, outs)) = (self.shape(), self.addresses());
        let array: Vec<*mut u8> = sources.iter().map(|s| s.cast_mut()).chain(outs).collect();
        // SAFETY: all slices have `len` bytes and are aligned to 64; only the results are written.
        let code = unsafe { generate(k + rows, len, array.as_ptr()) };
        assert_eq!(code, 0);
    }

    fn xor_gen(&mut self) {
        self.generate(self.isal.xor_gen);
    }

    fn pq_gen(&mut self) {
        self.generate(self.isal.pq_gen);
    }

    fn encode_data(&mut self) {
        let ((len, k, rows), (sources, outs)) = (self.shape(), self.addresses());
        let (tables, sources, outs) = (self.tables.as_ptr(), sources.as_ptr(), outs.as_ptr());
        // SAFETY: all slices have `len` bytes, the tables are those of a matrix of this shape.
        unsafe { (self.isal.encode)(len, k, rows, tables, sources, outs) }
    }

    fn encode_data_update(&mut self) {
        let ((len, k, rows), (sources, outs)) = (self.shape(), self.addresses());
        let (tables, delta, outs) = (self.tables.as_ptr(), sources[0], outs.as_ptr());
        // SAFETY: all slices have `len` bytes, the tables are those of a matrix of this shape.
        unsafe { (self.isal.update)(len, k, rows, 0, tables, delta, outs) }
    }

    fn results(&self) -> Vec<Vec<u8>> {
        self.outs.iter().map(|out| out.bytes().to_vec()).collect()
    }
}

/// One line of the table.
struct Figure {
    name: String,
    /// The lowest acceptable ratio, if any.
    goal: Option<f64>,
    /// Bytes counted per call.
    bytes: usize,
}

/// Compares results, then times `ours` and `theirs` in alternation and prints the line.
fn compare(figure: Figure, case: &mut Case, ours: impl Fn(&mut Case), theirs: impl Fn(&mut Case)) {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    if !figure.name.contains(&filter) {
        return;
    }
    agree(case, &ours, &theirs);
    let sample = |case: &mut Case, run: &dyn Fn(&mut Case), calls: u32| {
        let start = busy();
        (0..calls).for_each(|_| run(case));
        busy() - start
    };
    let once = sample(case, &ours, 2).max(Duration::from_nanos(200)) / 2;
    let calls = (Duration::from_millis(10).as_nanos() / once.as_nanos()).max(1) as u32;
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(9);
    let (mut mine, mut isal, mut ratios) = (vec![], vec![], vec![]);
    for round in 0..rounds {
        let first = (round % 2 == 1).then(|| sample(case, &theirs, calls));
        let a = sample(case, &ours, calls);
        let b = first.unwrap_or_else(|| sample(case, &theirs, calls));
        let rate =
            |time: Duration| (figure.bytes * calls as usize) as f64 / time.as_secs_f64() / 1e9;
        mine.push(rate(a));
        isal.push(rate(b));
        ratios.push(b.as_secs_f64() / a.as_secs_f64());
    }
    let (mine, isal, ratio) = (median(mine), median(isal), median(ratios));
    let goal = match figure.goal {
        Some(goal) if ratio >= goal => format!(">= {goal:.1} met"),
        Some(goal) => format!(">= {goal:.1} MISSED"),
        None => String::from("-"),
    };
    println!("{:<34} | {mine:>6.1} | {isal:>6.1} | {ratio:>5.2} | {goal}", figure.name);
}

/// Checks that both leave the same results when started from the same contents.
fn agree(case: &mut Case, ours: &impl Fn(&mut Case), theirs: &impl Fn(&mut Case)) {
    let mut results = |run: &dyn Fn(&mut Case)| {
        case.outs.iter_mut().for_each(|out| out.bytes_mut().fill(0x5a));
        run(case);
        case.results()
    };
    assert!(results(ours) == results(theirs), "ISA-L computes other bytes");
}

/// The library, kernel and buffers of a series of comparisons.
struct Table {
    isal: Isal,
    kernel: Kernel,
    place: Place,
}

impl Table {
    fn figure(&self, name: String, goal: Option<f64>, case: &Case) -> Figure {
        let bytes = case.sources.len() * case.outs[0].len;
        Figure { name: format!("{name} {}", self.place.name), goal, bytes }
    }

    fn case(&self, coefficients: &[u8], k: usize) -> Case {
        Case::new(self.isal, coefficients, k, self.place)
    }

    /// Returns a code, and its matrix as a case.
    fn code(&self, k: usize, m: usize) -> (Code, Case) {
        let code = Code::with_kernel(k, m, self.kernel).unwrap();
        let matrix: Vec<u8> = (0..m).flat_map(|row| code.coefficients(row).to_vec()).collect();
        (code, self.case(&matrix, k))
    }

    /// Returns the goal for this place: 1 for memory, else `in_cache`.
    fn goal(&self, in_cache: f64) -> Option<f64> {
        Some(if self.place.name == "memory" { 1.0 } else { in_cache })
    }

    /// Returns `goal` if the kernel has GFNI: the goals for products apply only there.
    fn products(&self, goal: Option<f64>) -> Option<f64> {
        goal.filter(|_| self.kernel.name().starts_with("gfni"))
    }

    fn xor(&self, k: usize) {
        let (kernel, mut case) = (self.kernel, self.case(&vec![1; k], k));
        let ours = |case: &mut Case| case.ours(|sources, outs| kernel.xor_of(outs[0], sources));
        let figure = self.figure(format!("xor {k}+1"), Some(1.0), &case);
        compare(figure, &mut case, ours, Case::xor_gen);
    }

    fn encode(&self, k: usize, m: usize) {
        let (code, mut case) = self.code(k, m);
        let ours = |case: &mut Case| case.ours(|sources, outs| code.encode(sources, outs).unwrap());
        if m == 2 {
            let figure = self.figure(format!("raid6 {k}+{m}"), self.goal(1.1), &case);
            compare(figure, &mut case, ours, Case::pq_gen);
        }
        let goal = self.products(self.goal(1.8));
        let figure = self.figure(format!("encode {k}+{m}"), goal, &case);
        compare(figure, &mut case, ours, Case::encode_data);
    }

    /// Rebuilds the first `lost` shards.
    fn rebuild(&self, k: usize, m: usize, lost: usize) {
        let code = Code::with_kernel(k, m, self.kernel).unwrap();
        let flags: Vec<bool> = (0..k + m).map(|shard| shard < lost).collect();
        let wants: Vec<usize> = (0..lost).collect();
        let plan = code.plan_all(&flags, &wants).unwrap();
        let mut case = self.case(plan.coefficients(), k);
        let ours = |case: &mut Case| case.ours(|sources, outs| plan.apply(sources, outs).unwrap());
        let goal = self.products(Some(1.5));
        let figure = self.figure(format!("rebuild {lost} of {k}+{m}"), goal, &case);
        compare(figure, &mut case, ours, Case::encode_data);
    }

    /// Applies the change of the first shard to all parities.
    fn update(&self, k: usize, m: usize) {
        let (code, mut case) = self.code(k, m);
        let ours = |case: &mut Case| {
            case.ours(|sources, outs| code.update_all(0, sources[0], outs).unwrap());
        };
        let figure = self.figure(format!("update {k}+{m}"), None, &case);
        let figure = Figure { bytes: figure.bytes / k, ..figure };
        compare(figure, &mut case, ours, Case::encode_data_update);
    }
}

fn main() {
    // `cargo test` runs this without `--bench`: that it compiles is the whole test.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let kernel = Kernel::chosen().unwrap();
    let isal = Isal::of(kernel).unwrap_or_else(|error| {
        eprintln!("NOT RUN: {error} (Debian: apt-get install libisal2)");
        std::process::exit(77);
    });
    println!("kernel {kernel}");
    println!("{:<34} | {:>6} | {:>6} | ratio | goal", "figure (GB/s)", "ours", "ISA-L");
    for place in PLACES {
        let table = Table { isal, kernel, place };
        [3, 8].into_iter().for_each(|k| table.xor(k));
        for (k, m) in [(3, 2), (8, 2), (8, 3), (10, 4)] {
            table.encode(k, m);
        }
        for (k, m) in [(8, 1), (8, 2), (8, 3), (10, 4)] {
            (1..=m).for_each(|lost| table.rebuild(k, m, lost));
        }
        [(8, 2), (8, 3), (10, 4)].into_iter().for_each(|(k, m)| table.update(k, m));
    }
}
