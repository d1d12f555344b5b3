//! The chapter about porting a program (`docs/porting.md`): its programs are compiled and run, and
//! must print what the chapter shows.
//!
//! A block after `<!-- patch: NAME -->` is a change of `heat_ft.c`; `-` lines are replaced by the
//! `+` lines that follow them. A block after `<!-- run: NAME -->` is a command and lines of its
//! output, in any order; times, bytes and shares may differ. Without a patch of that name the
//! program is `examples/porting/NAME.c`. With `or another wrong figure` after the name, a last word
//! that is a number may be any but the right one. With `and no other WORD`, all lines of output
//! that contain WORD are in the block.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::support::stall::let_end;
use super::support::{Job, Outcome, compiled, program};

const CHAPTER: &str = include_str!("../../docs/porting.md");
const BEFORE: &str = include_str!("../../examples/porting/heat.c");
const AFTER: &str = include_str!("../../examples/porting/heat_ft.c");

/// Returns the blocks that follow a comment of this kind: its name, and their lines.
fn blocks(kind: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut lines = CHAPTER.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_prefix(kind));
        let Some(name) = name.and_then(|rest| rest.strip_prefix(": ")?.strip_suffix(" -->")) else {
            continue;
        };
        assert!(lines.next().is_some_and(|fence| fence.starts_with("```")), "{line}: a block");
        found.push((name, lines.by_ref().take_while(|line| *line != "```").collect()));
    }
    found
}

/// Returns `heat_ft.c` with a change.
fn patched(patch: &[&str]) -> String {
    let (mut text, mut from, mut to) = (AFTER.to_owned(), String::new(), String::new());
    let mut apply = |from: &mut String, to: &mut String| {
        if !from.is_empty() {
            assert_eq!(text.matches(from.as_str()).count(), 1, "`{from}` once in heat_ft.c");
            text = text.replace(from.as_str(), to);
        }
        (*from, *to) = (String::new(), String::new());
    };
    for line in patch {
        let (sign, rest) = line.split_at(1);
        match sign {
            "-" => {
                apply(&mut from, &mut to);
                rest.clone_into(&mut from);
            }
            _ => {
                to += if to.is_empty() { "" } else { "\n" };
                to += rest;
            }
        }
    }
    apply(&mut from, &mut to);
    text
}

/// Replaces the parts of a line that vary between runs: figures with a unit.
fn constant(line: &str) -> String {
    let mut words = line.split(' ').peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let unit = words.next_if(|next| {
            let unit = next.trim_end_matches([',', ';']);
            ["ms", "s", "%", "KiB", "MiB"].contains(&unit)
        });
        kept.push(if unit.is_some() { "#" } else { word });
    }
    kept.join(" ")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("porting").join(name);
    std::fs::create_dir_all(&folder).expect("a folder below the target folder");
    folder
}

fn job(command: &str, program: &Path) -> Job {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "oshrun").expect("a command of oshrun");
    let last = words.pop();
    assert!(last.is_some_and(|word| word.starts_with("./")), "a program at the end");
    let variables = words[..at].iter().map(|word| word.split_once('=').expect("VARIABLE=VALUE"));
    let job = variables.fold(Job::of(&words[at + 1..]), |job, (name, value)| job.env(name, value));
    job.program(program, &[])
}

/// Returns the path of a file of `examples/porting`.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/porting").join(name)
}

/// Returns the programs of `examples/porting`: their names without `.c`, and their text.
fn examples() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(example("")).expect("a folder").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let text = |name: &str| std::fs::read_to_string(example(name)).expect("a program");
    let program = |name: String| Some((name.strip_suffix(".c")?.to_owned(), text(&name)));
    names.filter_map(program).collect()
}

/// Builds a program of the chapter: a changed `heat_ft.c`, or one of `examples/porting`.
fn build(name: &str, sources: &BTreeMap<&str, String>) -> PathBuf {
    let folder = folder("book");
    let Some(text) = sources.get(name) else {
        return compiled(&example(&format!("{name}.c")), &folder.join(name));
    };
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text).expect("a file below the target folder");
    compiled(&source, &folder.join(name))
}

