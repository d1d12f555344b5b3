//! A client of PMI-1, the wire protocol by which srun, flux and hydra let the tasks of a step find
//! each other: each task stores values, and reads those of the other tasks after a barrier.
//!
//! Both sides write lines of words `name=value`; the value that a reply ends with is the last word.
//! (Pavan Balaji et al., PMI: A Scalable Parallel Process-Management Interface, EuroMPI 2010; the
//! names of the commands are those of MPICH's `simple_pmi`.)
//!
//! Left out: everything else that it offers, such as spawning and the name service.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;

/// The maximum length of a reply.
const REPLY_MAX: u64 = 1 << 16;

/// An error of the exchange.
#[derive(Debug, thiserror::Error)]
pub enum PmiError {
    /// The connection failed.
    #[error("PMI_FD: {0}")]
    Connection(#[from] std::io::Error),
    /// The server rejected a command, or speaks another protocol.
    #[error("PMI-1: `{sent}` was answered by `{reply}`")]
    Reply {
        /// The command.
        sent: String,
        /// The reply.
        reply: String,
    },
}

/// A connection to the server of the step.
pub struct Pmi {
    stream: BufReader<File>,
    space: String,
}

impl Pmi {
    /// Begins the exchange over the connection that the launcher left for this task.
    ///
    /// # Errors
    /// The connection is broken, or its other end is no server of PMI-1.
    pub fn connect(fd: OwnedFd) -> Result<Pmi, PmiError> {
        let mut pmi = Pmi { stream: BufReader::new(File::from(fd)), space: String::new() };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", None)?;
        pmi.space = pmi.ask("cmd=get_my_kvsname", "my_kvsname", Some("kvsname"))?;
        Ok(pmi)
    }

    /// Stores a value without spaces, which all tasks can read after [`Pmi::fence`].
    ///
    /// # Errors
    /// The server refuses it, or is gone.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let command = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        self.ask(&command, "put_result", None).map(drop)
    }

    /// Waits until all tasks have called it.
    ///
    /// # Errors
    /// The server is gone.
    pub fn fence(&mut self) -> Result<(), PmiError> {
        self.ask("cmd=barrier_in", "barrier_out", None).map(drop)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// No task has stored it, or the server is gone.
    pub fn get(&mut self, key: &str) -> Result<String, PmiError> {
        let command = format!("cmd=get kvsname={} key={key}", self.space);
        self.ask(&command, "get_result", Some("value"))
    }

    /// Ends the exchange: the launcher no longer expects anything of this task but its end.
    ///
    /// # Errors
    /// The server is gone.
    pub fn finish(mut self) -> Result<(), PmiError> {
        self.ask("cmd=finalize", "finalize_ack", None).map(drop)
    }

    /// Sends a command, and returns a word of its reply.
    fn ask(&mut self, sent: &str, expected: &str, word: Option<&str>) -> Result<String, PmiError> {
        self.stream.get_mut().write_all(format!("{sent}\n").as_bytes())?;
        let mut reply = String::new();
        std::io::Read::take(&mut self.stream, REPLY_MAX).read_line(&mut reply)?;
        word_of(reply.trim_end(), expected, word).ok_or_else(|| PmiError::Reply {
            sent: sent.split(" value=").next().unwrap_or_default().to_owned(),
            reply: reply.trim_end().escape_debug().to_string(),
        })
    }
}

/// Returns a word of a reply, or an empty one if none is named; None if it is not the expected
/// reply, or reports a failure.
fn word_of(reply: &str, expected: &str, word: Option<&str>) -> Option<String> {
    let value = |name: &str| {
        reply.split(' ').filter_map(|word| word.split_once('=')).find(|(found, _)| *found == name)
    };
    let fails = value("rc").is_some_and(|(_, code)| code != "0");
    if value("cmd")?.1 != expected || fails {
        return None;
    }
    match word {
        Some(name) => value(name).map(|(_, value)| value.to_owned()),
        None => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn words_are_taken_from_the_expected_reply_only() {
        let value = |reply| word_of(reply, "get_result", Some("value"));
        assert_eq!(value("cmd=get_result rc=0 msg=success value=a=b:c").unwrap(), "a=b:c");
        assert_eq!(value("cmd=get_result rc=-1 msg=key_not_found value=x"), None);
        assert_eq!(value("cmd=put_result rc=0 value=x"), None);
        assert_eq!(value("cmd=get_result rc=0"), None);
        assert_eq!(value(""), None);
        assert!(word_of("cmd=barrier_out rc=0", "barrier_out", None).is_some());
    }

    #[test]
    fn a_server_that_refuses_or_leaves_is_an_error_that_shows_no_value() {
        for (replies, wanted) in [
            ("cmd=response_to_init rc=-1\n", "`cmd=init pmi_version=1 pmi_subversion=1` was"),
            ("cmd=response_to_init rc=0\ncmd=my_kvsname kvsname=k\n", "`cmd=put kvsname=k key=a`"),
            ("", "was answered by ``"),
        ] {
            let (mine, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(replies.as_bytes()).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let put = |mut pmi: Pmi| pmi.put("a", "secret");
            let error = Pmi::connect(mine.into()).and_then(put).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("secret"), "{error}");
        }
    }
}
