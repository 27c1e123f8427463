//! The option system of all applets: parsing, help, completions and manual pages follow from one
//! table per applet, and from the table of flags that all applets share.
//!
//! A [`AppletCommand`] has an applet's own [`FlagSpec`]s; [`shared::SECTIONS`] has haul's.
//! [`getopt`] splits a command line as the C library's `getopt_long` does. A flag's [`Action`]
//! changes the applet's [`Arguments`], which the applet lowers once into immutable options. Parsing
//! ends at the first error, in the order in which GNU finds errors.
//!
//! A command line has the same meaning as for the GNU program. A name that haul adds never makes
//! one of GNU's abbreviations ambiguous and never changes its meaning.
//!
//! Invariant: a flag is defined in one entry of one table (test: `options.rs` compares help, manual
//! pages and completions with the tables, and the flags' errors between applets).

mod cluster;
mod conflicts;
mod defaults;
mod definitions;
mod error;
mod getopt;
mod help;
mod lower;
mod selection;
pub(crate) mod shared;
pub(crate) mod spdcp;
pub(crate) mod sync;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::option_files::OptionFiles;
pub(crate) use defaults::{Configurable, DefaultSetting, Defaults};
pub(crate) use definitions::{Argument, Definition, Documented};
pub(crate) use error::{Doubt, FlagError, Warning};
pub(crate) use getopt::edits;
use getopt::{GetoptItem, Scanner};
pub(crate) use lower::{LoweredCopy, Typed};
pub(crate) use shared::{Information, SharedArguments, StatisticsForm, When};
pub(crate) use table::COMMAND;
pub(crate) use values::Value;

/// A flag's effect and its argument.
pub(crate) enum Action<T> {
    Plain(fn(&mut T)),
    /// A required argument: attached, after `=`, or the next word.
    Required(&'static str, fn(&mut T, Value<'_>) -> Result<(), FlagError>),
    /// A required argument of any value.
    AnyValue(&'static str, fn(&mut T, Value<'_>)),
    /// An optional argument, only after `=`; the short form has none.
    Optional(&'static str, fn(&mut T, Option<Value<'_>>) -> Result<(), FlagError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagOrigin {
    /// The GNU program: its abbreviations take precedence.
    Gnu,
    Haul,
}

/// One flag: its names, effect and help.
pub(crate) struct FlagSpec<T> {
    /// Its names as help lists them, such as `-r --recursive`. `-NUM` is a number in place of
    /// letters.
    names: &'static str,
    /// Its names that help does not list.
    hidden: &'static str,
    action: Action<T>,
    /// Its help; without any, the flag is not listed.
    help: &'static str,
    owner: FlagOrigin,
    configurable: Configurable,
}

/// Flags under their headings of the help.
pub(crate) type Sections<T> = &'static [(&'static str, &'static [FlagSpec<T>])];

impl<T> FlagSpec<T> {
    /// A flag of the program that the applet stands in for.
    pub(crate) const fn gnu(names: &'static str, action: Action<T>, help: &'static str) -> Self {
        Self { names, hidden: "", action, help, owner: FlagOrigin::Gnu, configurable: Configurable::No }
    }

    pub(crate) const fn own(names: &'static str, action: Action<T>, help: &'static str) -> Self {
        Self { owner: FlagOrigin::Haul, ..Self::gnu(names, action, help) }
    }

    /// Adds names that help does not list.
    pub(crate) const fn also(self, hidden: &'static str) -> Self {
        Self { hidden, ..self }
    }

    /// Lets configuration files and `HAUL_OPTIONS` set the flag: it changes neither what is written
    /// nor what is printed on standard output.
    pub(crate) const fn configurable(self) -> Self {
        Self { configurable: Configurable::Yes, ..self }
    }

    /// The same for a flag with an optional argument, of which this is true only without it.
    pub(crate) const fn configurable_without_argument(self) -> Self {
        Self { configurable: Configurable::Switch, ..self }
    }
}

