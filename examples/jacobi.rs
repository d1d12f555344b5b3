//! A one-dimensional three-point stencil that survives the death of its PEs: the kernel of
//! `jacobi.c`, with the same options and the same bytes, in safe Rust.
//!
//! The global array is distributed over the PEs. Each keeps `halo` cells of its neighbours on
//! either side and uses them up over `halo` sweeps; then the halos are fetched again and a
//! checkpoint is taken. The value of a cell after n sweeps depends only on its number, so the
//! checksum is the same for any number of PEs, with and without losses, and equals that of plain
//! loops (`--serial`).
//!
//! Source: thesis, section 6.3.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Instant;

use clap::Parser;
use raidshmem::bytemuck::{Pod, Zeroable};
use raidshmem::{Error, Peers, Shmem, SymSlice, ft};

#[derive(Parser)]
struct Args {
    /// Bytes of the global array.
    #[arg(long, default_value = "64M", value_parser = bytes)]
    bytes: usize,
    /// Sweeps over it.
    #[arg(long, default_value_t = 4096)]
    sweeps: u64,
    /// Cells of each neighbour that a PE keeps, and sweeps between two checkpoints.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    halo: u32,
    /// Plain loops in one process.
    #[arg(long)]
    serial: bool,
}

fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'k', 'm', 'g']);
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("a number, with K, M or G".into()),
    };
    let number = digits.parse::<usize>().map_err(|error| error.to_string())?;
    let bytes = number.checked_mul(1 << shift).ok_or("too large")?;
    if bytes < 8 { Err("at least 8".into()) } else { Ok(bytes) }
}

/// Returns the first value of a cell: any fixed function of its number will do.
fn initial(cell: usize) -> f64 {
    let mut x = (cell as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    (x >> 12) as f64 * 2.0f64.powi(-52) * 2.0 - 1.0
}

fn fill(to: &mut [f64], cell: usize) {
    to.iter_mut().enumerate().for_each(|(i, value)| *value = initial(cell + i));
}

/// Does one sweep; `from` has one cell more than `to` on either side.
fn sweep(to: &mut [f64], from: &[f64]) {
    let n = to.len();
    let (left, middle, right) = (&from[..n], &from[1..n + 1], &from[2..n + 2]);
    for i in 0..n {
        to[i] = (left[i] + middle[i] + right[i]) / 3.0;
    }
}

/// A checksum of bit patterns in the order of cells: eight lanes, selected by the cell's number.
#[derive(Default)]
struct Digest {
    lanes: [u64; 8],
}

impl Digest {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;

    fn add(&mut self, values: &[f64], cell: usize) {
        for (i, value) in values.iter().enumerate() {
            let lane = &mut self.lanes[(cell + i) % 8];
            *lane = (*lane ^ value.to_bits()).wrapping_mul(Self::FACTOR);
            *lane ^= *lane >> 32;
        }
    }

    fn end(&self, cells: usize) -> u64 {
        self.lanes.iter().fold(cells as u64, |all, lane| {
            let all = (all ^ lane).wrapping_mul(Self::FACTOR);
            all ^ all >> 28
        })
    }
}

/// The distribution of cells: all PEs have equally many, the first ones perhaps one more.
#[derive(Clone, Copy)]
struct Cut {
    cells: usize,
    pes: usize,
    halo: usize,
}

impl Cut {
    fn first(self, pe: usize) -> usize {
        let (share, rest) = (self.cells / self.pes, self.cells % self.pes);
        pe * share + pe.min(rest)
    }

    fn owner(self, cell: usize) -> usize {
        let (share, rest) = (self.cells / self.pes, self.cells % self.pes);
        if cell < rest * (share + 1) {
            cell / (share + 1)
        } else {
            rest + (cell - rest * (share + 1)) / share
        }
    }

    /// Returns the numbers of cells of other PEs that `pe` keeps below and above its own.
    fn halos(self, pe: usize) -> (usize, usize) {
        let (first, end) = (self.first(pe), self.first(pe + 1));
        (self.halo.min(first), self.halo.min(self.cells - end))
    }

    /// Calls `with(owner, place there, cells, done before)` for each owner of `n` cells.
    fn owners(self, cell: usize, n: usize, mut with: impl FnMut(usize, usize, usize, usize)) {
        let mut done = 0;
        while done < n {
            let at = cell + done;
            let owner = self.owner(at);
            let some = (n - done).min(self.first(owner + 1) - at);
            with(owner, self.halo + at - self.first(owner), some, done);
            done += some;
        }
    }
}

/// The state of the algorithm: it rolls back to the checkpoint together with the arrays.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct State {
    buffers: [SymSlice<f64>; 2],
    current: u64,
    swept: u64,
    checksum: u64,
}

