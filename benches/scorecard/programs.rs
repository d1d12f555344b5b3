//! Building and running the programs that are measured.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reason why the scorecard could not be completed: one line for the user.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    pub fn new(what: impl Display) -> Trouble {
        Trouble(what.to_string())
    }
}

impl Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folders, and the duration of measurements.
pub struct Bench {
    pub quick: bool,
    root: PathBuf,
    target: PathBuf,
    folder: PathBuf,
}

/// Removes the caller's SHMEM settings: those of measured programs come from the command lines
/// here.
pub fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("SHMEM_"))
    {
        command.env_remove(name);
    }
    command
}

impl Bench {
    /// Finds the release build next to this bench.
    pub fn new(quick: bool) -> Result<Bench, Trouble> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let folder = target.join("scorecard");
        std::fs::create_dir_all(&folder).map_err(|e| Trouble(format!("{folder:?}: {e}")))?;
        let bench = Bench { quick, root, target, folder };
        match bench.tool("oshrun").exists() {
            true => Ok(bench),
            false => Err(Trouble(format!("{:?} is missing: make build", bench.tool("oshrun")))),
        }
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a program of the release build.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// Returns the rounds of a measurement: an odd number, at least 7 in the full run.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// Compiles the C program at `source` with our wrapper.
    pub fn compile(&self, source: &str) -> Result<PathBuf, Trouble> {
        let name = Path::new(source).file_stem().expect("a source file");
        self.compile_with(&self.tool("oshcc"), source, &name.to_string_lossy())
    }

    /// Compiles the C program at `source` with a peer's wrapper.
    pub fn compile_with(&self, cc: &Path, source: &str, name: &str) -> Result<PathBuf, Trouble> {
        self.build(cc, &["-O3", "-march=native"], source, name)
    }

    /// Compiles the C program at `source` with our wrapper, for any processor of this architecture.
    pub fn compile_portable(&self, source: &str) -> Result<PathBuf, Trouble> {
        let name = Path::new(source).file_stem().expect("a source file").to_string_lossy();
        self.build(&self.tool("oshcc"), &["-O3"], source, &format!("{name}-portable"))
    }

    fn build(
        &self,
        cc: &Path,
        flags: &[&str],
        source: &str,
        name: &str,
    ) -> Result<PathBuf, Trouble> {
        let out = self.folder.join(name);
        let mut command = Command::new(cc);
        command.args(flags).arg("-o").arg(&out).arg(self.root.join(source));
        output(&mut command).map(|_| out)
    }

    /// Runs `program` as a job of `pes` PEs under our launcher. Returns its output, then the
    /// launcher's messages.
    pub fn job(
        &self,
        pes: usize,
        settings: &[(&str, &str)],
        launch: &[&str],
        program: &Path,
        words: &[&str],
    ) -> Result<String, Trouble> {
        let mut command = Command::new(self.tool("oshrun"));
        clean(&mut command).envs(settings.iter().copied());
        command.args(["-n", &pes.to_string()]).args(launch).arg(program).args(words);
        outputs(&mut command).map(|(out, err)| out + &err)
    }
}

/// Runs `command` and returns its standard output; a nonzero status is an error.
pub fn output(command: &mut Command) -> Result<String, Trouble> {
    outputs(command).map(|(out, _)| out)
}

/// Runs `command` and returns its standard error; a nonzero status is an error.
pub fn errors(command: &mut Command) -> Result<String, Trouble> {
    outputs(command).map(|(_, err)| err)
}

/// Runs `command` and returns its standard output and standard error.
fn outputs(command: &mut Command) -> Result<(String, String), Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|error| Trouble(format!("{name}: {error}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() {
        return Ok((text(&out.stdout), text(&out.stderr)));
    }
    let said = text(&out.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(Trouble(format!("{command:?}: {}: {last}", out.status)))
}

/// Returns the value printed on the line `name value`.
pub fn value(text: &str, name: &str) -> Result<f64, Trouble> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let parsed = found.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    parsed.ok_or_else(|| Trouble(format!("no line `{name} value` in {text:?}")))
}

/// Parses the milliseconds in the launcher's line about a rebuilt PE.
pub fn millis_of_rebuild(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(" rebuilt from PE")?;
    let mut words = rest.rsplit(' ');
    let (unit, figure) = (words.next()?, words.next()?.parse::<f64>().ok()?);
    match unit {
        "ms" => Some(figure),
        "s" => Some(figure * 1e3),
        _ => None,
    }
}