impl<T: Arguments> FlagSpec<T> {
    /// The flag that asks for help.
    pub(crate) const fn help(names: &'static str) -> Self {
        let action = Action::Plain(|line: &mut T| line.shared().information = Some(Information::Help));
        Self::gnu(names, action, "print this help and exit")
    }

    /// The flag that asks for the version.
    pub(crate) const fn version(names: &'static str) -> Self {
        let action = Action::Plain(|line: &mut T| line.shared().information = Some(Information::Version));
        Self::gnu(names, action, "print the version and exit")
    }
}

/// The parsed command line of an applet; its flags and operands are applied in order.
pub(crate) trait Arguments: 'static {
    /// True if all letters are applied before all long flags.
    const LONG_FLAGS_LAST: bool = false;

    /// Returns the arguments that the shared flags change.
    fn shared(&mut self) -> &mut SharedArguments;

    fn operand(&mut self, word: &OsStr);

    /// Applies the words after `--`.
    fn rest(&mut self, words: &[OsString]) {
        words.iter().for_each(|word| self.operand(word));
    }

    /// Checks values that can only be judged once all flags are known.
    fn deferred(&self) -> Result<(), FlagError> {
        Ok(())
    }
}

/// Set of shared flags that an applet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    All,
    /// Not those that choose entries: the GNU program has its own.
    WithoutSelection,
    /// Nor any letters, which mean something else.
    WithoutLetters,
    Nothing,
}

/// An applet's command line.
pub(crate) struct AppletCommand<T: 'static> {
    /// Forms of the command line, without the program's name.
    pub(crate) usage: &'static [&'static str],
    /// Description, before the flags in the help.
    pub(crate) about: &'static str,
    pub(crate) sections: Sections<T>,
    pub(crate) sharing: Sharing,
    /// Help after the flags: paragraphs under headings that end in a colon.
    pub(crate) notes: &'static str,
}

/// A flag without its effect: the part for the parser, help and generators.
#[derive(Clone, Copy)]
struct Spec {
    names: &'static str,
    hidden: &'static str,
    /// Name of the argument, and whether it is optional.
    argument: Option<(&'static str, bool)>,
    help: &'static str,
    owner: FlagOrigin,
    section: &'static str,
    has_letters: bool,
    place: FlagPosition,
    configurable: Configurable,
}

/// The table that a flag is in, and the indexes of its section and in that.
#[derive(Clone, Copy)]
enum FlagPosition {
    Own(usize, usize),
    Shared(usize, usize),
}

impl Spec {
    fn of_each<T>(
        sections: Sections<T>,
        place: fn(usize, usize) -> FlagPosition,
    ) -> impl Iterator<Item = Self> {
        sections.iter().enumerate().flat_map(move |(outer, (section, flags))| {
            let flags = flags.iter().enumerate();
            flags.map(move |(inner, flag)| Self::of(flag, section, place(outer, inner)))
        })
    }

    fn of<T>(flag: &FlagSpec<T>, section: &'static str, place: FlagPosition) -> Self {
        let argument = match flag.action {
            Action::Plain(_) => None,
            Action::Required(name, _) | Action::AnyValue(name, _) => Some((name, false)),
            Action::Optional(name, _) => Some((name, true)),
        };
        let FlagSpec { names, hidden, help, owner, configurable, .. } = *flag;
        Self { names, hidden, argument, help, owner, section, has_letters: true, place, configurable }
    }

    /// Returns the names that help lists.
    fn listed(&self) -> impl Iterator<Item = &'static str> {
        let has_letters = self.has_letters;
        self.names.split(' ').filter(move |name| has_letters || name.starts_with("--"))
    }

