//! The codec beside Intel's ISA-L, in one process: ratios of throughput.
//!
//! For each case both compute the same bytes from the same buffers (compared before anything is
//! timed), in turns: a round is a sample of ours and a sample of theirs, and the figure is the
//! median over the rounds of the ratio within a round; what is timed is the processor time of the
//! thread. So what else the machine does meets both alike or neither. "cache" is a stripe of half a
//! MiB, which stays in a core's L2; "memory" one of 256 MiB. Rates are bytes of sources per second
//! (for an update: of the delta).
//!
//! `cargo bench -p raidshmem-codec --features isal --bench isal [-- FILTER]`, or
//! `benches/peers/isal.sh`; `ROUNDS=n` rounds instead of 9. Prints
//! `figure | ours GB/s | ISA-L GB/s | ratio | goal`.
//!
//! Left out: ISA-L's tables and the codec's plans, both of which are made once per set of losses.

use std::hint::black_box;
use std::time::Duration;

use raidshmem_codec::code::Code;
use raidshmem_codec::kernel::Kernel;
use rustix::time::{ClockId, clock_gettime};

#[link(name = "isal")]
unsafe extern "C" {
    fn xor_gen(vects: i32, len: i32, array: *const *mut u8) -> i32;
    fn ec_init_tables(k: i32, rows: i32, matrix: *const u8, tables: *mut u8);
    fn ec_encode_data(
        len: i32,
        k: i32,
        rows: i32,
        tables: *const u8,
        data: *const *const u8,
        coding: *const *mut u8,
    );
    fn ec_encode_data_update(
        len: i32,
        k: i32,
        rows: i32,
        column: i32,
        tables: *const u8,
        data: *const u8,
        coding: *const *mut u8,
    );
}

const CACHE: usize = 512 << 10;
const MEMORY: usize = 256 << 20;

/// Bytes that start on a page.
struct Shard {
    bytes: Vec<u8>,
    start: usize,
}

impl Shard {
    fn new(seed: usize, len: usize) -> Shard {
        let bytes: Vec<u8> =
            (0..len + 4096).map(|at| (at * 31 + seed * 97 + at / 251) as u8).collect();
        let start = bytes.as_ptr().align_offset(4096);
        Shard { bytes, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.bytes.len() - 4096]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.bytes.len() - 4096;
        &mut self.bytes[self.start..][..len]
    }
}

/// The buffers of one sum, and ISA-L's view of them.
struct Case {
    sources: Vec<Shard>,
    outs: Vec<Shard>,
    tables: Vec<u8>,
}

impl Case {
    /// A stripe of `total` bytes, sources and results together.
    fn new(coefficients: &[u8], k: usize, total: usize) -> Case {
        let rows = coefficients.len() / k;
        let len = (total / (k + rows)).next_multiple_of(4096);
        let mut tables = vec![0; 32 * k * rows];
        // SAFETY: the matrix has `k * rows` bytes, the tables 32 for each of them.
        unsafe {
            ec_init_tables(k as i32, rows as i32, coefficients.as_ptr(), tables.as_mut_ptr());
        }
        Case {
            sources: (0..k).map(|i| Shard::new(i, len)).collect(),
            outs: (0..rows).map(|i| Shard::new(k + i, len)).collect(),
            tables,
        }
    }

    fn len(&self) -> usize {
        self.outs[0].bytes().len()
    }

    fn ours(&mut self, operation: impl Fn(&[&[u8]], &mut [&mut [u8]])) {
        let sources: Vec<&[u8]> = self.sources.iter().map(Shard::bytes).collect();
        let mut outs: Vec<&mut [u8]> = self.outs.iter_mut().map(Shard::bytes_mut).collect();
        operation(black_box(&sources), black_box(&mut outs));
    }

    fn xor_gen(&mut self) {
        let outs = self.outs.iter_mut().map(|out| out.bytes_mut().as_mut_ptr());
        let sources = self.sources.iter().map(|source| source.bytes().as_ptr().cast_mut());
        let array: Vec<*mut u8> = sources.chain(outs).collect();
        // SAFETY: all slices have `len` bytes and start on a page; only the last is written.
        let code = unsafe { xor_gen(array.len() as i32, self.len() as i32, array.as_ptr()) };
        assert_eq!(code, 0);
    }

    fn encode_data(&mut self) {
        let (len, k, rows) = (self.len() as i32, self.sources.len() as i32, self.outs.len() as i32);
        let sources: Vec<*const u8> = self.sources.iter().map(|s| s.bytes().as_ptr()).collect();
        let outs: Vec<*mut u8> =
            self.outs.iter_mut().map(|out| out.bytes_mut().as_mut_ptr()).collect();
        let tables = self.tables.as_ptr();
        // SAFETY: all slices have `len` bytes, the tables are those of a matrix of this shape.
        unsafe { ec_encode_data(len, k, rows, tables, sources.as_ptr(), outs.as_ptr()) }
    }

    fn encode_data_update(&mut self) {
        let (len, k, rows) = (self.len() as i32, self.sources.len() as i32, self.outs.len() as i32);
        let outs: Vec<*mut u8> =
            self.outs.iter_mut().map(|out| out.bytes_mut().as_mut_ptr()).collect();
        let (tables, delta) = (self.tables.as_ptr(), self.sources[0].bytes().as_ptr());
        // SAFETY: all slices have `len` bytes, the tables are those of a matrix of this shape.
        unsafe { ec_encode_data_update(len, k, rows, 0, tables, delta, outs.as_ptr()) }
    }

