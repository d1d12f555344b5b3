//! State that a restart restores: allocator, pointers, statics, registered private memory; and
//! state that it leaves alone: output, environment, excluded memory. The programs check themselves.

use std::path::Path;

use super::support::{Job, Outcome, has_tool, program, program_with};

/// Losses of every kind: memory adopted, rebuilt, in the middle of a checkpoint, twice.
const LOSSES: &[&str] = &[
    "--kill 1@4:before",
    "--kill 0@4:encode",
    "--kill 2@4:copy",
    "--kill 3@4",
    "--kill 1@1",
    "--kill 2@2:copy",
    "--nodes 4 --kill-node 1@4:before",
    "--nodes 4 --kill-node 0@4:copied",
    "--nodes 4 --kill-node 3@4",
    "--nodes 4 --spares 1 --kill-node 2@3:copy --kill 2@5:before",
    "--kill 0@3 --kill 0@5:restore --kill 1@5",
    "--kill 1@3 --kill 1@3:rebuild",
];

fn run(name: &str, args: &[&str], mode: &str, words: &str) -> Outcome {
    let job = Job::line(words).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "32M");
    job.program(&program(name), args).run()
}

#[track_caller]
fn line<'a>(outcome: &'a Outcome, begins: &str) -> &'a str {
    outcome.status(0);
    let mut lines = outcome.out.lines().filter(|line| line.starts_with(begins));
    let line = lines.next();
    outcome.check(line.is_some() && lines.next().is_none(), &format!("one `{begins}` expected"));
    line.unwrap_or_default()
}

/// The sum covers addresses and bytes of all blocks, so it is right only if the allocator rolled
/// back with them.
#[test]
fn allocations_between_checkpoints_are_undone() {
    needs!(long);
    let quiet = run("heap", &[], "none", "");
    let sum = line(&quiet, "heap sum=");
    for mode in ["raid5", "rs", "double"] {
        for words in LOSSES {
            let outcome = run("heap", &[], mode, words);
            outcome.check(line(&outcome, "heap sum=") == sum, &format!("`{sum}` was expected"));
        }
    }
    for words in LOSSES.iter().filter(|words| !words.contains("node") && !words.contains(":en")) {
        let outcome = run("heap", &[], "single", words);
        outcome.check(line(&outcome, "heap sum=") == sum, &format!("`{sum}` was expected"));
    }
}

/// Loses PEs, and checks that output works in survivors and substitutes to the end.
#[track_caller]
fn statics_are_right(program: &Path, mode: &str, words: &str) {
    let outcome = Job::line(words).mode(mode).program(program, &["-x", "last"]).run();
    line(&outcome, "statics ok");
    (0..4).for_each(|pe| _ = outcome.prints(&format!("PE {pe} at step 5")));
}

#[test]
fn statics_roll_back_and_what_is_libc_s_does_not() {
    needs!(long);
    for flags in [&[][..], &["-no-pie", "-fno-pie"], &["-O0"], &["-O2", "-fcommon"]] {
        for words in LOSSES {
            let mode = if words.contains("node") { "raid5" } else { "raid4" };
            statics_are_right(&program_with("statics", flags), mode, words);
        }
    }
}

/// Without the options of `oshcc` the loader keeps writing between the statics.
#[test]
fn statics_of_a_program_that_is_bound_lazily_roll_back() {
    for flags in [&[][..], &["-no-pie", "-fno-pie"], &["-Wl,-z,norelro"]] {
        let program = super::support::lazily_bound("statics", flags);
        for words in ["--kill 1@4:before", "--nodes 4 --kill-node 1@4:before"] {
            statics_are_right(&program, "raid5", words);
        }
    }
}

/// Linkers start another writable segment for variables of such an alignment, and some place it
/// after the memory that the loader makes read-only.
#[test]
fn statics_of_whatever_alignment_and_linker_roll_back() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !has_tool(&format!("ld.{linker}")) {
            continue;
        }
        let linker = format!("-fuse-ld={linker}");
        for aligned in ["-DALIGNED=8192", "-DALIGNED=65536", "-DALIGNED=2097152"] {
            for flags in [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"]] {
                let flags = [&flags[..], &[&*linker, aligned]].concat();
                let program = super::support::program_with("statics", &flags);
                for words in LOSS {
                    let job = Job::line(words).mode("raid5");
                    line(&job.program(&program, &["-x", "last"]).run(), "statics ok");
                }
            }
        }
    }
}

