//! A machine in software: it boots, runs commands, and can be killed.
//!
//! A guest has no disk and no privileges on the host. Its network card is a port of a [`Switch`]; a
//! separate port carries commands in and their output out (see `init`). It is not a serial port:
//! emulated ones, on a busy host, have lost bytes.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::image;
use crate::switch::Switch;

/// The silence after which a guest counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(240);

/// The configuration of a guest.
#[derive(Clone, Debug)]
pub struct Plan {
    /// 1 to 250: its port of the switch, and the end of its address.
    pub number: u8,
    /// Its processors.
    pub cpus: u8,
    /// Its memory in MiB.
    pub memory: u32,
    /// An archive made by [`image::add`].
    pub payload: Option<PathBuf>,
    /// More arguments for QEMU.
    pub words: Vec<String>,
}

impl Plan {
    /// Returns the plan of a guest with one processor.
    pub fn new(number: u8) -> Plan {
        Plan { number, cpus: 1, memory: 512, payload: None, words: Vec::new() }
    }

    /// Adds the files of an archive.
    pub fn with(mut self, payload: &Path) -> Plan {
        self.payload = Some(payload.to_owned());
        self
    }

    /// Starts it; [`Guest::ready`] waits for it.
    pub fn boot(self, switch: &Switch) -> Guest {
        let Plan { number, cpus, memory, .. } = self;
        let folder = switch.folder();
        let initrd = folder.join(format!("initrd{number}"));
        image::join(&initrd, self.payload.as_deref());
        let console = folder.join(format!("console{number}"));
        let port = switch.port(number);
        let network = format!(
            "dgram,id=n,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            port.display(),
            switch.path().display()
        );
        // On a busy host no timer tick may arrive while the kernel counts them.
        let kernel = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check \
             guest.address={}/24 guest.name=guest{number}",
            address(number)
        );
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-cpu", "max", "-nodefaults", "-no-user-config"])
            .args(["-display", "none", "-no-reboot"])
            .args(["-smp", &cpus.to_string(), "-m", &memory.to_string()])
            .arg("-kernel")
            .arg(image::kernel())
            .arg("-initrd")
            .arg(&initrd)
            .args(["-append", &kernel])
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-chardev", "stdio,id=c,signal=off", "-device", "virtio-serial-pci"])
            .args(["-device", "virtserialport,chardev=c"])
            .args(["-netdev", &network])
            .args([
                "-device",
                &format!("virtio-net-pci,netdev=n,host_mtu=9000,mac={}", mac(number)),
            ])
            .args(&self.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // No guest outlives the test that booted it, however that ends.
        let bound = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into);
        // SAFETY: one system call, which is allowed after fork.
        unsafe { qemu.pre_exec(bound) };
        let mut child = qemu.spawn().unwrap_or_else(|error| {
            panic!("qemu-system-x86_64: {error}; `.ci/setup nodes` installs it")
        });
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Guest { number, child, input, lines: listen(output), console }
    }
}

/// Returns the address of guest `number`.
pub fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

fn mac(number: u8) -> String {
    format!("52:54:00:00:00:{number:02x}")
}

/// A line of a command's output, or its end.
enum Heard {
    Line(String),
    End(String),
}

fn listen(output: impl BufRead + Send + 'static) -> Receiver<Heard> {
    let (said, lines) = channel();
    std::thread::spawn(move || {
        for line in output.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let heard = match line.strip_prefix('\u{1}') {
                Some(end) => Heard::End(end.to_owned()),
                None => Heard::Line(line),
            };
            if said.send(heard).is_err() {
                return;
            }
        }
    });
    lines
}

/// The end of a command in a guest.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub text: String,
    pub took: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "status {} after {:.1?}\n{}", self.status, self.took, self.text)
    }
}

/// A running guest; dropping it kills it.
#[derive(Debug)]
pub struct Guest {
    number: u8,
    child: Child,
    input: ChildStdin,
    lines: Receiver<Heard>,
    console: PathBuf,
}

impl Guest {
    /// Waits until it accepts commands.
    #[track_caller]
    pub fn ready(&mut self) {
        while !matches!(self.hear(), Heard::End(word) if word == "ready") {}
    }

    /// Runs a line of shell to its end.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> Outcome {
        let mut running = self.start(command);
        while running.next_line().is_some() {}
        running.outcome()
    }

    /// Like [`Guest::run`], but fails the test unless the status is 0.
    #[track_caller]
    pub fn must(&mut self, command: &str) -> String {
        let outcome = self.run(command);
        assert!(outcome.status == 0, "guest {}: `{command}`: {outcome}", self.number);
        outcome.text
    }

    /// Starts a line of shell whose output can be read as it runs.
    pub fn start(&mut self, command: &str) -> Running<'_> {
        assert!(!command.contains('\n'), "commands are lines: {command}");
        let written = writeln!(self.input, "{command}").and_then(|()| self.input.flush());
        written.unwrap_or_else(|error| panic!("guest {}: {error}", self.number));
        let begun = Instant::now();
        Running { guest: self, begun, text: String::new(), status: None }
    }

    /// Kills the machine, as a loss of power would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the output of its console.
    pub fn console(&self) -> String {
        let console = std::fs::read(&self.console).unwrap_or_default();
        format!("guest {}, its console:\n{}", self.number, String::from_utf8_lossy(&console))
    }

    #[track_caller]
    fn hear(&mut self) -> Heard {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok(heard) => heard,
            Err(error) => {
                let how = match error {
                    RecvTimeoutError::Timeout => "is silent",
                    RecvTimeoutError::Disconnected => "has ended",
                };
                panic!("guest {} {how}", self.number)
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.console());
        }
    }
}

/// A command in a guest.
#[derive(Debug)]
pub struct Running<'a> {
    guest: &'a mut Guest,
    begun: Instant,
    text: String,
    status: Option<i32>,
}

impl Running<'_> {
    /// Returns the next line of output; `None` at the end.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        if self.status.is_some() {
            return None;
        }
        match self.guest.hear() {
            Heard::Line(line) => {
                self.text += &line;
                self.text.push('\n');
                Some(line)
            }
            Heard::End(status) => {
                self.status = Some(status.parse().unwrap_or(-1));
                None
            }
        }
    }

    /// Returns the longest silence of a command that keeps printing the time in seconds.
    #[allow(dead_code, reason = "of the tests, not of the scorecard")]
    pub fn longest_silence(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (mut last, mut longest) = (None, 0);
        while last.is_none_or(|last| last < now) {
            match self.guest.lines.recv_timeout(Duration::from_secs(20)) {
                Ok(Heard::Line(line)) => {
                    let Ok(time) = line.trim().parse::<u64>() else { continue };
                    longest = longest.max(time.saturating_sub(last.unwrap_or(time)));
                    last = Some(time);
                }
                Ok(Heard::End(_)) | Err(_) => return u64::MAX,
            }
        }
        longest
    }

    /// Waits for a line with `text` in it.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            match self.next_line() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("it never said `{text}`:\n{}", self.text),
            }
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn outcome(mut self) -> Outcome {
        while self.next_line().is_some() {}
        let status = self.status.unwrap_or(-1);
        Outcome { status, text: std::mem::take(&mut self.text), took: self.begun.elapsed() }
    }
}
