//! The effect of a panic in PE 1: `panics library` in the code of the library, `panics own` in that
//! of the program, `panics api` in a call that reports a mistake of the program.
//!
//! The first comes from an index that no caller of the library has.

use std::ops::ControlFlow::{Break, Continue};

use raidshmem::{Error, Shmem, SymSlice, ft};
use raidshmem_runtime::pgas;

fn fail(what: &str, words: SymSlice<u64>) {
    match what {
        "library" => drop(pgas::world().topology().nodes_of(std::iter::once(9999))),
        "own" => panic!("a panic of the program"),
        _ => {
            let refused = std::panic::catch_unwind(|| words.range(3..9)).is_err();
            println!("the API told of a wrong range: {refused}");
        }
    }
}

fn main() -> Result<(), Error> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let mut shmem = Shmem::init();
    ft::run(
        &mut shmem,
        |shmem| shmem.alloc_from(&[0u64; 4]),
        |shmem, words| {
            let round = shmem.read(words.at(0)) + 1;
            shmem.write(words.at(0), round);
            if round == 3 && shmem.my_pe() == 1 {
                fail(&what, *words);
            }
            Ok(if round == 6 { Break(()) } else { Continue(()) })
        },
    )?;
    Ok(())
}
