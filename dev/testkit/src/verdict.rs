//! Checks that a copy that met an error reported it honestly.
//!
//! The rule for every failing operation: either the copy is correct and the exit status is 0, or
//! the status is 1 and a message names every entry that is wrong. [`judge`] applies it. A message
//! about preserving, setting or closing covers only its own entry. A message that something
//! couldn't be opened, read or created also covers everything below it. A message about one name of
//! a file covers all names that are still linked to that file.
//!
//! If the user names an engine that the kernel refuses, the run ends before it
//! starts: [`judge_refusal`].

use std::collections::BTreeSet;
use std::path::Path;

use crate::compare::{About, Differences, TreeDifference};
use crate::message::{normalise, quoted_names, unescaped};
use crate::run::{RunEnding, RunOutcome};
use crate::snapshot::{Snapshot, path_bytes, show};

/// The result of an honest copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyVerdict {
    /// Status 0 and an identical tree.
    Right,
    /// Status 1, and everything wrong is named.
    Reported,
}

/// The entries named by messages.
#[derive(Debug, Default)]
pub struct NamedEntries {
    exactly: BTreeSet<Vec<u8>>,
    with_all_below: BTreeSet<Vec<u8>>,
}

impl NamedEntries {
    /// Collects the names in messages that are in one of the two trees, relative to its root as
    /// given on the command line.
    pub fn collect(stderr: &[u8], roots: [&Path; 2]) -> Self {
        let mut named = Self::default();
        let roots = roots.map(path_bytes);
        for line in normalise(stderr) {
            let one_entry = ["preserv", "setting", "clos"].iter().any(|word| line.contains(word));
            let names = quoted_names(&line);
            // A few messages quote names as prose, with escapes between plain quotes.
            let escaped = names.iter().filter_map(|name| unescaped(name)).collect::<Vec<_>>();
            for name in names.into_iter().chain(escaped) {
                for relative in roots.iter().filter_map(|root| below(&name, root)) {
                    named.exactly.insert(relative.clone());
                    if !one_entry {
                        named.with_all_below.insert(relative);
                    }
                }
            }
        }
        named
    }

    /// Returns true if a message explains why this entry is wrong.
    pub fn explains(&self, path: &[u8]) -> bool {
        let mut ends = (0..path.len()).filter(|&end| path[end] == b'/').chain([0]);
        self.exactly.contains(path) || ends.any(|end| self.with_all_below.contains(&path[..end]))
    }

    /// Returns true if a message explains the difference. A message about one name of a file covers
    /// all names that are still linked to it.
    fn explains_difference(
        &self,
        difference: &TreeDifference,
        all: &Differences,
        expected: &Snapshot,
    ) -> bool {
        if self.explains(&difference.path) {
            return true;
        }
        let lost_its_link =
            all.list.iter().any(|other| other.path == difference.path && other.about == About::Links);
        let other_file =
            difference.about == About::Missing || (lost_its_link && difference.about != About::Links);
        let group = |path: &[u8]| expected.entries().get(path).and_then(|entry| entry.group.clone());
        let Some(group_here) = group(&difference.path).filter(|_| !other_file) else {
            return false;
        };
        expected.entries().keys().any(|path| group(path).as_ref() == Some(&group_here) && self.explains(path))
    }
}

/// Judges a run. `roots` are source and target as given on the command line, `expected` is the
/// correct target.
pub fn judge(
    outcome: &RunOutcome,
    expected: &Snapshot,
    differences: &Differences,
    roots: [&Path; 2],
) -> Result<CopyVerdict, String> {
    if outcome.crashed() {
        return Err(format!("ended by {:?}: {}", outcome.ending, outcome.errors()));
    }
    match outcome.ending {
        RunEnding::Exited(0) if differences.is_empty() => Ok(CopyVerdict::Right),
        RunEnding::Exited(0) => Err(format!("silent loss: status 0, {differences}")),
        RunEnding::Exited(1) if outcome.stderr.is_empty() => Err("status 1 without a message".to_owned()),
        RunEnding::Exited(1) => {
            let named = NamedEntries::collect(&outcome.stderr, roots);
            let unexplained: Vec<String> = differences
                .list
                .iter()
                .filter(|difference| !named.explains_difference(difference, differences, expected))
                .map(|difference| format!("{}: {}", show(&difference.path), difference.text))
                .collect();
            if unexplained.is_empty() {
                return Ok(CopyVerdict::Reported);
            }
            Err(format!("no message names {}; messages: {}", unexplained.join("; "), outcome.errors()))
        }
        other => Err(format!("ended by {other:?}: {}", outcome.errors())),
    }
}

/// Judges a run that ended because its engine is unavailable; `None` if it didn't end that way. The
/// run must print a single message that names the engine, and leave the target unchanged: `changes`
/// returns the differences.
pub fn judge_refusal(
    outcome: &RunOutcome,
    engine: &str,
    changes: impl FnOnce() -> Result<Differences, String>,
) -> Option<Result<CopyVerdict, String>> {
    let lines = normalise(&outcome.stderr);
    let refusals = lines.iter().filter(|line| line.contains("cannot use the engine")).count();
    if refusals == 0 {
        return None;
    }
    let named = lines.iter().flat_map(|line| quoted_names(line)).any(|name| name == engine.as_bytes());
    Some(match outcome.ending {
        RunEnding::Exited(1) if lines.len() == 1 && named => changes().and_then(|changes| {
            let untouched = changes.is_empty();
            untouched
                .then_some(CopyVerdict::Reported)
                .ok_or_else(|| format!("refused, and touched: {changes}"))
        }),
        ending => Err(format!("refused, but ended by {ending:?}: {}", outcome.errors())),
    })
}

