//! The decision logic of raidshmem: data in, decisions out.
//!
//! It decides which processes are dead and which replace them, which PEs protect each other, what a
//! checkpoint covers, the order of a checkpoint and of a recovery, which bytes of a store are
//! valid, and what must be rebuilt from which PEs: all as functions and state machines. The crate
//! `raidshmem` executes these decisions on memory, processes and networks; the model checker (in
//! [`protocol`]) and the simulator (in the tests of that crate) execute them on small models of
//! those.
//!
//! Invariants: no unsafe code. Nothing here reads a clock, the environment or a file, starts a
//! thread or a process, or shares memory: the caller passes in what it knows, and equal arguments
//! give equal answers on every PE. The compiler enforces the first, `tests/tidy` of the workspace
//! the rest. The one exception is a build with the feature `mutants`, in which [`mutant`] reads the
//! rule that a test wants broken.
//!
//! Left out: memory and its words, connections, processes, and parity arithmetic, which is the
//! crate `raidshmem-codec`. The items here are public only for the programs and tests of this
//! workspace, and may change at any time.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! mutant  quantity  page  machine  update  seconds   basic types; operations on a word
//! bulk                                       bytes in messages
//! signals  ended  secret  spelling           names for messages; the job's secret
//! launched                                   tasks of other launchers
//! inject  settings                           the environment, parsed
//! capability                                 what works where, and together
//! heap                                       symmetric allocator
//! layout                                     layout of a PE's segment
//! placement                                  failure domains, groups, substitutes
//! step  disk                                 messages about recoveries and about sets on disk
//! view  message                              the process behind each PE; control messages
//! tree                                       barriers and reductions of the protocol
//! prelude                                    results of calls before the first checkpoint
//! status                                     the status of a PE, as words for its peers
//! store                                      contents of a checkpoint, agreement on it
//! plan                                       losses, and the rebuilding they require
//! protocol                                   state machine of checkpoint and recovery; driver
//! replay                                     local rollback
//! stall  detector  membership                wait graph, failure detector, membership
//! agree                                      agreement on one decision
//! rounds  schedule                           communication schedules of collectives
//! sizing  input                              choice of a mode; standard input of a job
//! ```

#![forbid(unsafe_code)]
// Links to private items explain modules to their maintainers.
#![allow(rustdoc::private_intra_doc_links)]

pub mod agree;
pub mod bulk;
pub mod capability;
pub mod detector;
pub mod disk;
pub mod ended;
pub mod heap;
pub mod inject;
pub mod input;
pub mod launched;
pub mod layout;
pub mod machine;
pub mod membership;
pub mod message;
pub mod mutant;
pub mod page;
pub mod placement;
pub mod plan;
pub mod prelude;
pub mod protocol;
pub mod quantity;
pub mod replay;
pub mod rounds;
pub mod schedule;
pub mod seconds;
pub mod secret;
pub mod settings;
pub mod signals;
pub mod sizing;
pub mod spelling;
pub mod stall;
pub mod status;
pub mod step;
pub mod store;
pub mod tree;
pub mod update;
pub mod view;
