//! Options already given, by the words of the user's launcher or by the environment. haul adds only
//! missing options, because some launchers refuse a repeated one (Open MPI 5: "Multiple
//! instances of an option were detected").

use std::ffi::{OsStr, OsString};

use super::family::LauncherFamily;

/// Options that map ranks. Open MPI's `mpirun` accepts each with one dash or two.
const MAPPING: [&str; 1] = ["map-by"];

/// Older options that map ranks. If one is given, mapping is left to the user.
const OLD_MAPPING: [&str; 12] = [
    "bynode",
    "byslot",
    "bycore",
    "bysocket",
    "npernode",
    "npersocket",
    "n-per-node",
    "pernode",
    "ppr",
    "rf",
    "rankfile",
    "cpus-per-rank",
];

/// MCA parameters that map ranks, in Open MPI 4 and 5.
const MAPPING_PARAMETERS: [&str; 2] = ["rmaps_base_mapping_policy", "rmaps_default_mapping_policy"];

/// Options that bind ranks to processors, or that contradict binding to nothing.
const BINDING: [&str; 11] = [
    "bind-to",
    "bind-to-core",
    "bind-to-socket",
    "bind-to-none",
    "cpu-set",
    "cpu-list",
    "rf",
    "rankfile",
    "bycore",
    "cpus-per-proc",
    "cpus-per-rank",
];

/// MCA parameters that bind ranks.
const BINDING_PARAMETERS: [&str; 2] = ["hwloc_base_binding_policy", "hwloc_default_binding_policy"];

/// Options that allow or forbid more ranks than processors.
const OVERSUBSCRIBE: [&str; 2] = ["oversubscribe", "nooversubscribe"];

/// MCA parameters that do so in Open MPI 4.
const OVERSUBSCRIBE_PARAMETERS: [&str; 2] = ["rmaps_base_oversubscribe", "rmaps_base_no_oversubscribe"];

/// Prefixes of variables that set an MCA parameter.
const PREFIXES: [&str; 2] = ["OMPI_MCA_", "PRTE_MCA_"];

/// Returns a launcher's options for the number of ranks.
fn counts(family: LauncherFamily) -> &'static [&'static str] {
    match family {
        LauncherFamily::OpenMpi4 | LauncherFamily::OpenMpi5 => &["n", "np", "c"],
        LauncherFamily::Mpich | LauncherFamily::Other => &["n", "np"],
        LauncherFamily::Srun => &["n", "ntasks"],
    }
}

/// Settings of Open MPI's launcher in the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    mapping: Option<OsString>,
    binds: bool,
    oversubscribes: bool,
}

impl Variables {
    pub(super) fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let first = |names: &[&str]| {
            let prefixed = |name: &&str| PREFIXES.map(|prefix| format!("{prefix}{name}"));
            names.iter().flat_map(prefixed).find_map(|name| variable(&name))
        };
        Self {
            mapping: first(&MAPPING_PARAMETERS),
            binds: first(&BINDING_PARAMETERS).is_some(),
            oversubscribes: first(&OVERSUBSCRIBE_PARAMETERS).is_some(),
        }
    }
}

/// The words of a launcher's command line.
#[derive(Clone, Debug)]
pub(super) struct LauncherArguments(pub(super) Vec<OsString>);

impl LauncherArguments {
    /// Returns an option's name, and its value if that is in the same word: `--ntasks=4`, `-n4`.
    fn option(word: &OsStr) -> Option<(&str, Option<&str>)> {
        let text = word.to_str()?;
        let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        let is_attached =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(digits) = name.strip_prefix('n').filter(|digits| is_attached(digits)) {
            return Some(("n", Some(digits)));
        }
        Some(name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value))))
    }

    /// True if the words contain an option with one of these names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.0.iter().skip(1).filter_map(|word| Self::option(word)).any(|(name, _)| names.contains(&name))
    }

    /// Returns the index of the word that contains the value of an option or of an MCA parameter
    /// (`--mca NAME VALUE`).
    fn value(&self, names: &[&str], parameters: &[&str]) -> Option<usize> {
        (1..self.0.len()).find_map(|index| {
            let (name, value) = Self::option(&self.0[index])?;
            let at = match value {
                Some(_) if names.contains(&name) => index,
                None if names.contains(&name) => index + 1,
                None if name.ends_with("mca") => {
                    let parameter = self.0.get(index + 1)?.to_str()?;
                    if !parameters.contains(&parameter) {
                        return None;
                    }
                    index + 2
                }
                _ => return None,
            };
            (at < self.0.len()).then_some(at)
        })
    }

    /// Returns the number of ranks given in the words, verbatim.
    pub(super) fn count(&self, family: LauncherFamily) -> Option<String> {
        let at = self.value(counts(family), &[])?;
        let word = &self.0[at];
        let value = Self::option(word).and_then(|(_, value)| value);
        Some(value.map_or_else(|| word.to_string_lossy().into_owned(), str::to_owned))
    }

    /// Removes options for the number of ranks.
    pub(super) fn without_count(self, family: LauncherFamily) -> Self {
        self.without(counts(family))
    }

    /// Removes options that select hosts, which Open MPI would use in addition. For srun the last
    /// one wins.
    pub(super) fn without_hosts(self) -> Self {
        const HOSTS: [&str; 7] = ["host", "H", "hosts", "f", "hostfile", "machinefile", "default-hostfile"];
        self.without(&HOSTS)
    }

    fn without(self, names: &[&str]) -> Self {
        let mut kept = Vec::with_capacity(self.0.len());
        let mut words = self.0.into_iter();
        kept.extend(words.next());
        while let Some(word) = words.next() {
            match Self::option(&word) {
                Some((name, value)) if names.contains(&name) => {
                    if value.is_none() {
                        words.next();
                    }
                }
                _ => kept.push(word),
            }
        }
        Self(kept)
    }

    /// Lets Open MPI start more ranks than processors, unless that is already configured.
    pub(super) fn oversubscribe(&mut self, variables: &Variables, is_release_4: bool) {
        let mapped = self.value(&MAPPING, &MAPPING_PARAMETERS);
        let mapping = mapped.map(|at| self.0[at].clone());
        let policy = mapping.as_ref().or(variables.mapping.as_ref());
        let says = policy
            .is_some_and(|policy| policy.to_string_lossy().to_ascii_lowercase().contains("oversubscribe"));
        if says
            || variables.oversubscribes
            || self.has(&OVERSUBSCRIBE)
            || self.value(&[], &OVERSUBSCRIBE_PARAMETERS).is_some()
        {
            return;
        }
        match mapped {
            _ if is_release_4 => self.0.push("--oversubscribe".into()),
            // Open MPI 5 wants it as a qualifier of the mapping, and refuses a second `--map-by`.
            Some(at) => self.0[at].push(":OVERSUBSCRIBE"),
            None if self.has(&OLD_MAPPING) => {}
            None => {
                let mut policy = variables.mapping.clone().unwrap_or_default();
                policy.push(":OVERSUBSCRIBE");
                self.0.extend(["--map-by".into(), policy]);
            }
        }
    }

    /// Binds ranks to nothing, unless a binding is already configured.
    pub(super) fn unbind(&mut self, variables: &Variables) {
        let is_bound =
            variables.binds || self.has(&BINDING) || self.value(&[], &BINDING_PARAMETERS).is_some();
        if !is_bound {
            self.0.extend(["--bind-to", "none"].map(OsString::from));
        }
    }
}