    fn all_names(&self) -> impl Iterator<Item = &'static str> {
        self.listed().chain(self.hidden.split(' ').filter(|name| !name.is_empty()))
    }

    /// Returns the long names, without their dashes.
    fn longs(&self) -> impl Iterator<Item = &'static str> {
        self.all_names().filter_map(|name| name.strip_prefix("--"))
    }

    /// Returns the name for messages: the first long one, if there is any.
    fn name(&self) -> &'static str {
        let long = self.listed().find(|name| name.starts_with("--"));
        long.or_else(|| self.listed().next()).unwrap_or_default()
    }

    fn has_letter(&self, letter: u8) -> bool {
        self.all_names().any(|name| name.as_bytes() == [b'-', letter])
    }
}

impl<T: Arguments> AppletCommand<T> {
    /// Returns all flags, the applet's own first. A shared flag is left out if the applet has one
    /// of that name.
    fn specs(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = Spec::of_each(self.sections, FlagPosition::Own).collect();
        if self.sharing != Sharing::Nothing {
            let has_letters = self.sharing != Sharing::WithoutLetters;
            let selects = self.sharing == Sharing::All;
            let own: HashSet<_> = specs.iter().map(Spec::name).collect();
            let shared = Spec::of_each(shared::SECTIONS, FlagPosition::Shared)
                .filter(|spec| spec.section != selection::CHOOSING || selects)
                .filter(|spec| !own.contains(spec.name()));
            specs.extend(shared.map(|spec| Spec { has_letters, ..spec }));
        }
        specs
    }

    /// True if a letter has a required argument.
    pub(crate) fn letter_takes_argument(&self, letter: u8) -> bool {
        self.specs().iter().any(|spec| spec.has_letter(letter) && matches!(spec.argument, Some((_, false))))
    }

    /// Parses a command line into `line`. Returns the information that a flag asks for instead.
    ///
    /// # Errors
    /// The first error, in the order in which GNU looks.
    pub(crate) fn parse(
        &self,
        line: &mut T,
        words: &[OsString],
        posixly_correct: bool,
    ) -> Result<Option<Information>, FlagError> {
        let specs = self.specs();
        let mut scanner = Scanner::new(&specs, words, posixly_correct);
        let mut last = Vec::new();
        loop {
            let is_last = T::LONG_FLAGS_LAST && scanner.is_at_long_flag();
            let Some(item) = scanner.next_item()? else { break };
            match item {
                GetoptItem::Operand(word) => line.operand(word),
                GetoptItem::Rest(words) => line.rest(words),
                GetoptItem::Flag(spec, value) if is_last => last.push((spec, value)),
                GetoptItem::Flag(spec, value) => self.set(spec.place, line, value)?,
            }
            if let Some(information) = line.shared().information {
                return Ok(Some(information));
            }
        }
        for (spec, value) in last {
            self.set(spec.place, line, value)?;
        }
        Ok(line.shared().information)
    }

    fn set(&self, place: FlagPosition, line: &mut T, value: Option<Value<'_>>) -> Result<(), FlagError> {
        match place {
            FlagPosition::Own(outer, inner) => self.sections[outer].1[inner].action.apply(line, value),
            FlagPosition::Shared(outer, inner) => {
                shared::SECTIONS[outer].1[inner].action.apply(line.shared(), value)
            }
        }
    }
}

impl<T> Action<T> {
    fn apply(&self, state: &mut T, value: Option<Value<'_>>) -> Result<(), FlagError> {
        match (self, value) {
            (Self::Plain(set), _) => {
                set(state);
                Ok(())
            }
            (Self::Required(_, set), Some(value)) => set(state, value),
            (Self::AnyValue(_, set), Some(value)) => {
                set(state, value);
                Ok(())
            }
            (Self::Required(..) | Self::AnyValue(..), None) => Ok(()),
            (Self::Optional(_, set), value) => set(state, value),
        }
    }
}

