//! A list of rules; the last one that matches an entry decides.
//!
//! Rules without wildcards, by far most of long lists, are looked up by name and by path. The
//! others are matched together, many at a time, by the crate `globset`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{Candidate, Glob, GlobBuilder, GlobSet};

use super::line::{NoRule, Rule, RulePattern};

/// Maximum number of globs matched by one automaton, whose size is limited.
const GLOBS_MAX: usize = 256;

/// Verdict of a list of rules on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleVerdict {
    Exclude,
    Include,
}

#[derive(Debug, Default)]
pub(super) struct CompiledRules {
    rules: Vec<Flags>,
    names: HashMap<Box<[u8]>, Last>,
    paths: HashMap<Box<[u8]>, Last>,
    name_globs: Vec<Globs>,
    path_globs: Vec<Globs>,
}

/// A rule without its pattern.
#[derive(Clone, Copy, Debug)]
struct Flags {
    is_inclusion: bool,
    directories_only: bool,
}

/// The number, from 1, of the last rule with a certain text; 0 if there is no such rule.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    for_directories: u32,
    for_others: u32,
}

/// Globs that are matched at once, and the numbers of their rules, which increase.
#[derive(Debug)]
struct Globs {
    set: GlobSet,
    numbers: Vec<u32>,
}

impl CompiledRules {
    /// Compiles lines. Invalid ones have no effect, and are passed to `on_invalid` with their
    /// index.
    pub(super) fn compile<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        mut on_invalid: impl FnMut(usize, &'a [u8]),
    ) -> Self {
        let (mut rules, mut name_globs, mut path_globs) = (Self::default(), Vec::new(), Vec::new());
        for (index, line) in lines.into_iter().enumerate() {
            let Rule { is_inclusion, directories_only, pattern } = match Rule::parse(line) {
                Ok(rule) => rule,
                Err(NoRule::Nothing) => continue,
                Err(NoRule::Invalid) => {
                    on_invalid(index, line);
                    continue;
                }
            };
            rules.rules.push(Flags { is_inclusion, directories_only });
            // More lines than that don't fit into memory.
            let number = u32::try_from(rules.rules.len()).unwrap_or(u32::MAX);
            let (globs, glob) = match pattern {
                RulePattern::Name(text) => {
                    note(&mut rules.names, text, number, directories_only);
                    continue;
                }
                RulePattern::Path(text) => {
                    note(&mut rules.paths, text, number, directories_only);
                    continue;
                }
                RulePattern::NameGlob(glob) => (&mut name_globs, glob),
                RulePattern::PathGlob(glob) => (&mut path_globs, glob),
            };
            match GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build() {
                Ok(glob) => globs.push(Numbered { number, line: (index, line), glob }),
                Err(_) => on_invalid(index, line),
            }
        }
        let mut invalid = Vec::new();
        let mut sets = |globs: &[Numbered<'a>]| -> Vec<Globs> {
            globs.chunks(GLOBS_MAX).flat_map(|globs| Globs::compile(globs, &mut invalid)).collect()
        };
        (rules.name_globs, rules.path_globs) = (sets(&name_globs), sets(&path_globs));
        invalid.into_iter().for_each(|(index, line)| on_invalid(index, line));
        rules
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the verdict of the last matching rule on the entry with this path; `None` if none
    /// matches.
    pub(super) fn decide(&self, path: &[u8], is_directory: bool) -> Option<RuleVerdict> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let number_of = |last: &Last| if is_directory { last.for_directories } else { last.for_others };
        let mut last = self.names.get(name).map_or(0, number_of);
        last = last.max(self.paths.get(path).map_or(0, number_of));
        for (globs, text) in [(&self.name_globs, name), (&self.path_globs, path)] {
            if !globs.is_empty() {
                last = self.last_of(globs, text, is_directory, last);
            }
        }
        let rule = self.rules.get((last as usize).checked_sub(1)?)?;
        Some(if rule.is_inclusion { RuleVerdict::Include } else { RuleVerdict::Exclude })
    }

    /// Returns the number of the last glob that matches, or `last` if that is higher.
    fn last_of(&self, globs: &[Globs], text: &[u8], is_directory: bool, last: u32) -> u32 {
        let candidate = Candidate::new(Path::new(OsStr::from_bytes(text)));
        let mut matches = Vec::new();
        for Globs { set, numbers } in globs.iter().rev() {
            if numbers.last().is_none_or(|highest| *highest < last) {
                break;
            }
            set.matches_candidate_into(&candidate, &mut matches);
            let applies = |number: &u32| is_directory || !self.rules[*number as usize - 1].directories_only;
            let found = matches.iter().rev().map(|index| numbers[*index]).find(applies);
            if let Some(number) = found {
                return number.max(last);
            }
        }
        last
    }
}

fn note(rules: &mut HashMap<Box<[u8]>, Last>, text: Vec<u8>, number: u32, directories_only: bool) {
    let last = rules.entry(text.into_boxed_slice()).or_default();
    last.for_directories = number;
    if !directories_only {
        last.for_others = number;
    }
}

/// A glob, with the number of its rule and the line that it is from.
struct Numbered<'a> {
    number: u32,
    line: (usize, &'a [u8]),
    glob: Glob,
}

impl Globs {
    /// Compiles globs into one automaton, or into several if that would be too large. Adds the
    /// lines of globs that are too large by themselves to `invalid`.
    fn compile<'a>(globs: &[Numbered<'a>], invalid: &mut Vec<(usize, &'a [u8])>) -> Vec<Self> {
        let set = GlobSet::new(globs.iter().map(|numbered| &numbered.glob));
        match (set, globs) {
            (Ok(set), _) => {
                vec![Self { set, numbers: globs.iter().map(|numbered| numbered.number).collect() }]
            }
            (Err(_), []) => Vec::new(),
            (Err(_), [numbered]) => {
                invalid.push(numbered.line);
                Vec::new()
            }
            (Err(_), globs) => {
                let (first, second) = globs.split_at(globs.len() / 2);
                let mut sets = Self::compile(first, invalid);
                sets.extend(Self::compile(second, invalid));
                sets
            }
        }
    }
}