/// Checks that each line was printed, as often as in the chapter.
fn printed(outcome: &Outcome, lines: &[&str]) {
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for line in outcome.out.lines().chain(outcome.err.lines()) {
        *there.entry(constant(line)).or_default() += 1;
    }
    for line in lines {
        let left = there.get_mut(&constant(line)).filter(|left| **left > 0);
        outcome.check(left.is_some(), &format!("`{line}` was expected"));
        left.into_iter().for_each(|left| *left -= 1);
    }
}

/// Checks that each line was printed, apart from a figure at its end, which must be wrong.
fn wrong(outcome: &Outcome, lines: &[&str]) {
    let heat = blocks("run").into_iter().find(|(name, _)| *name == "heat").expect("its run").1;
    for line in lines {
        let (words, figure) = line.rsplit_once(' ').expect("words");
        if figure.parse::<f64>().is_err() {
            printed(outcome, &[line]);
            continue;
        }
        let of_it = |said: &&str| said.rsplit_once(' ').is_some_and(|(before, _)| before == words);
        let right = heat.iter().copied().find(of_it).expect("the right figure");
        let mut said = outcome.out.lines().filter(of_it);
        let other = said.next().is_some_and(|said| said != right) && said.next().is_none();
        outcome.check(other, &format!("a line like `{line}`, not `{right}`, was expected"));
    }
}

#[test]
fn programs_of_the_chapter_print_the_documented_output() {
    let mut sources: BTreeMap<&str, String> =
        blocks("patch").into_iter().map(|(name, patch)| (name, patched(&patch))).collect();
    sources.insert("heat", AFTER.to_owned());
    let runs = blocks("run");
    let whole = examples().len() - ["heat", "heat_ft"].len();
    assert_eq!(runs.len(), sources.len() + whole, "each program is run");
    for (name, lines) in runs {
        let (name, how) = name.split_once(", ").unwrap_or((name, ""));
        let program = build(name, &sources);
        let (command, wanted) = lines.split_first().expect("a command");
        let job = job(command.strip_prefix("$ ").expect("a command"), &program);
        let job = job.leaves("append.txt");
        let outcome = match how {
            "until the line" => {
                let run = job.until("no PE computes");
                run.signal(Signal::TERM);
                run.finish()
            }
            _ => job.run(),
        };
        match how.strip_prefix("and no other ") {
            Some(word) => {
                printed(&outcome, wanted);
                let other = |line: &&str| line.contains(word) && !wanted.contains(line);
                let other: Vec<&str> = outcome.out.lines().filter(other).collect();
                outcome.check(other.is_empty(), &format!("{other:?} are printed too"));
            }
            None if how == "or another wrong figure" => wrong(&outcome, wanted),
            None => printed(&outcome, wanted),
        }
    }
}

#[test]
fn the_chapter_shows_the_programs_there_are() {
    let squeezed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let programs: Vec<String> = examples().values().map(|text| squeezed(text)).collect();
    let mut shown = 0;
    let mut rest = CHAPTER;
    while let Some((_, block)) = rest.split_once("\n```c\n") {
        let (code, after_it) = block.split_once("\n```").expect("its end");
        let code = squeezed(code);
        assert!(programs.iter().any(|program| program.contains(&code)), "stale:\n{code}");
        (shown, rest) = (shown + 1, after_it);
    }
    assert_eq!(shown, 9);
    let old: std::collections::BTreeSet<&str> = BEFORE.lines().collect();
    let new = AFTER.lines().filter(|line| !line.is_empty() && !old.contains(line)).count();
    assert!((15..=22).contains(&new), "about twenty lines: {new}");
}

