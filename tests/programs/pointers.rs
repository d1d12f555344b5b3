//! The forms of `tests/c/pointers.c`, run with the loss of a PE: those whose pointers to private
//! memory are in no checkpoint end with the same sums, and the others do not.
//! `tests/advise/pointers.rs` tests the reports of `oshadvise` about them.

use super::restarts::{built, printed};
use super::support::Job;

/// True if a loss changes nothing.
fn is_right(form: u32) -> bool {
    let program = built("pointers", form);
    let job = || Job::new(3).mode("raid5");
    let undisturbed = job().program(&program, &[]).run();
    undisturbed.status(0);
    let outcome = job().kill(&["1@3"]).program(&program, &[]).run();
    outcome.says("PE 1 was killed by SIGKILL");
    printed(&outcome) == printed(&undisturbed)
}

#[test]
fn restored_pointers_to_private_memory_are_wrong_and_others_right() {
    for form in 1..=3 {
        assert!(is_right(form), "form {form} goes wrong");
    }
    for form in 20..=21 {
        assert!(!is_right(form), "form {form} is right");
    }
}
