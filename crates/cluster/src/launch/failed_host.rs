//! Finds the host or process that failed. Only the launcher knows it, so its output is parsed when
//! a job dies.

use std::fmt;

/// The loss that ended a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Description for the user.
    pub text: String,
    /// Host of the loss, if known.
    pub host: Option<String>,
    /// True if the host is lost, not just a process on it.
    pub with_host: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Loss {
    fn of_process(host: &str, text: String) -> Option<Self> {
        Some(Self { text, host: Some(host.to_owned()), with_host: false })
    }

    /// Clears the host: a rank exits with this status when it loses contact with others, so its
    /// host is not at fault.
    fn without_host(self) -> Self {
        Self { host: None, ..self }
    }

    fn of_host(host: &str) -> Option<Self> {
        let host = host.trim_end_matches([',', '.', ':', ';']);
        Some(Self { text: format!("the host {host} is lost"), host: Some(host.to_owned()), with_host: true })
    }
}

/// Finds the line that reports how a process ended and on which host, and condenses it.
pub(crate) fn failed_host(printed: &[u8]) -> Option<Loss> {
    let text = String::from_utf8_lossy(printed);
    // A lost host first: processes that were killed because of it are no evidence.
    lost_host(&text)
        .or_else(|| open_mpi(&text))
        .or_else(|| hydra(&text))
        .or_else(|| slurm(&text))
        .or_else(|| refusal(&text))
}

/// Open MPI: `lost communication with a remote daemon`, with the host on a line
/// `Remote daemon: [..] on node h2`. Slurm: `Node failure on h2`,
/// `Task launch for StepId=7.0 failed on node h2: ..`. SSH:
/// `ssh: connect to host h2 port 22: No route to host`.
fn lost_host(text: &str) -> Option<Loss> {
    // Launchers wrap their messages, at places that depend on the names in them.
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let word_after = |text: &str, mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    // The launcher's own daemon comes first in the message.
    let daemon = one_line.split_once("lost communication with a remote daemon");
    let daemon = daemon.and_then(|(_, rest)| rest.split_once("Remote daemon"));
    let host = daemon.and_then(|(_, rest)| word_after(rest, " on node "));
    let marks = [
        "error: Node failure on ",
        " failed on node ",
        "ssh: connect to host ",
        "ssh: Could not resolve hostname ",
    ];
    let host = host.or_else(|| marks.into_iter().find_map(|mark| word_after(&one_line, mark)));
    Loss::of_host(&host?)
}

/// Open MPI:
/// `mpirun noticed that process rank 1 with PID 0 on node h2 exited on signal 9 (Killed).`, on one
/// line or two.
fn open_mpi(text: &str) -> Option<Loss> {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = one_line.split_once("noticed that process rank ")?;
    let rank = rest.split_whitespace().next()?;
    let (_, rest) = rest.split_once(" on node ")?;
    let (host, rest) = rest.split_once(' ')?;
    let end = rest.split_once('.').map_or(rest, |(end, _)| end);
    Loss::of_process(host, format!("rank {rank} on {host} {end}"))
}

/// Hydra: `=   PID 71 RUNNING AT h2`, and `EXIT STRING: Killed (signal 9)` or `=   EXIT CODE: 9`.
fn hydra(text: &str) -> Option<Loss> {
    let after = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        Some(rest.lines().next()?.trim().to_owned())
    };
    let host = after(" RUNNING AT ")?;
    let code = after("EXIT CODE: ").unwrap_or_default();
    let end = after("EXIT STRING: ").unwrap_or_else(|| format!("exit code {code}"));
    let loss = Loss::of_process(&host, format!("a process on {host} has ended: {end}"))?;
    Some(if code == "1" { loss.without_host() } else { loss })
}

/// Slurm: `srun: error: h2: task 1: Killed`.
fn slurm(text: &str) -> Option<Loss> {
    let line = text.lines().find_map(|line| line.strip_prefix("srun: error: "))?.trim();
    // `h[1-3]` is a list of hosts, so nobody knows which one failed.
    let host = line.split_once(": task").map(|(host, _)| host).filter(|host| !host.contains([' ', '[']));
    let loss = Loss { text: line.to_owned(), host: host.map(str::to_owned), with_host: false };
    Some(if line.ends_with("exit code 1") { loss.without_host() } else { loss })
}

/// A line printed by haul itself.
fn refusal(text: &str) -> Option<Loss> {
    let line = text.lines().find_map(|line| line.strip_prefix("haul: "))?;
    Some(Loss { text: line.to_owned(), ..Loss::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(printed: &str) -> (String, Option<String>, bool) {
        let Loss { text, host, with_host } = failed_host(printed.as_bytes()).unwrap_or_default();
        (text, host, with_host)
    }

    fn of(text: &str, host: &str, with_host: bool) -> (String, Option<String>, bool) {
        (text.to_owned(), Some(host.to_owned()), with_host)
    }

    #[test]
    fn launchers_name_the_dead() {
        let open_mpi = "---\nmpirun noticed that process rank 1 with PID 0 on node h2 exited on signal 9 (Killed).\n---\n";
        assert_eq!(parsed(open_mpi), of("rank 1 on h2 exited on signal 9 (Killed)", "h2", false));
        let hydra = "=   BAD TERMINATION\n=   PID 13247 RUNNING AT h3\n=   EXIT CODE: 9\nEXIT STRING: Killed (signal 9)\n";
        assert_eq!(parsed(hydra), of("a process on h3 has ended: Killed (signal 9)", "h3", false));
        assert_eq!(parsed("srun: error: h2: task 1: Killed\n"), of("h2: task 1: Killed", "h2", false));
        let given_up = "srun: error: h1: task 0: Exited with exit code 1\n";
        assert_eq!(parsed(given_up), ("h1: task 0: Exited with exit code 1".to_owned(), None, false));
        let given_up = "=   PID 13247 RUNNING AT h1\n=   EXIT CODE: 1\n=   CLEANING UP\n";
        assert_eq!(parsed(given_up), ("a process on h1 has ended: exit code 1".to_owned(), None, false));
        assert_eq!(parsed("haul: no MPI library\nmore\n"), ("no MPI library".to_owned(), None, false));
        assert_eq!(failed_host(b"all is well\n"), None);
    }

    #[test]
    fn launchers_name_the_host_that_is_lost() {
        let daemon = |id: &str, host: &str| {
            format!(
                "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[{id},0],0] on node h1\n  \
                 Remote daemon: [[{id},0],2] on node {host}\n\nThis is usually due to\n"
            )
        };
        assert_eq!(parsed(&daemon("43721", "h3")), of("the host h3 is lost", "h3", true));
        // srun's messages about the helpers that it then kills are not the cause.
        let both = format!("srun: error: h2: task 0: Killed\n{}", daemon("6090", "h3"));
        assert_eq!(parsed(&both), of("the host h3 is lost", "h3", true));
        for printed in [
            "srun: error: Node failure on h3\nsrun: error: h2: task 0: Killed\n",
            "srun: error: Task launch for StepId=7.0 failed on node h3: Communication connection failure\n",
            "ssh: connect to host h3 port 22: No route to host\n",
            "ssh: Could not resolve hostname h3: Name or service not known\n",
        ] {
            assert_eq!(parsed(printed), of("the host h3 is lost", "h3", true), "{printed}");
        }
    }
}
