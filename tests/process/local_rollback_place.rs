//! Local rollback however a compiler translates the checkpoint call; but not to a checkpoint that
//! may have been made at another call site.

use std::path::PathBuf;

use super::local_rollback::{ALL, all_went, rolled_back_locally, said};
use super::support::{Job, Outcome, has_compiler, partly, program_by, program_with};

/// Returns the newest clang installed.
fn clang() -> Option<&'static str> {
    has_compiler(&["clang-22", "clang-21", "clang-20", "clang-19", "clang"])
}

fn with_logs(pes: usize, kill: &str) -> Job {
    let job = Job::new(pes).mode("raid5").env("SHMEM_FT_ROLLBACK", "local");
    job.args(&["--verbose"]).kill(&[kill])
}

/// Right after a checkpoint, and before the next one: with an empty log, and with calls in it.
#[test]
fn the_program_of_the_readme_rolls_back_locally_however_compiled() {
    let clang = clang();
    if clang.is_none() {
        partly("clang", "there is no clang");
    }
    let every = ["-O0", "-O1", "-O2", "-O3"];
    let compilers = [(Some("cc"), &every[..]), (clang, &every[..]), (Some("c++"), &every[2..3])];
    for (compiler, levels) in compilers {
        let Some(compiler) = compiler else { continue };
        for level in levels {
            let program = program_by(compiler, "count", &[level]);
            for kill in ["2@5", "2@6:before"] {
                let outcome = with_logs(4, kill).program(&program, &[]).run();
                outcome.status(0);
                let sum = said(&outcome, "sum");
                outcome.check(sum == "760", &format!("{compiler} {level}: the sum is 760"));
                rolled_back_locally(&outcome, 1);
            }
        }
    }
}

/// A program of `tests/c/local_rollback_place.c`, built with and without optimisation.
struct Places {
    programs: [PathBuf; 2],
    form: &'static str,
    /// The result without a loss.
    sum: String,
}

impl Places {
    fn new(form: &'static str, options: &[&str]) -> Places {
        let of = |level| program_with("local_rollback_place", &[&[level], options].concat());
        let programs = ["-O0", "-O2"].map(of);
        let undisturbed = Job::new(3).mode("raid5").program(&programs[0], &[form]).run();
        undisturbed.status(0);
        Places { programs, form, sum: said(&undisturbed, "sum") }
    }

    /// Loses PE 1 in each program, and checks how that ended.
    fn lose(&self, kill: &str, look: impl Fn(&Outcome)) {
        for program in &self.programs {
            let outcome = with_logs(3, kill).program(program, &[self.form]).run();
            outcome.status(0);
            let sum = said(&outcome, "sum");
            outcome.check(sum == self.sum, "the sum of a run without a loss was expected");
            look(&outcome);
        }
    }

    /// Checks that a checkpoint made at the first place is rolled back to locally.
    fn rolls_back_locally_from_the_first(&self) {
        ["1@5", "1@6:before"]
            .iter()
            .for_each(|kill| self.lose(kill, |of| rolled_back_locally(of, 1)));
    }
}

const UNPROVEN: &str = "no logged call shows that it calls the checkpoint from the same place";
const OTHER: &str = "it calls the first checkpoint from another place";

/// The second place made the checkpoint: order proves nothing, and logged calls prove the opposite.
#[test]
fn a_wrapper_that_is_called_from_two_places_is_two_places() {
    let places = Places::new("apart", &[]);
    places.rolls_back_locally_from_the_first();
    places.lose("1@4", |outcome| all_went(outcome, UNPROVEN));
    places.lose("1@5:before", |outcome| {
        outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
        outcome.says("its replay makes another call than before");
    });
}

#[test]
fn two_instructions_of_one_call_are_one_place_if_the_log_shows_it() {
    let places = Places::new("alike", &[]);
    places.lose("1@3", |outcome| all_went(outcome, UNPROVEN));
    places.lose("1@4:before", |outcome| rolled_back_locally(outcome, 1));
}

/// In `main` the source distinguishes the two calls.
#[test]
fn two_calls_in_main_are_two_places() {
    let places = Places::new("apart", &["-DIN_MAIN"]);
    places.rolls_back_locally_from_the_first();
    for kill in ["1@4", "1@5:before"] {
        places.lose(kill, |outcome| all_went(outcome, OTHER));
    }
}

/// Calls without source information have the place that return addresses give.
#[test]
fn a_call_without_the_macro_has_the_place_of_its_addresses() {
    for call in ["-DCALL()=(shmem_checkpoint_all)()", "-DCALL()=found()"] {
        let places = Places::new("apart", &[call]);
        places.rolls_back_locally_from_the_first();
        for kill in ["1@4", "1@5:before"] {
            places.lose(kill, |outcome| all_went(outcome, OTHER));
        }
    }
}

/// A tool's wrapper is called, and the place is that of its caller.
#[test]
fn a_call_through_a_tool_has_the_place_of_the_program() {
    let places = Places::new("apart", &["-DTOOL", "-DIN_MAIN"]);
    places.rolls_back_locally_from_the_first();
    places.lose("1@4", |outcome| all_went(outcome, OTHER));
}
