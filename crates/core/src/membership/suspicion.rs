//! One broken connection between two PEs: its observations and the decision (pure).

use crate::mutant::{Mutant, breaks};
use crate::quantity::{Incarnation, Pe};

/// A process that carries a PE: its number and incarnation.
pub type Process = (Pe, Incarnation);

/// The observations of one broken connection.
#[derive(Debug, Clone)]
pub struct Suspicion {
    pub accuser: Process,
    pub suspect: Process,
    /// True once the suspect's agent has answered.
    pub answered: bool,
    /// A PE on another node whose connection to the suspect broke too.
    pub second: Option<Pe>,
    pub witness: Option<u32>,
    /// True for the nodes of accuser and suspect that the witness hears; None until it answers.
    pub hears: [Option<bool>; 2],
}

/// All open suspicions.
#[derive(Debug, Clone, Default)]
pub struct Suspicions {
    /// True if agents can ask each other for a second opinion.
    pub among_hosts: bool,
    pub open: Vec<Suspicion>,
}

/// Returns the process to end, and why, once all parties have answered. While the suspect's agent
/// has not answered, its node is in doubt rather than the PE, whatever other PEs report.
pub fn decide(suspicion: &Suspicion) -> Option<(Suspicion, Process, String)> {
    let (accuser, suspect) = (suspicion.accuser, suspicion.suspect);
    if let (true, Some(second)) = (suspicion.answered, suspicion.second) {
        return Some((suspicion.clone(), suspect, format!("as did that of PE {second}")));
    }
    let (declared, why) = match (suspicion.answered, suspicion.witness, suspicion.hears) {
        (false, ..) => return None,
        (true, None, _) => (suspect, "and no other node can be asked".to_owned()),
        (true, Some(node), [Some(false), Some(true)]) => {
            let declared = if breaks(Mutant::AccuserBelieved) { suspect } else { accuser };
            (declared, format!("and node {node} reaches only the node of PE {}", suspect.0))
        }
        (true, Some(node), [Some(true), Some(false)]) => {
            (suspect, format!("and node {node} reaches only the node of PE {}", accuser.0))
        }
        (true, Some(node), [Some(true), Some(true)]) => {
            (suspect, format!("though node {node} reaches the nodes of both"))
        }
        (true, Some(node), [Some(false), Some(false)]) => {
            (suspect, format!("and node {node} reaches neither node"))
        }
        (true, Some(_), _) => return None,
    };
    Some((suspicion.clone(), declared, why))
}
