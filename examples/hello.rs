//! The smallest program: `cargo build --example hello`, then `oshrun -n 4 target/debug/examples/hello`.

fn main() {
    let shmem = raidshmem::Shmem::init();
    println!("hello from PE {} of {}", shmem.my_pe(), shmem.n_pes());
}