/// With every transport and every PE that rolls back.
#[test]
fn constants_are_symmetric() {
    let program = program("constants");
    let run = |job: Job| line(&job.program(&program, &[]).run(), "constants ok").len();
    for how in ["direct", "nodes", "doubling", "halving"] {
        for words in ["--kill 1@3:before", "--nodes 4 --kill-node 1@3:before"] {
            run(Job::line(words).mode("raid5").env("SHMEM_FT_COLLECTIVES", how));
        }
    }
    run(Job::new(4).mode("raid5").env("SHMEM_FT_ROLLBACK", "local").kill(&["1@3"]));
    let shrinks = Job::new(4).mode("none").env("SHMEM_FT_ROLLBACK", "none");
    run(shrinks.env("SHMEM_FT_SUBSTITUTE", "shrink"));
}

/// Changes that a child of `fork` makes to its variables stay there.
#[test]
fn a_child_has_variables_of_its_own() {
    let program = program_with("forks", &["-pthread"]);
    for words in ["", "--nodes 4 --kill-node 1@3:before", "--kill 2@4"] {
        let job = Job::line(words).mode("raid5");
        line(&job.program(&program, &[]).run(), "forks ok");
    }
    let outcome = Job::new(2).program(&program, &["limited"]).run();
    line(&outcome, "forks ok");
    outcome.says("a child of fork gets no memory for its static variables");
    let alone = std::process::Command::new(program).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "forks ok\n");
}

#[test]
fn registered_memory_rolls_back_and_excluded_memory_does_not() {
    for mode in ["raid5", "rs"] {
        for words in LOSSES {
            line(&run("private", &[], mode, words), "private ok");
        }
    }
}

/// A PE is lost, and its memory adopted or rebuilt.
const LOSS: [&str; 2] = ["--kill 1@3:before", "--nodes 4 --kill-node 1@3:before"];

#[test]
fn attributes_of_memory_end_with_it() {
    for what in ["free", "include", "move"] {
        for mode in ["raid5", "double"] {
            for words in LOSS {
                line(&run("regions", &[what], mode, words), "regions ok");
            }
        }
    }
}

#[test]
fn private_memory_is_found_by_its_name_in_whatever_order() {
    for what in ["named", "places"] {
        for words in LOSS {
            line(&run("regions", &[what], "raid5", words), "regions ok");
        }
    }
}

/// By the launcher, and by no PE.
#[test]
fn private_memory_that_does_not_fit_is_one_named_error() {
    for (what, says) in [
        ("named-missing", "it has not registered `other`, which has there 4096 bytes"),
        ("named-length", "it has registered `other` with 8 bytes, expected 4096"),
        ("places-missing", ", call 1, 4096 bytes, which has there 4096 bytes"),
        ("places-length", ", call 1, 4096 bytes, which has there 4096 bytes"),
    ] {
        for words in LOSS {
            let outcome = run("regions", &[what], "raid5", words);
            outcome.status(3);
            let line = "oshrun: unrecoverable: PE 1 cannot roll back to checkpoint 2: it has ";
            let lines: Vec<&str> =
                outcome.err.lines().filter(|l| l.contains("registered")).collect();
            let one = lines.len() == 1 && lines[0].starts_with(line) && lines[0].ends_with(says);
            outcome.check(one, &format!("one line of `{line}.. {says}` was expected"));
        }
    }
}

#[test]
fn private_memory_of_different_amounts_is_called_that() {
    let outcome = run("regions", &["uneven"], "raid5", "");
    line(&outcome, "regions ok");
    outcome.says(
        "PE 0: checkpoint refused: PEs 0 and 2 have not registered the same amount of private \
         memory (",
    );
    outcome.says(" KiB in whole pages, including the heap's metadata)");
}

/// The second loss rolls back to a checkpoint for which the substitute must have registered it.
#[test]
fn late_registrations_are_restored_as_registered() {
    for words in ["--kill 1@2:before", "--kill 1@2:quiesce", "--nodes 4 --kill-node 1@2:before"] {
        line(&run("regions", &["late"], "raid5", words), "regions ok");
    }
    let outcome = run("regions", &["late"], "raid5", "--kill 1@3:before");
    outcome
        .status(3)
        .says("PE 1 cannot roll back to checkpoint 2: it has not registered regions+0x");
}
