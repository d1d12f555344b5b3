//! Tests of the agent from the launcher's side: its reactions to messages.

use std::fs::File;
use std::time::Duration;

use raidshmem_core::layout::Layout;
use raidshmem_core::message::ProcessOptions;
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::settings::{Bind, Pages, Settings};
use raidshmem_core::view::{Member, View};
use raidshmem_sys::memory;

use super::*;
use raidshmem_sys::memory::Part;

const SOON: Duration = Duration::from_secs(60);

/// Returns a job of PEs on the nodes `node_of`, which are on the machines `machine_of`.
pub(super) fn job_on(node_of: Vec<u32>, machine_of: Vec<u32>) -> Job {
    Job {
        id: 7,
        n_pes: node_of.len() as u32,
        heap_len: 1 << 20,
        node_of,
        machine_of,
        domains: Domains::default(),
        fabric: Fabric::Ucx,
        resume: None,
    }
}

/// Waits until the requested memory exists.
fn made(launcher: &mut Link, wanted: (Pe, u32)) {
    loop {
        let message = launcher.receive::<Up>(SOON).expect("the agent is there");
        match message.expect("it answers").0 {
            Up::Memory { pe, memory } if (pe, memory) == wanted => return,
            Up::Failed { what } => panic!("{what}"),
            _ => {}
        }
    }
}

/// Returns the memory file that this process has open.
fn file() -> Arc<OwnedFd> {
    let all = std::fs::read_dir("/proc/self/fd").expect("it is mounted").flatten();
    let mut ours = all.filter(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|name| name.to_string_lossy().contains("raidshmem-node"))
    });
    let path = ours.next().expect("a file").path();
    Arc::new(File::options().read(true).write(true).open(path).expect("it is open").into())
}

/// Over an engine only the agent can free this memory: processes that map it may live on.
#[test]
fn memory_of_a_pe_that_moved_and_of_one_that_got_a_new_one_is_given_back() {
    let (mine, theirs) = Channel::pair().unwrap();
    let agent = std::thread::spawn(move || run(theirs, "0"));
    let mut launcher = Link::pair(mine);
    let (node_timeout, stall) = (Duration::from_secs(60), Duration::ZERO);
    let (bind, pages) = (Bind::None, Pages::Small);
    let settings = Settings { node_timeout, stall, bind, pages, ..Settings::default() };
    let program = vec![b"/bin/true".to_vec()];
    let (job, settings) = (Box::new(job_on(vec![0, 0], vec![0])), Box::new(settings));
    let place = ProcessOptions::default();
    let (node, net, stop_signal) = (0, None, None);
    let configure = Down::Configure { job, settings, node, program, place, net, stop_signal };
    launcher.send(&configure, &[]).unwrap();
    let make = |pe, memory| Down::MakeMemory { pe, memory, pages: PageRuns::default() };
    for pe in 0..2 {
        launcher.send(&make(Pe(pe), 0), &[]).unwrap();
        made(&mut launcher, (Pe(pe), 0));
    }
    let len = Layout::new(1 << 20, 2).total;
    let parts: Vec<Part> = (0..2).map(|pe| Part::new(file(), pe * len, len)).collect();
    let empty = |part: &Part| part.absent(0, len) == len as u64;
    for (pe, part) in parts.iter().enumerate() {
        assert!(empty(part));
        memory::write_at(part.file(), pe * len + 4096, &[1; 1 << 16]).unwrap();
        assert!(!empty(part));
    }
    let here = Member::first(0);
    let pes = vec![here, Member { node: 1, ..here }];
    launcher.send(&Down::Show(View { number: ViewNumber(2), pes, local: false }), &[]).unwrap();
    launcher.send(&make(Pe(0), 1), &[]).unwrap();
    made(&mut launcher, (Pe(0), 1));
    launcher.send(&make(Pe(0), 2), &[]).unwrap();
    made(&mut launcher, (Pe(0), 2)); // and all earlier work is done
    assert!(parts.iter().all(empty), "the file is still there, and they are empty");
    launcher.send(&Down::Shutdown, &[]).unwrap();
    assert!(agent.join().unwrap().is_ok());
}