/// Returns the part of `name` below `root`, empty for the root itself. Ignores repeated and
/// trailing slashes.
fn below(name: &[u8], root: &[u8]) -> Option<Vec<u8>> {
    let rest = name.strip_prefix(root)?;
    if !rest.is_empty() && rest[0] != b'/' {
        return None;
    }
    let parts: Vec<&[u8]> =
        rest.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::spec::{EntrySpec, Spec, SpecKind};
    use crate::{Facts, Sandbox};
    use std::fs;
    use std::time::Duration;

    fn outcome(status: i32, message: &str) -> RunOutcome {
        RunOutcome {
            ending: RunEnding::Exited(status),
            stdout: Vec::new(),
            stderr: message.as_bytes().to_vec(),
            peak_bytes: 0,
            took: Duration::ZERO,
        }
    }

    /// Damages a copy and judges a run that printed `message`.
    fn verdict(damage: fn(&Path), status: i32, message: &str) -> Result<CopyVerdict, String> {
        let sandbox = Sandbox::in_memory().unwrap();
        let spec = Spec {
            nodes: vec![
                EntrySpec::new(0, "d", SpecKind::Directory),
                EntrySpec::file(1, "f", 1, 100).attribute("user.a", "b"),
                EntrySpec::new(0, "g", SpecKind::HardLink(0)),
                EntrySpec::file(0, "f", 2, 100),
            ],
        };
        let [source, target] = ["s", "t"].map(|name| sandbox.join(name));
        spec.build(&source).unwrap();
        spec.build(&target).unwrap();
        damage(&target);
        let facts = Facts::PRESERVED - Facts::DIRECTORY_MODIFIED;
        let [expected, found] = [source, target].map(|root| Snapshot::take(&root, facts).unwrap());
        let differences = compare(&expected, &found, facts).unwrap();
        judge(&outcome(status, message), &expected, &differences, [Path::new("s"), Path::new("t")])
    }

    #[test]
    fn honesty_is_distinguished_from_loss() {
        let nothing = |_: &Path| {};
        let truncate = |root: &Path| fs::write(root.join("f"), "").unwrap();
        let unlink = |root: &Path| {
            fs::remove_file(root.join("g")).unwrap();
        };
        let forget = |root: &Path| {
            rustix::fs::lremovexattr(root.join("d/f"), "user.a").unwrap();
        };
        assert_eq!(verdict(nothing, 0, ""), Ok(CopyVerdict::Right));
        assert_eq!(verdict(nothing, 1, "cp: error writing 't/f': x\n"), Ok(CopyVerdict::Reported));
        assert!(verdict(nothing, 1, "").unwrap_err().contains("without a message"));
        assert!(verdict(nothing, 101, "thread panicked").is_err());
        assert!(verdict(truncate, 0, "").unwrap_err().contains("silent loss"));
        assert!(
            verdict(truncate, 1, "cp: error reading 's/d/f': x\n").unwrap_err().contains("no message names")
        );
        assert_eq!(verdict(truncate, 1, "haul cp: error reading 's/f': x\n"), Ok(CopyVerdict::Reported));
        assert!(verdict(unlink, 1, "cp: cannot open 's/f'\n").is_err());
        assert_eq!(
            verdict(unlink, 1, "cp: cannot create hard link 't/g' to 't/d/f': x\n"),
            Ok(CopyVerdict::Reported)
        );
        assert!(verdict(forget, 0, "").is_err());
        assert!(verdict(forget, 1, "cp: preserving times for 't/d': x\n").is_err());
        assert_eq!(verdict(forget, 1, "cp: cannot access 's/d': x\n"), Ok(CopyVerdict::Reported));
        assert_eq!(verdict(forget, 1, "cp: setting attributes for 't/d/f': x\n"), Ok(CopyVerdict::Reported));
    }

    #[test]
    fn a_refusal_names_the_engine_and_touches_nothing() {
        let refusal = "haul cp: cannot use the engine 'io-uring': Operation not permitted\n";
        let judged = |status, message: &str, changes: Result<Differences, String>| {
            judge_refusal(&outcome(status, message), "io-uring", || changes)
        };
        let nothing = || Ok(Differences::default());
        let something = TreeDifference { path: b"f".to_vec(), about: About::Extra, text: "new".to_owned() };
        assert_eq!(judged(1, refusal, nothing()), Some(Ok(CopyVerdict::Reported)));
        assert_eq!(judged(1, "haul cp: error writing 'f': x\n", nothing()), None);
        assert!(judged(0, refusal, nothing()).unwrap().is_err());
        assert!(judged(1, &refusal.repeat(2), nothing()).unwrap().is_err());
        assert!(judged(1, &refusal.replace("io-uring", "sync"), nothing()).unwrap().is_err());
        assert!(judged(1, refusal, Ok(Differences { list: vec![something] })).unwrap().is_err());
    }
}