#[test]
fn both_programs_compute_equal_results() {
    let [before, after] = ["heat.c", "heat_ft.c"].map(|name| {
        let program = compiled(&example(name), &folder("same").join(name).with_extension(""));
        let outcome = Job::new(3).program(&program, &[]).run();
        let mut lines: Vec<String> = outcome.status(0).out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(before, after);
    assert_eq!(after.len(), 3);
}

/// Returns the last line of PE 0, and the file that the program leaves; checks that it recovered
/// from a loss, or that there was none.
fn result(name: &str, program: &Path, job: Job, lost: bool) -> (String, Option<Vec<u8>>) {
    let begin = format!("{name}: ");
    // The line follows the last write to the file.
    let run = job.program(program, &[]).with_orphans().leaves("append.txt").until(&begin);
    let file = std::fs::read(run.folder().join("append.txt")).ok();
    let outcome = run.finish();
    let recoveries = outcome.status(0).count("all PEs resume from checkpoint");
    outcome.check((recoveries > 0) == lost, &format!("{recoveries} recoveries"));
    let mut lines = outcome.out.lines().filter(|line| line.starts_with(&begin));
    let (line, more) = (lines.next(), lines.next());
    outcome.check(more.is_none(), "one line was expected");
    (line.unwrap_or_default().to_owned(), file)
}

/// Builds a program whose PE `pe` kills itself at the beginning of its sixth step, so that the
/// others do the rest of this step with remnants.
fn that_kills(pe: usize, name: &str, text: &str) -> PathBuf {
    let step = ["static void step(", "static void pass("];
    let head = step.iter().find_map(|step| text.find(step)).expect("its step");
    let body = head + text[head..].find("{\n").expect("a body") + 2;
    let (before, after) = text.split_at(body);
    let kill = format!(
        "    static int steps;\n    if (++steps == 6 && shmem_my_pe() == {pe} && \
         shmem_ft_algo_init())\n        raise(SIGKILL);\n"
    );
    let folder = folder("killed").join("porting");
    std::fs::create_dir_all(&folder).expect("a folder below the target folder");
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/c/survive.h");
    let before = before.replace("../c/survive.h", shared.to_str().expect("a plain name"));
    let source = folder.join(format!("{name}-{pe}.c"));
    std::fs::write(&source, format!("#include <signal.h>\n{before}{kill}{after}"))
        .expect("a file below the target folder");
    compiled(&source, &source.with_extension(""))
}

/// Losses at a checkpoint and in the middle of a step, also of PE 0, which writes the file. Equal
/// lines mean equal sums over all private data, random numbers or blocks.
#[test]
fn programs_of_the_chapter_have_the_same_results_and_files_after_losses() {
    let job = || Job::new(4).mode("raid5").args(&["--nodes", "4"]);
    let with_file = |name: &str| name == "append";
    for (name, text) in examples() {
        if ["heat", "heat_ft"].contains(&name.as_str()) {
            continue;
        }
        let program = compiled(&example(&format!("{name}.c")), &folder("losses").join(&name));
        let (line, file) = result(&name, &program, job(), false);
        assert_eq!(file.is_some(), with_file(&name), "{name}");
        if let Some(file) = &file {
            let rows = String::from_utf8_lossy(file);
            assert_eq!(rows.lines().count(), 20, "{rows}");
            assert!(rows.lines().zip(1..).all(|(row, i)| row.starts_with(&format!("step {i}: "))));
        }
        for kill in [
            job().kill(&["0@4:encode"]),
            job().kill_node(&["2@5:after"]),
            job().kill(&["1@2:before", "0@6:copied"]),
        ] {
            assert_eq!(result(&name, &program, kill, true), (line.clone(), file.clone()));
        }
        for pe in [0, 2] {
            let program = that_kills(pe, &name, &text);
            assert_eq!(result(&name, &program, job(), true), (line.clone(), file.clone()));
        }
    }
}

/// The script kills the process that the status of the job names.
#[test]
fn a_pe_is_killed_by_hand() {
    let mut run =
        Job::new(4).mode("raid5").program(&program("pause"), &[]).leaves("go").until("ready");
    let oshrun = Path::new(env!("CARGO_BIN_EXE_oshrun")).parent().expect("a folder");
    let path = format!("{}:{}", oshrun.display(), std::env::var("PATH").expect("a path"));
    let mut script = Command::new(example("kill_pe.sh"));
    let job = run.launcher().to_string();
    let killed = script.args(["2", job.as_str()]).env("PATH", path).status();
    assert!(killed.expect("a script").success());
    run.wait_for("PE 2 was killed by SIGKILL");
    let outcome = let_end(run);
    outcome.status(0).check(outcome.count("all PEs resume from checkpoint 3") == 1, "one recovery");
}
