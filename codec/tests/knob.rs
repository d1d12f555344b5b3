//! `RAIDSHMEM_KERNEL`, in separate processes: the choice is made once per process.
//!
//! Left out: the correctness of the chosen kernel (`kernels.rs`).

use std::process::Command;

use raidshmem_codec::{code::Code, kernel::Kernel};

/// Returns the output of the child below with the variable set to `name`.
fn said(name: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_chosen_kernel_is_used", "--nocapture"])
        .env("RAIDSHMEM_KERNEL", name)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    String::from_utf8(child.stdout).unwrap()
}

/// The child of the other tests; on its own it checks that a code agrees with the choice.
#[test]
fn the_chosen_kernel_is_used() {
    println!("chosen {:?}", Kernel::chosen().map(Kernel::name));
    println!("code {:?}", Code::new(3, 2).err());
    assert_eq!(Code::new(3, 2).err(), Kernel::chosen().err());
    if let Err(error) = Kernel::chosen() {
        println!("{error}");
    }
}

#[test]
fn every_available_kernel_can_be_asked_for() {
    for kernel in Kernel::available() {
        let said = said(kernel.name());
        assert!(said.contains(&format!("chosen Ok(\"{kernel}\")\ncode None")), "{said}");
    }
}

#[test]
fn without_a_name_it_is_the_best() {
    let said = said("");
    assert!(said.contains(&format!("chosen Ok(\"{}\")", Kernel::best())), "{said}");
}

#[test]
fn missing_kernels_are_refused_with_a_list() {
    let names: Vec<&str> = Kernel::available().iter().map(|kernel| kernel.name()).collect();
    let missing = Kernel::NAMES.into_iter().find(|name| !names.contains(name));
    for name in missing.into_iter().chain(["abacus", "AVX2", "wide "]) {
        let said = said(name);
        let names = names.join(", ");
        let message =
            format!("RAIDSHMEM_KERNEL is {name}: the kernels of this machine are {names}\n");
        assert!(said.contains(&message), "{said}");
        assert!(said.contains("code Some(Kernel {"), "{said}");
    }
}