    fn results(&self) -> Vec<Vec<u8>> {
        self.outs.iter().map(|out| out.bytes().to_vec()).collect()
    }
}

/// One line of the table.
struct Figure<'a> {
    name: &'a str,
    /// Least ratio aimed at, if any.
    goal: Option<f64>,
    /// Bytes counted per call.
    bytes: usize,
}

/// Compares results, then times `ours` and `theirs` in turns and prints the line.
fn compare(
    figure: Figure<'_>,
    case: &mut Case,
    ours: impl Fn(&mut Case),
    theirs: impl Fn(&mut Case),
) {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    if !figure.name.contains(&filter) {
        return;
    }
    let sample = |case: &mut Case, run: &dyn Fn(&mut Case), calls: u32| {
        let start = busy();
        (0..calls).for_each(|_| run(case));
        busy() - start
    };
    let once = sample(case, &ours, 2).max(Duration::from_nanos(200)) / 2;
    let calls = (Duration::from_millis(10).as_nanos() / once.as_nanos()).max(1) as u32;
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(9);
    let (mut mine, mut isal, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        let (a, b) = (sample(case, &ours, calls), sample(case, &theirs, calls));
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

/// Processor time this thread has used: that of other programs does not count.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("the clock does not run backwards")
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Both must leave the same results behind, whatever was there before.
fn agree(case: &mut Case, ours: impl Fn(&mut Case), theirs: impl Fn(&mut Case)) {
    ours(case);
    let results = case.results();
    case.outs.iter_mut().for_each(|out| out.bytes_mut().fill(0x5a));
    theirs(case);
    assert!(case.results() == results, "ISA-L computes other bytes");
}

fn xor(kernel: Kernel, k: usize, total: usize, place: &str) {
    let mut case = Case::new(&vec![1; k], k, total);
    let ours = |case: &mut Case| case.ours(|sources, outs| kernel.xor_of(outs[0], sources));
    agree(&mut case, ours, Case::xor_gen);
    let name = format!("xor {k}+1 {place}");
    let figure = Figure { name: &name, goal: Some(1.0), bytes: k * case.len() };
    compare(figure, &mut case, ours, Case::xor_gen);
}

fn encode(k: usize, m: usize, total: usize, place: &str, goal: f64) {
    let code = Code::new(k, m).unwrap();
    let matrix: Vec<u8> = (0..m).flat_map(|row| code.coefficients(row).to_vec()).collect();
    let mut case = Case::new(&matrix, k, total);
    let ours = |case: &mut Case| case.ours(|sources, outs| code.encode(sources, outs).unwrap());
    agree(&mut case, ours, Case::encode_data);
    let name = format!("encode {k}+{m} {place}");
    let figure = Figure { name: &name, goal: Some(goal), bytes: k * case.len() };
    compare(figure, &mut case, ours, Case::encode_data);
}

/// Rebuilds the first `lost` shards.
fn rebuild(k: usize, m: usize, lost: usize, total: usize, place: &str) {
    let code = Code::new(k, m).unwrap();
    let flags: Vec<bool> = (0..k + m).map(|shard| shard < lost).collect();
    let wants: Vec<usize> = (0..lost).collect();
    let plan = code.plan_all(&flags, &wants).unwrap();
    let mut case = Case::new(plan.coefficients(), k, total);
    let ours = |case: &mut Case| case.ours(|sources, outs| plan.apply(sources, outs).unwrap());
    agree(&mut case, ours, Case::encode_data);
    let name = format!("rebuild {lost} of {k}+{m} {place}");
    let figure = Figure { name: &name, goal: Some(1.5), bytes: k * case.len() };
    compare(figure, &mut case, ours, Case::encode_data);
}

/// Takes the change of the first shard over into all parities.
fn update(k: usize, m: usize, total: usize, place: &str) {
    let code = Code::new(k, m).unwrap();
    let matrix: Vec<u8> = (0..m).flat_map(|row| code.coefficients(row).to_vec()).collect();
    let mut case = Case::new(&matrix, k, total);
    let ours = |case: &mut Case| {
        case.ours(|sources, outs| code.update_all(0, sources[0], outs).unwrap());
    };
    let before = case.results();
    ours(&mut case);
    Case::encode_data_update(&mut case);
    assert!(case.results() == before, "ISA-L takes another change back");
    let name = format!("update {k}+{m} {place}");
    let figure = Figure { name: &name, goal: None, bytes: case.len() };
    compare(figure, &mut case, ours, Case::encode_data_update);
}

fn main() {
    let kernel = Kernel::chosen().unwrap();
    println!("kernel {kernel}");
    println!("{:<34} | {:>6} | {:>6} | ratio | goal", "figure (GB/s)", "ours", "ISA-L");
    for (total, place, best) in [(CACHE, "cache", 1.8), (MEMORY, "memory", 1.0)] {
        [3, 8].into_iter().for_each(|k| xor(kernel, k, total, place));
        for (k, m) in [(3, 2), (8, 2), (10, 4)] {
            encode(k, m, total, place, best);
        }
        for (k, m) in [(8, 2), (10, 4)] {
            [1, 2].into_iter().for_each(|lost| rebuild(k, m, lost, total, place));
        }
        [(8, 2), (10, 4)].into_iter().for_each(|(k, m)| update(k, m, total, place));
    }
}