/// The part of the environment that affects the meaning of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// `POSIXLY_CORRECT` is set: the first operand ends the flags.
    pub(crate) posixly_correct: bool,
    /// The kernel labels files with SELinux contexts.
    pub(crate) selinux: bool,
    /// `VERSION_CONTROL`: the backup method, if the command line does not give one.
    pub(crate) version_control: Option<Vec<u8>>,
    /// `SIMPLE_BACKUP_SUFFIX`: the backup suffix, if the command line does not give one.
    pub(crate) backup_suffix: Option<Vec<u8>>,
    /// Settings of configuration files and `HAUL_OPTIONS`.
    pub(crate) defaults: Defaults,
    /// `HAUL_PROGRESS`: when progress is shown, if the command line does not say.
    pub(crate) progress: Option<Vec<u8>>,
    /// True if this process is one of several started by an MPI launcher.
    pub(crate) is_rank: bool,
    /// Whether the files that options name are read.
    pub(crate) option_files: OptionFiles,
}

impl Environment {
    /// Reads the environment for a program that is called by its own name, such as `cp`. A script
    /// under mpirun means one run in each process, and no file or variable of haul's makes it fail
    /// or changes what it does.
    pub(crate) fn of_stand_in() -> Self {
        Self { is_rank: false, option_files: OptionFiles::Read, progress: None, ..Self::of_process() }
    }

    /// Reads the environment for `haul COMMAND`, with the defaults that the user has set. Of
    /// several ranks only the first reads them: the others do as it says.
    pub(crate) fn of_command(name: &str) -> Self {
        let defaults = if crate::cluster::prints_messages() {
            crate::configuration::read(name)
        } else {
            Defaults::default()
        };
        Self { defaults, ..Self::of_process() }
    }

    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Self {
        let bytes = |name| std::env::var_os(name).map(OsString::into_vec);
        Self {
            version_control: bytes("VERSION_CONTROL"),
            backup_suffix: bytes("SIMPLE_BACKUP_SUFFIX"),
            posixly_correct: std::env::var_os("POSIXLY_CORRECT").is_some(),
            selinux: std::path::Path::new("/sys/fs/selinux/enforce").exists(),
            progress: bytes("HAUL_PROGRESS").filter(|when| !when.is_empty()),
            is_rank: crate::cluster::is_under_launcher(),
            option_files: match crate::cluster::prints_messages() {
                true => OptionFiles::Read,
                false => OptionFiles::StreamsLeftToFirstRank,
            },
            defaults: Defaults::default(),
        }
    }
}

/// Returns the outcome of a parsed command line, or the error of the settings made before it. Help
/// and version are shown even then.
pub(crate) fn after_preset(
    preset: Result<(), FlagError>,
    parsed: Result<Option<Information>, FlagError>,
) -> Result<Option<Information>, FlagError> {
    match parsed {
        Ok(Some(information)) => Ok(Some(information)),
        parsed => preset.and(parsed),
    }
}

/// The request of a `cp` command line.
#[derive(Debug)]
pub(crate) enum CopyCommand {
    Copy(Box<LoweredCopy>),
    /// Help or version.
    Print(Information),
}

/// Parses the arguments of `cp`. `warn` is called for ignored flags, before any error.
///
/// # Errors
/// The first error, in the order in which GNU `cp` looks.
pub(crate) fn parse(
    words: &[OsString],
    environment: Environment,
    warn: &mut dyn FnMut(Warning),
) -> Result<CopyCommand, FlagError> {
    let mut typed = Typed::default();
    let preset = COMMAND.preset(&mut typed, &environment);
    let parsed = COMMAND.parse(&mut typed, words, environment.posixly_correct);
    let parsed = after_preset(preset, parsed);
    if !environment.selinux {
        typed.take_warnings().into_iter().for_each(warn);
    }
    match parsed? {
        Some(information) => Ok(CopyCommand::Print(information)),
        None => {
            typed.check_job("--clients", environment.is_rank)?;
            typed.read_list()?;
            typed.lower(&environment).map(|request| CopyCommand::Copy(Box::new(request)))
        }
    }
}
