//! The text of `oshrun --dump`, also printed for a job that stalls: the last events of a job's
//! processes, and the calls they wait in. Pure.
//!
//! Left out: recording the events ([`raidshmem_control::trace`]) and the query itself
//! ([`super::query`]).

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use raidshmem_control::trace::time_of_day;
use raidshmem_core::message::{Answer, ProcessSeen, Traced};

/// Formats events in order of time.
pub fn text(mut events: Vec<Traced>) -> String {
    events.sort_by_key(|event| event.micros);
    let mut text = String::new();
    for Traced { micros, line } in events {
        let time = UNIX_EPOCH + Duration::from_micros(micros);
        let _ = writeln!(text, "{} {line}", time_of_day(time)); // writing to a string cannot fail
    }
    text
}

/// Describes the processes of a node, one line each.
pub fn processes(node: u32, answer: &Answer) -> Vec<String> {
    let agent = format!("node {node}: agent is process {}", answer.agent);
    let each = answer.processes.iter().map(|process| describe(node, process));
    std::iter::once(agent).chain(each).collect()
}

fn describe(node: u32, process: &ProcessSeen) -> String {
    let pid = process.pid;
    let stopped = if process.stopped { ", stopped" } else { "" };
    let Some(pe) = process.pe else { return format!("node {node}: spare process {pid}{stopped}") };
    let waits: String = process.calls.iter().map(|call| format!(", waits in {call}")).collect();
    format!("PE {pe}: process {pid} of node {node}{stopped}{waits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::quantity::Pe;

    #[test]
    fn events_of_all_are_in_the_order_of_time() {
        let event = |micros, line: &str| Traced { micros, line: line.to_owned() };
        let events = vec![event(3, "PE 0: last"), event(1, "PE 1: first"), event(2, "launcher")];
        let text = text(events);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "00:00:00.000001Z PE 1: first",
                "00:00:00.000002Z launcher",
                "00:00:00.000003Z PE 0: last"
            ]
        );
    }

    #[test]
    fn each_process_has_a_line() {
        let seen = |proc, pe, stopped, calls: &[&str]| {
            let calls = calls.iter().map(|call| (*call).to_owned()).collect();
            ProcessSeen { proc, pid: 100 + proc, pe, stopped, calls }
        };
        let processes_of = vec![
            seen(0, Some(Pe(0)), false, &["shmem_barrier_all"]),
            seen(1, Some(Pe(1)), true, &[]),
            seen(2, None, false, &[]),
        ];
        let answer = Answer { question: 0, agent: 99, processes: processes_of, events: vec![] };
        assert_eq!(
            processes(3, &answer),
            [
                "node 3: agent is process 99",
                "PE 0: process 100 of node 3, waits in shmem_barrier_all",
                "PE 1: process 101 of node 3, stopped",
                "node 3: spare process 102",
            ]
        );
    }
}
