//! The PEs around the driver: processes that can be killed, or threads of a single process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_segment::Segment;

use super::node::{BYSTANDER, DRIVER, Memory, Node, PARTNER};
use super::roles::play;
use super::sim::Hub;

/// The role of a process of the suite, in its environment.
pub const ROLE: &str = "ENGINE_ROLE";
/// Its PE, incarnation and memory.
pub const SELF: &str = "ENGINE_SELF";

/// The driver and its peers.
pub trait Bench {
    /// Returns the driver.
    fn node(&self) -> &Node;
    /// The partner PE; the driver itself if there is only one PE.
    fn other(&self) -> Pe;
    /// The partner's memory, mapped directly.
    fn memory(&self) -> &'static Segment;
    /// True if calls report a lost peer: they do not where its memory stays mapped.
    fn loses(&self) -> bool;
    /// The driver and the partner both play a role; returns when both have finished.
    fn play(&mut self, role: &'static str);
    /// The partner and the bystander each play a role with the driver, which does nothing; returns
    /// when both have finished.
    fn play_at_driver(&mut self, role: &'static str);
    /// Makes the partner start to play.
    fn start(&mut self, role: &'static str);
    /// Returns a function that kills the partner at once, at any point: callable from any thread.
    fn killer(&mut self) -> Box<dyn FnOnce() + Send>;
    /// Replaces the partner by a new incarnation, connected both ways.
    fn replace(&mut self);
    /// Returns the partner's incarnation.
    fn incarnation(&self) -> u32;
    /// True if PEs can be lost, and so replaced.
    fn mortal(&self) -> bool {
        true
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("an address");
    (0..hex.len()).step_by(2).map(byte).collect()
}

// ---- processes ----------------------------------------------------------------------------------

/// A PE in its own process.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    memory: Memory,
    address: String,
}

impl Process {
    fn start(me: Pe, incarnation: u32) -> Process {
        let memory = Memory::new();
        let own = format!("{me} {incarnation} {}", memory.path());
        let exe = std::env::current_exe().expect("the test has a path");
        let mut child = Command::new(exe)
            .args(std::env::args().skip(1))
            .envs([(ROLE, "peer"), (SELF, &own)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a peer is started");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut peer = Process { child, input, output, memory, address: String::new() };
        peer.address = peer.hear("address ");
        peer
    }

    /// Returns the rest of the next line that begins with `begin`.
    #[track_caller]
    fn hear(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("its output is text");
            assert!(read > 0, "the peer ended before `{begin}`");
            if let Some(at) = line.find(&format!("@{begin}")) {
                return line[at + 1 + begin.len()..].trim_end().to_owned();
            }
        }
    }

    #[track_caller]
    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the peer listens");
    }

    fn connect(&mut self, pe: Pe, incarnation: u32, address: &str) {
        self.say(&format!("connect {pe} {incarnation} {address}"));
        self.hear("connected");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a peer's process: executes the commands of its input until that ends.
pub fn serve(engine: &str) {
    let with_driver = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(with_driver).expect("Linux has it");
    let own = std::env::var(SELF).expect("a peer gets its number");
    let words: Vec<&str> = own.split(' ').collect();
    let [me, incarnation] = [0, 1].map(|at| words[at].parse::<usize>().expect("a number"));
    let node = Node::open(engine, Pe::of(me), Incarnation(incarnation as u32), words[2]);
    println!("@address {}", hex(&node.engine.address()));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["connect", pe, incarnation, address] => {
                let (pe, incarnation) =
                    (Pe(pe.parse().unwrap()), Incarnation(incarnation.parse().unwrap()));
                node.engine.connect(pe, incarnation, &bytes(address)).expect("it is reached");
                println!("@connected");
            }
            ["play", role, number] => {
                println!("@plays");
                play(role, number.parse().expect("a number"), &node, 1, DRIVER);
                println!("@played");
            }
            _ => panic!("a peer received `{line}`"),
        }
    }
}

/// Peers in their own processes, over a real engine.
pub struct Processes {
    engine: String,
    node: Node,
    address: String,
    partner: Process,
    incarnation: u32,
    plays: u64,
    _own: Memory,
    bystander: Process,
}

impl Processes {
    pub fn new(engine: &str) -> Processes {
        let own = Memory::new();
        let node = Node::open(engine, DRIVER, Incarnation(0), &own.path());
        let address = hex(&node.engine.address());
        let [mut partner, mut bystander] = [PARTNER, BYSTANDER].map(|pe| Process::start(pe, 0));
        for (pe, peer) in [(PARTNER, &mut partner), (BYSTANDER, &mut bystander)] {
            peer.connect(DRIVER, 0, &address);
            node.engine.connect(pe, Incarnation(0), &bytes(&peer.address)).expect("it is reached");
        }
        let engine = engine.to_owned();
        let _own = own;
        Processes { engine, node, address, partner, incarnation: 0, plays: 0, _own, bystander }
    }

    /// Truncates the partner's memory to `len`: memory beyond it cannot be pinned.
    pub fn cut(&self, len: usize) {
        self.partner.memory.cut(len);
    }

    /// Returns the number of the last play.
    pub fn number(&self) -> u64 {
        self.plays
    }

    /// Replaces the partner by a new incarnation, which plays `role` to its end before the driver
    /// connects to it. Returns the old process, which lives on.
    pub fn replace_by(&mut self, role: Option<&'static str>) -> Process {
        self.incarnation += 1;
        let new = Process::start(PARTNER, self.incarnation);
        let old = std::mem::replace(&mut self.partner, new);
        self.partner.connect(DRIVER, 0, &self.address);
        if let Some(role) = role {
            self.start(role);
            self.partner.hear("played");
        }
        let (engine, incarnation) = (&self.node.engine, Incarnation(self.incarnation));
        let connected = engine.connect(PARTNER, incarnation, &bytes(&self.partner.address));
        connected.expect("it is reached");
        old
    }

    /// Waits until the partner has ended by itself and returns its status.
    pub fn ended(&mut self) -> Option<i32> {
        self.partner.child.wait().expect("it is a child").code()
    }

    /// Stops the partner, or resumes it.
    pub fn halt(&self, on: bool) {
        use raidshmem_sys::process::is_stopped;
        use rustix::process::{Pid, Signal, kill_process};
        let child = &self.partner.child;
        let signal = if on { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).expect("it lives");
        self.node.wait("it to obey the signal", || is_stopped(child.id()) == on);
    }
}

impl Bench for Processes {
    fn node(&self) -> &Node {
        &self.node
    }

    fn other(&self) -> Pe {
        PARTNER
    }

    fn memory(&self) -> &'static Segment {
        self.partner.memory.segment()
    }

    fn loses(&self) -> bool {
        self.engine != "shm"
    }

    fn play(&mut self, role: &'static str) {
        self.start(role);
        play(role, self.plays, &self.node, 0, PARTNER);
        self.partner.hear("played");
    }

    fn play_at_driver(&mut self, role: &'static str) {
        self.start(role);
        self.bystander.say(&format!("play {role} {}", self.plays));
        for peer in [&mut self.partner, &mut self.bystander] {
            peer.hear("played");
        }
    }

    fn start(&mut self, role: &'static str) {
        self.plays += 1;
        self.partner.say(&format!("play {role} {}", self.plays));
        self.partner.hear("plays");
    }

    fn killer(&mut self) -> Box<dyn FnOnce() + Send> {
        let pid = rustix::process::Pid::from_child(&self.partner.child);
        Box::new(move || {
            // The child is not reaped before it is replaced, so the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        })
    }

    fn replace(&mut self) {
        self.node.engine.disconnect(PARTNER);
        drop(self.replace_by(None));
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }
}

// ---- one process --------------------------------------------------------------------------------

/// A PE that is its own partner.
pub struct Alone {
    node: Node,
    path: String,
    memory: Memory,
    plays: u64,
}

impl Alone {
    pub fn new() -> Alone {
        let memory = Memory::new();
        let path = memory.path();
        let node = Node::open("self", DRIVER, Incarnation(0), &path);
        node.engine.connect(DRIVER, Incarnation(0), &node.engine.address()).expect("it is reached");
        Alone { node, path, memory, plays: 0 }
    }
}

impl Bench for Alone {
    fn node(&self) -> &Node {
        &self.node
    }

    fn other(&self) -> Pe {
        DRIVER
    }

    fn memory(&self) -> &'static Segment {
        self.memory.segment()
    }

    fn loses(&self) -> bool {
        false
    }

    fn play(&mut self, role: &'static str) {
        self.plays += 1;
        let (path, number) = (self.path.clone(), self.plays);
        let other = std::thread::spawn(move || {
            let node = Node::open("self", DRIVER, Incarnation(0), &path);
            node.engine
                .connect(DRIVER, Incarnation(0), &node.engine.address())
                .expect("it is reached");
            play(role, number, &node, 1, DRIVER);
        });
        play(role, number, &self.node, 0, DRIVER);
        other.join().expect("the other side is through");
    }

    fn play_at_driver(&mut self, _: &'static str) {
        unreachable!("a PE alone has no others")
    }

    fn start(&mut self, _: &'static str) {
        unreachable!("a single PE has no peer to start")
    }

    fn killer(&mut self) -> Box<dyn FnOnce() + Send> {
        unreachable!("a single PE does not outlive itself")
    }

    fn replace(&mut self) {
        unreachable!("a single PE does not outlive itself")
    }

    fn incarnation(&self) -> u32 {
        0
    }

    fn mortal(&self) -> bool {
        false
    }
}

// ---- the simulated engine -----------------------------------------------------------------------

/// Peers in threads, over a simulated network.
pub struct Simulated {
    hub: Hub,
    nodes: BTreeMap<Pe, std::sync::Arc<Node>>,
    incarnation: u32,
    memory: &'static Segment,
    plays: u64,
    players: Vec<JoinHandle<()>>,
}

impl Simulated {
    pub fn new(seed: u64) -> Simulated {
        let hub = Hub::new(seed);
        let mut sim = Simulated {
            hub,
            nodes: BTreeMap::new(),
            incarnation: 0,
            memory: Memory::new().segment(),
            plays: 0,
            players: Vec::new(),
        };
        for pe in [DRIVER, PARTNER, BYSTANDER] {
            sim.open(pe);
        }
        for pe in [PARTNER, BYSTANDER] {
            sim.connect(DRIVER, pe);
            sim.connect(pe, DRIVER);
        }
        sim
    }

    fn open(&mut self, pe: Pe) {
        let memory = Memory::new();
        let incarnation = if pe == PARTNER { self.incarnation } else { 0 };
        let node = self.hub.node(pe, Incarnation(incarnation), &memory.path());
        if pe == PARTNER {
            self.memory = memory.segment();
        }
        self.nodes.insert(pe, std::sync::Arc::new(node));
    }

    fn connect(&self, from: Pe, to: Pe) {
        let incarnation = if to == PARTNER { self.incarnation } else { 0 };
        let address = self.nodes[&to].engine.address();
        self.nodes[&from]
            .engine
            .connect(to, Incarnation(incarnation), &address)
            .expect("it is reached");
    }
}

impl Bench for Simulated {
    fn node(&self) -> &Node {
        &self.nodes[&DRIVER]
    }

    fn other(&self) -> Pe {
        PARTNER
    }

    fn memory(&self) -> &'static Segment {
        self.memory
    }

    fn loses(&self) -> bool {
        true
    }

    fn play(&mut self, role: &'static str) {
        self.start(role);
        play(role, self.plays, self.node(), 0, PARTNER);
        let player = self.players.pop().expect("the other side was started");
        player.join().expect("the other side is through");
    }

    fn play_at_driver(&mut self, role: &'static str) {
        self.start(role);
        let (node, number) = (self.nodes[&BYSTANDER].clone(), self.plays);
        self.players.push(std::thread::spawn(move || play(role, number, &node, 1, DRIVER)));
        let all = self.players.drain(..);
        all.for_each(|player| player.join().expect("the other side is through"));
    }

    fn start(&mut self, role: &'static str) {
        self.plays += 1;
        let (node, number) = (self.nodes[&PARTNER].clone(), self.plays);
        self.players.push(std::thread::spawn(move || play(role, number, &node, 1, DRIVER)));
    }

    fn killer(&mut self) -> Box<dyn FnOnce() + Send> {
        let (hub, incarnation) = (self.hub.clone(), self.incarnation);
        Box::new(move || hub.kill(PARTNER, Incarnation(incarnation)))
    }

    fn replace(&mut self) {
        self.nodes[&DRIVER].engine.disconnect(PARTNER);
        self.incarnation += 1;
        self.open(PARTNER);
        self.connect(PARTNER, DRIVER);
        self.connect(DRIVER, PARTNER);
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }
}
