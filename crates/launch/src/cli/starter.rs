//! The command that starts an agent on another host. Pure: words in, words out.
//!
//! The agent's words contain the launcher's address and the node's number, but no secret, since
//! anyone on that host may read them.

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use crate::handshake::SUPERVISOR_ARGUMENT;

/// The way agents are started on other hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// `ssh`, which must not ask for a password.
    Ssh,
    /// `srun`, one task on the node, inside an allocation.
    Slurm,
    /// A user's command: `{host}` is replaced by the host and `{agent}` by the agent's words, which
    /// are appended if it does not occur.
    Command(String),
}

impl Means {
    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        match self {
            Means::Ssh => "ssh",
            Means::Slurm => "srun",
            Means::Command(text) => text.split_whitespace().next().unwrap_or("the launch agent"),
        }
    }

    /// Returns the command for `host`.
    pub fn words(&self, host: &str, agent: &[String]) -> Vec<String> {
        let quoted: Vec<String> = agent.iter().map(|word| quote(word)).collect();
        let line = quoted.join(" ");
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            Means::Ssh => {
                let options = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
                let mut words = own(&options);
                words.extend([host.to_owned(), format!("exec {line}")]);
                words
            }
            Means::Slurm => {
                let mut words = own(&["srun", "--nodes=1", "--ntasks=1", "--overlap"]);
                words.extend(own(&["--quiet", "--unbuffered", "--cpu-bind=none", "--mem=0"]));
                words.push(format!("--nodelist={host}"));
                words.extend(agent.iter().cloned());
                words
            }
            Means::Command(text) => {
                let text = text.replace("{host}", host);
                let text = match text.contains("{agent}") {
                    true => text.replace("{agent}", &line),
                    false => format!("{text} {line}"),
                };
                own(&["sh", "-c", &format!("exec {text}")])
            }
        }
    }
}

/// Returns the words that make `oshrun` the supervisor of node `node`.
pub fn agent_words(oshrun: &str, launcher: SocketAddr, node: u32) -> Vec<String> {
    vec![oshrun.to_owned(), SUPERVISOR_ARGUMENT.to_owned(), launcher.to_string(), node.to_string()]
}

/// Quotes a word for a shell.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,[]".contains(c);
    let brackets = word.contains(['[', ']']);
    if !word.is_empty() && !brackets && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Vec<String> {
        agent_words("/opt/my tools/oshrun", "10.0.0.1:7".parse().unwrap(), 2)
    }

    #[test]
    fn ssh_gets_one_command_that_its_shell_reads_back() {
        let words = Means::Ssh.words("b", &agent());
        assert_eq!(words[..3], ["ssh", "-o", "BatchMode=yes"]);
        let command = "exec '/opt/my tools/oshrun' --raidshmem-agent-of 10.0.0.1:7 2";
        assert_eq!(words[words.len() - 2..], ["b", command]);
    }

    #[test]
    fn a_launch_command_gets_the_agent_at_its_placeholder_or_end() {
        let words = |text: &str| Means::Command(text.into()).words("b", &agent()).pop().unwrap();
        let line = "'/opt/my tools/oshrun' --raidshmem-agent-of 10.0.0.1:7 2";
        assert_eq!(words("ip netns exec {host}"), format!("exec ip netns exec b {line}"));
        assert_eq!(words("on {host} '{agent}' >x"), format!("exec on b '{line}' >x"));
        assert_eq!(Means::Command("ip netns exec {host}".into()).name(), "ip");
    }

    #[test]
    fn srun_gets_one_task_on_that_node() {
        let words = Means::Slurm.words("n07", &agent());
        assert!(words.contains(&"--nodelist=n07".to_owned()));
        assert!(words.contains(&"--ntasks=1".to_owned()));
        assert_eq!(words[words.len() - 4..], agent()[..]);
    }

    #[test]
    fn quotes_survive() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("[::1]:7"), "'[::1]:7'");
        assert_eq!(quote(""), "''");
    }
}
