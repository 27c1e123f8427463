//! Who has died: read from what launchers print when a job ends badly, as only they know.

/// Finds the line that says which process ended how, and on which host, and words it briefly.
pub(crate) fn culprit(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    open_mpi(&text).or_else(|| hydra(&text)).or_else(|| slurm(&text)).or_else(|| refusal(&text))
}

/// `mpirun noticed that process rank 1 with PID 0 on node h2 exited on signal 9 (Killed).`, on one line or two; a daemon that
/// is gone is told by `lost communication with a remote daemon` and its host on a line `Remote daemon: [..] on node h2`.
fn open_mpi(text: &str) -> Option<String> {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((_, rest)) = one_line.split_once("noticed that process rank ") {
        let rank = rest.split_whitespace().next()?;
        let (_, rest) = rest.split_once(" on node ")?;
        let (host, rest) = rest.split_once(' ')?;
        let end = rest.split_once('.').map_or(rest, |(end, _)| end);
        return Some(format!("rank {rank} on {host} {end}"));
    }
    let (_, rest) = one_line.split_once("lost communication with a remote daemon")?;
    // The launcher's own is told of first.
    let (_, rest) = rest.split_once("Remote daemon")?;
    let (_, rest) = rest.split_once(" on node ")?;
    let host = rest.split_whitespace().next()?;
    Some(format!("the host {host} is lost"))
}

/// `=   PID 71 RUNNING AT h2` and `EXIT STRING: Killed (signal 9)`, or `=   EXIT CODE: 9`.
fn hydra(text: &str) -> Option<String> {
    let after = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        Some(rest.lines().next()?.trim().to_owned())
    };
    let host = after(" RUNNING AT ")?;
    let end = after("EXIT STRING: ")
        .unwrap_or_else(|| format!("exit code {}", after("EXIT CODE: ").unwrap_or_default()));
    Some(format!("a process on {host} has ended: {end}"))
}

/// `srun: error: h2: task 1: Killed`.
fn slurm(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("srun: error: "))?;
    Some(line.trim().to_owned())
}

/// A line of haul's own.
fn refusal(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("haul: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_name_the_dead() {
        let open_mpi = b"---\nmpirun noticed that process rank 1 with PID 0 on node h2 exited on signal 9 (Killed).\n---\n";
        assert_eq!(culprit(open_mpi).unwrap(), "rank 1 on h2 exited on signal 9 (Killed)");
        let daemon = b"ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[43721,0],0] on node h1\n  Remote daemon: [[43721,0],2] on node h3\n\nThis is usually due to\n";
        assert_eq!(culprit(daemon).unwrap(), "the host h3 is lost");
        let hydra = b"=   BAD TERMINATION\n=   PID 13247 RUNNING AT h3\n=   EXIT CODE: 9\nEXIT STRING: Killed (signal 9)\n";
        assert_eq!(culprit(hydra).unwrap(), "a process on h3 has ended: Killed (signal 9)");
        assert_eq!(culprit(b"srun: error: h2: task 1: Killed\n").unwrap(), "h2: task 1: Killed");
        assert_eq!(culprit(b"haul: no MPI library\nmore\n").unwrap(), "no MPI library");
        let daemon = b"ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[6090,0],0] on node h1\n  \
            Remote daemon: [[6090,0],2] on node h2\n\nThis is usually due to ...\n";
        assert_eq!(culprit(daemon).unwrap(), "the host h2 is lost");
        assert_eq!(culprit(b"all is well\n"), None);
    }
}
