//! Programs that call the checkpoint at several places: whichever PE is lost at any point, the
//! memory at the end is right; and a barrier of the program is not mistaken for a checkpoint.

use std::mem::offset_of;

use raidshmem_core::protocol::At;
use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::site::{Called, Calls};
use raidshmem_core::tree::post::{MeetingId, WORDS, Way, open, seal};
use raidshmem_segment::words::{Line, SiteWords, Words};

use super::right;
use super::support::stall::let_end;
use super::support::{Job, Outcome, Sweep, image, program};

fn run(pes: usize, mode: &str, form: &str, words: &str) -> Outcome {
    let line = format!("-n {pes} --mode {mode} --verbose {words}");
    Job::line(&line).program(&program("places"), &[form]).run()
}

/// Checks a form of the program in each cell of these rows.
fn all_right(form: &str, rows: &[&str]) {
    Sweep::of(rows).each(|cell| {
        let job = cell.job().args(&["--verbose"]).program(&program("places"), &[form]);
        right(cell.pes(), &job.run());
    });
}

/// A substitute calls again before the loop, while the others compute.
#[test]
fn a_loss_at_every_step_of_a_program_with_two_places() {
    for form in ["two", "alone"] {
        all_right(form, &["-n 3 --mode raid5 --kill {0|1|2}@3:{checkpoint}"]);
    }
}

#[test]
fn a_node_lost_at_every_step_of_a_program_with_two_places() {
    all_right("two", &["-n 3 --mode raid5 --nodes 3 --kill-node {0|1|2}@3:{checkpoint}"]);
}

/// Losses at the first of the two places, and at the first call of the second one.
#[test]
fn a_loss_at_the_place_before_the_loop() {
    let places = "{1@1:after|0@2:before|2@2:copied|0@2:after|1@7:before|2@7:copy}";
    all_right("two", &[&format!("-n 3 --mode raid5 --kill {places}")]);
}

#[test]
fn every_mode_knows_the_two_places() {
    all_right("two", &["-n 3 --mode {single|double|raid4|rs} --kill 1@3:{before|copy|after}"]);
    all_right("alone", &["-n 3 --mode {single|double|raid4|rs} --kill 0@3:{before|copy|after}"]);
}

/// Two losses in turn, at once, and in the recovery from the first.
#[test]
fn two_losses_in_a_program_with_two_places() {
    needs!(long);
    for form in ["two", "alone"] {
        for [one, other] in [[0, 1], [1, 0], [2, 2], [0, 0]] {
            for (first, second) in [
                ("3:before", "4:before"),
                ("3:after", "4:copy"),
                ("3:copied", "4:encode"),
                ("3", "3:copy"),
            ] {
                let row = format!("--mode rs --kill {one}@{first} --kill {other}@{second}");
                all_right(form, &[&row]);
            }
        }
        all_right(form, &["--mode rs --kill 1@3:copy --kill {0|1|3}@3:{recovery}"]);
    }
}

/// Over an engine, or with the barrier of nodes, the other PEs' words are read in another way.
#[test]
fn two_places_on_several_nodes() {
    let nodes = "{--nodes 2 --kill 1@3|--nodes 4 --kill-node 0@3:copied --kill 2@5}";
    all_right("two", &[&format!("--mode rs {nodes}")]);
}

/// Forms that always worked: all PEs call at the place where one tried again, two checkpoints per
/// step, and a line that only one PE reaches.
#[test]
fn other_forms_with_several_places_continue() {
    for form in ["wrapped", "halves", "unlike"] {
        let row = "-n 3 --mode raid5 --kill {0|1|2}@{3|4}:{before|encode|copy|after}";
        all_right(form, &[row]);
    }
}

/// Its writes are in no checkpoint, and the others do not wait for it.
#[test]
fn a_substitute_that_writes_before_it_calls_elsewhere_is_an_error_that_names_both_places() {
    needs!(long);
    let outcome = run(3, "raid5", "rewrites", "--kill 1@3");
    outcome.status(3);
    let source = include_str!("../c/places.c");
    let begin = source.lines().position(|line| line.starts_with("static void rewrites"));
    let begin = begin.expect("the form is there");
    let at = |what: &str| {
        let mut lines = source.lines().enumerate().skip(begin);
        lines.find(|(_, line)| line.contains(what)).expect("it is in the form").0 + 1
    };
    let main = source.lines().position(|line| line.ends_with("  rewrites();")).expect("a call") + 1;
    let place = |line: usize| format!("places.c:{line} called at places.c:{main}");
    let words = format!(
        "checkpoints do not fit: after the restart PE 1 wrote to symmetric memory and called the \
         checkpoint at {}, but PE 0 has continued to the checkpoint at {}",
        place(at("while (shmem_checkpoint_all()")),
        place(at("if (shmem_checkpoint_all()"))
    );
    outcome.check(outcome.count(&format!("oshrun: {words}")) == 1, &format!("`{words}` expected"));
}

/// The test itself changes the number that a PE waiting in a checkpoint has posted: no program can
/// cause two numbers in one meeting.
#[test]
fn two_numbers_in_one_checkpoint_are_one_error_that_names_both_places() {
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_STALL", "1");
    let job = job.program(&program("stall"), &["places"]).after("mkfifo go").leaves("go");
    let mut run = job.until("ready");
    run.wait_for("PEs 1-3 wait in shmem_checkpoint_all after checkpoint 1 for ");
    let images = image::all(run.launcher());
    let word = |at: usize| images[1].word(at);
    let shown = offset_of!(Words, site);
    let site = word(shown + offset_of!(SiteWords, site));
    let call = Called::of(site, word(shown + offset_of!(SiteWords, call)));
    let second = Called { number: CheckpointNumber(2), site, ..Called::default() };
    assert_eq!(call, second, "its second checkpoint");
    let at = offset_of!(Words, posts) + Way::Up as usize * size_of::<Line<[u64; WORDS]>>();
    let words: [u64; WORDS] = std::array::from_fn(|index| word(at + index * 8));
    let stage = MeetingId::of(words[0]);
    let body = open(&words, stage, Way::Up).expect("it has posted");
    let Brought::Intents(intents, calls, drain) = Brought::read(At::BarrierQ, &body, None) else {
        panic!("it says what it saves");
    };
    assert_eq!(calls, Calls::of(Pe(1), &call));
    let other = Calls::of(Pe(1), &Called { number: CheckpointNumber(7), ..call });
    let words = seal(stage, Way::Up, &Brought::Intents(intents, other, drain).body());
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    images[1].write(at, &bytes);
    drop(images);
    let outcome = let_end(run);
    let source = include_str!("../c/stall.c").lines().enumerate();
    let calls = source.filter(|(_, line)| line.starts_with("            CHECK(shmem_checkpoint"));
    let [own, all] = calls.map(|(at, _)| at + 1).collect::<Vec<_>>()[..] else {
        panic!("two calls are in the program");
    };
    let words = format!(
        "checkpoints do not fit: PE 0 makes number 2 at stall.c:{all}, PE 1 number 7 at \
         stall.c:{own}"
    );
    outcome.status(3);
    outcome.check(outcome.count(&format!("oshrun: {words}")) == 1, &format!("`{words}` expected"));
}

/// Arrivals are counted separately: neither releases the other.
#[test]
fn a_barrier_of_the_program_and_a_checkpoint_do_not_release_each_other() {
    all_right("barrier", &["-n 3 --mode raid5{| --nodes 3}"]);
}
