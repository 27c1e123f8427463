//! Hosts of an attempt: after a host is lost, the remaining ones, with as many ranks as before.

use super::failed_host::Loss;

/// A host and its number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRanks {
    /// Name, as reported by its ranks.
    pub host: String,
    /// Number of ranks.
    pub ranks: u32,
}

/// Hosts of the next attempt after a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextHosts {
    /// The same hosts.
    Same,
    /// The same hosts without the lost one.
    Without(Vec<HostRanks>),
    /// No host remains: the lost one was the last.
    Nowhere,
}

/// Decides where a job whose ranks were on `hosts` continues. `here` is the host of the launch
/// process, which is not lost.
///
/// A host on which only a process died is excluded too, because another may die there, unless it is
/// the only one.
pub(super) fn after(loss: &Loss, hosts: &[String], here: &str) -> NextHosts {
    let Some(lost) = &loss.host else { return NextHosts::Same };
    let host_ranks = group_by_host(hosts.iter().filter(|host| !is_same_host(host, lost)));
    let left: u32 = host_ranks.iter().map(|host| host.ranks).sum();
    match (host_ranks.is_empty(), loss.with_host && !is_same_host(lost, here)) {
        (false, _) if left as usize == hosts.len() => NextHosts::Same,
        (false, _) => NextHosts::Without(host_ranks),
        (true, true) => NextHosts::Nowhere,
        (true, false) => NextHosts::Same,
    }
}

/// Returns the job's ranks on one host.
pub(super) fn only(host: &str, hosts: &[String]) -> Vec<HostRanks> {
    group_by_host(hosts.iter().filter(|other| is_same_host(other, host)))
}

/// Returns the host of each rank.
pub(super) fn hosts_of(host_ranks: &[HostRanks]) -> Vec<String> {
    let of = |host: &HostRanks| std::iter::repeat_n(host.host.clone(), host.ranks as usize);
    host_ranks.iter().flat_map(of).collect()
}

/// Groups ranks by host, in the order of their first ranks.
fn group_by_host<'a>(hosts: impl Iterator<Item = &'a String>) -> Vec<HostRanks> {
    let mut host_ranks: Vec<HostRanks> = Vec::new();
    for host in hosts {
        match host_ranks.iter_mut().find(|known| known.host == *host) {
            Some(known) => known.ranks += 1,
            None => host_ranks.push(HostRanks { host: host.clone(), ranks: 1 }),
        }
    }
    host_ranks
}

/// Returns the hosts that may be lost, each once: all but `here`, the launch process's own.
pub(super) fn suspects<'a>(hosts: &'a [String], here: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> =
        hosts.iter().map(String::as_str).filter(|host| !is_same_host(host, here)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Formats a list of hosts for messages, each once.
pub(super) fn named_once(hosts: &[String]) -> String {
    let mut names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Returns the names of the hosts that are not among the `chosen` ones, for messages.
pub(super) fn excluded_hosts(chosen: &[HostRanks], hosts: &[String]) -> Option<String> {
    let is_chosen = |host: &String| chosen.iter().any(|known| known.host == *host);
    let others: Vec<_> = hosts.iter().filter(|host| !is_chosen(host)).cloned().collect();
    (!chosen.is_empty() && !others.is_empty()).then(|| named_once(&others))
}

/// True if two names are the same host's. Launchers may omit the domain.
pub(crate) fn is_same_host(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    one == other || (one.contains('.') != other.contains('.') && short(one) == short(other))
}

/// Returns the name of this host; empty if unknown.
pub(super) fn this_host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn loss(host: &str, with_host: bool) -> Loss {
        Loss { text: String::new(), host: Some(host.to_owned()), with_host }
    }

    #[test]
    fn those_that_are_left_keep_their_ranks() {
        let hosts = names(&["h1", "h1", "h2", "h3.site", "h3.site", "h2"]);
        let place = |host: &str| HostRanks { host: host.to_owned(), ranks: 2 };
        let expected = NextHosts::Without(vec![place("h1"), place("h2")]);
        assert_eq!(after(&loss("h3", true), &hosts, "h1"), expected);
        assert_eq!(after(&loss("h3", false), &hosts, "h1"), expected);
        assert_eq!(after(&loss("h4", true), &hosts, "h1"), NextHosts::Same);
        assert_eq!(after(&Loss { host: None, ..loss("", true) }, &hosts, "h1"), NextHosts::Same);
        assert_eq!(only("h3", &hosts), [place("h3.site")]);
        assert_eq!(hosts_of(&[place("h1"), place("h2")]), ["h1", "h1", "h2", "h2"]);
    }

    #[test]
    fn the_host_of_the_launch_process_is_no_suspect() {
        assert_eq!(suspects(&names(&["h1", "h3", "h2.site", "h3"]), "h1.site"), ["h2.site", "h3"]);
        assert_eq!(suspects(&names(&["h1", "h1"]), "h1"), [""; 0]);
    }

    #[test]
    fn the_last_host_is_given_up_only_if_it_is_gone() {
        let hosts = names(&["h2", "h2"]);
        assert_eq!(after(&loss("h2", true), &hosts, "h1"), NextHosts::Nowhere);
        assert_eq!(after(&loss("h2", false), &hosts, "h1"), NextHosts::Same);
        // The launch process's own host can't be lost.
        assert_eq!(after(&loss("h2", true), &hosts, "h2"), NextHosts::Same);
    }

    #[test]
    fn names_with_and_without_a_domain_are_one_hosts() {
        assert!(
            is_same_host("n1", "n1.cluster") && is_same_host("n1.a", "n1.a") && !is_same_host("n1.a", "n1.b")
        );
        assert!(!is_same_host("n1", "n10") && !is_same_host("n1", "n2"));
    }
}
