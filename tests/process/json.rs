//! Output for programs conforms to the schemas in `docs/schema`; and `--dry-run`.

use std::process::{Command, Output};

use super::support::program;
use super::support::schema::conforms;

fn oshinfo(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshinfo"));
    command.args(words.split_whitespace()).output().expect("oshinfo runs")
}

fn oshrun(words: &[&str]) -> (Option<i32>, String, String) {
    let program = program("count").display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshrun"));
    let out = command.args(words).arg(program).output().expect("oshrun runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn oshinfo_conforms() {
    let all = conforms("info", &oshinfo("--json").stdout);
    assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
    let settings = all["settings"].as_array().expect("a list");
    let text = String::from_utf8(oshinfo("").stdout).expect("text");
    for setting in settings {
        let name = setting["name"].as_str().expect("a name");
        assert!(text.contains(&format!("\n  {name} ")), "{name}");
    }
}

#[test]
fn a_plan_conforms() {
    let job = "plan --json --heap 1G --pes 64 --nodes 8 --mtbf 6h --link 25GB/s --copy 10GB/s";
    let plan = conforms("plan", &oshinfo(job).stdout);
    let best = &plan["candidates"][plan["best"].as_u64().expect("an index") as usize];
    assert_eq!(best["mode"], plan["settings"]["SHMEM_FT_BACKUP_MODE"]);
    let text = String::from_utf8(oshinfo(&job.replace("--json", "")).stdout).expect("text");
    for (name, value) in plan["settings"].as_object().expect("settings") {
        let setting = format!(" {name}={}", value.as_str().expect("text"));
        assert!(text.contains(&setting), "`{setting}` was expected in\n{text}");
    }
    let none = conforms("plan", &oshinfo(&format!("{job} --memory 1G")).stdout);
    assert!(none["best"].is_null() && none["settings"].is_null(), "{none:#}");
}

#[test]
fn a_dry_run_describes_the_job_and_leaves_nothing() {
    let folder = std::env::temp_dir().join(format!("raidshmem-dry-{}", std::process::id()));
    let file = |name: &str| folder.join(name).display().to_string();
    let (report, output) = (file("run.json"), file("logs"));
    let (code, out, err) = oshrun(&[
        "--dry-run",
        "-n8",
        "--nodes=4",
        "--mode=raid5",
        "--report",
        &report,
        "--output",
        &output,
    ]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for words in [
        "8 PEs on 4 nodes, fabric ",
        "\nPE  node ",
        "\nfailure domains: node",
        "\nraid5: 2 groups of 4, parity 1: survives the loss of any 1 PE per group",
        "\nmemory: a symmetric heap of ",
        "takes up to 2.67 GiB of its memory in all, in 2 groups\n",
        "\nnothing was started (--dry-run)\n",
    ] {
        assert!(out.contains(words), "`{words}` was expected in\n{out}");
    }
    assert!(!folder.exists(), "nothing was made");
}

/// A start prints the placement in the words of a dry run.
#[test]
fn a_start_does_what_a_dry_run_says() {
    let words = ["-n4", "--nodes=2", "--mode=raid5"];
    let (_, dry, _) = oshrun(&[&words[..], &["--dry-run"]].concat());
    let (code, _, err) = oshrun(&[&words[..], &["--report-placement"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let table = &dry[dry.find("PE  ").expect("a table")..dry.find("memory:").expect("memory")];
    assert!(err.contains(table), "`{table}` was expected in\n{err}");
}

#[test]
fn options_that_belong_to_others_are_refused() {
    let refused = |words: &[&str]| {
        let (code, out, err) = oshrun(words);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        err
    };
    let alone = "oshrun: --json: expected together with --status\n";
    assert_eq!([refused(&["-n1", "--json"]), refused(&["--dump", "--json"])], [alone; 2]);
    let without = "oshrun: --resume-rebuilt: expected together with --resume\n";
    assert_eq!(refused(&["-n1", "--resume-rebuilt"]), without);
    let two = "oshrun: --status and --dry-run: expected one of the two\n";
    assert_eq!(refused(&["-n1", "--dry-run", "--status"]), two);
}