impl State {
    fn new(shmem: &mut Shmem, cut: Cut) -> Result<State, Error> {
        let capacity = cut.halo + cut.cells.div_ceil(cut.pes) + cut.halo;
        let buffers = [shmem.alloc(capacity)?, shmem.alloc(capacity)?];
        let pe = shmem.my_pe();
        let (first, end, (below, above)) = (cut.first(pe), cut.first(pe + 1), cut.halos(pe));
        let own = buffers[0].range(cut.halo - below..cut.halo + end - first + above);
        fill(shmem.local_mut(own), first - below);
        Ok(State { buffers, current: 0, swept: 0, checksum: 0 })
    }

    fn now(&self) -> SymSlice<f64> {
        self.buffers[self.current as usize]
    }

    /// Sweeps `rounds` times: each computes one cell less on either side, except at the ends of the
    /// global array, where the outer cell is the fixed boundary.
    fn compute(&mut self, shmem: &mut Shmem, cut: Cut, rounds: usize) {
        let pe = shmem.my_pe();
        let (first, end) = (cut.first(pe), cut.first(pe + 1));
        for round in 1..=rounds {
            let reach = rounds - round;
            let (below, above) = (reach.min(first), reach.min(cut.cells - end));
            let (from, to) = (cut.halo - below, cut.halo + end - first + above);
            let next = self.buffers[1 - self.current as usize].range(from..to);
            let (old, new) = shmem.local_pair(self.now().range(from - 1..to + 1), next);
            sweep(new, old);
            self.current = 1 - self.current;
        }
        self.swept += rounds as u64;
    }

    /// Fetches both halos from their owners.
    fn fetch_halos(&self, peers: &Peers, cut: Cut) {
        let pe = peers.my_pe();
        let (first, end, (below, above)) = (cut.first(pe), cut.first(pe + 1), cut.halos(pe));
        let now = self.now();
        for (cell, n, to) in
            [(first - below, below, cut.halo - below), (end, above, cut.halo + end - first)]
        {
            cut.owners(cell, n, |owner, place, some, done| {
                let mine = now.range(to + done..to + done + some);
                peers.pull(owner, now.range(place..place + some), mine);
            });
        }
    }

    /// On PE 0, reads the whole array, piece by piece.
    fn gather(&self, peers: &Peers, cut: Cut) -> u64 {
        let mut digest = Digest::default();
        let mut piece = vec![0.0; 1 << 13];
        if peers.my_pe() == 0 {
            for cell in (0..cut.cells).step_by(piece.len()) {
                let n = piece.len().min(cut.cells - cell);
                cut.owners(cell, n, |owner, place, some, done| {
                    let there = self.now().range(place..place + some);
                    peers.get(owner, there, &mut piece[done..done + some]);
                });
                digest.add(&piece[..n], cell);
            }
        }
        digest.end(cut.cells)
    }

    fn step(&mut self, shmem: &mut Shmem, cut: Cut, sweeps: u64) -> Result<ControlFlow<()>, Error> {
        if self.swept == sweeps {
            self.checksum = shmem.exchange(|peers| self.gather(peers, cut))?;
            return Ok(Break(()));
        }
        let rounds = (sweeps - self.swept).min(cut.halo as u64) as usize;
        self.compute(shmem, cut, rounds);
        if self.swept < sweeps {
            shmem.exchange(|peers| self.fetch_halos(peers, cut))?;
        }
        Ok(Continue(()))
    }
}

fn report(checksum: u64, begun: Instant) {
    println!("jacobi checksum={checksum:016x} seconds={:.6}", begun.elapsed().as_secs_f64());
}

fn serial(cells: usize, sweeps: u64) {
    let begun = Instant::now();
    let (mut old, mut new) = (vec![0.0; cells + 2], vec![0.0; cells + 2]);
    fill(&mut old[1..=cells], 0);
    for _ in 0..sweeps {
        sweep(&mut new[1..=cells], &old);
        std::mem::swap(&mut old, &mut new);
    }
    let mut digest = Digest::default();
    digest.add(&old[1..=cells], 0);
    report(digest.end(cells), begun);
}

fn main() {
    let args = Args::parse();
    let cells = args.bytes / size_of::<f64>();
    if args.serial {
        return serial(cells, args.sweeps);
    }
    let mut shmem = Shmem::init();
    let (pes, begun) = (shmem.n_pes(), Instant::now());
    if cells < pes {
        if shmem.my_pe() == 0 {
            eprintln!("jacobi: --bytes: {cells} cells are too few for {pes} PEs");
        }
        shmem.global_exit(2);
    }
    if !ft::algo_init(&shmem) {
        eprintln!("jacobi: a substitute takes over PE {}", shmem.my_pe());
    }
    let cut = Cut { cells, pes, halo: args.halo as usize };
    let begin = |shmem: &mut Shmem| State::new(shmem, cut);
    let step = |shmem: &mut Shmem, state: &mut State| state.step(shmem, cut, args.sweeps);
    match ft::run(&mut shmem, begin, step) {
        Ok(state) if shmem.my_pe() == 0 => report(state.checksum, begun),
        Ok(_) => {}
        Err(error) => {
            eprintln!("jacobi: {error}");
            shmem.global_exit(1);
        }
    }
}
