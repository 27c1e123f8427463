//! Defaults for flags: two configuration files, and the variable `HAUL_OPTIONS`.
//!
//! ```text
//! /etc/haul.toml ─► ~/.config/haul/config.toml ─► HAUL_PROGRESS ─► HAUL_OPTIONS ─► command line
//! ```
//!
//! The last one counts. The files and `HAUL_OPTIONS` may set only flags that change neither what is
//! written nor what is printed on standard output, as the flag tables say
//! (`flags::Configurable`); any other is an error that says where it stands.
//!
//! Programs called by a name of their own, such as `cp`, read none of this, so it can't make a
//! script fail that knows nothing of haul. In a batch job, `HAUL_OPTIONS` holds the settings of the
//! host that submitted the job, and the files of the job's host don't count.
//!
//! Invariant: where there is no file, reading it is one `open` (test: `defaults.rs`).

mod file;
#[cfg(test)]
mod tests;
mod variable;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use file::AllowedOwner;

use crate::batch;
use crate::definitions;
use crate::flags::{Configurable, DefaultSetting, Defaults, Definition, Documented, FlagError};

/// The variable with flags for every command.
pub(crate) const VARIABLE: &str = "HAUL_OPTIONS";

/// Reads the defaults of `haul COMMAND`.
pub(crate) fn read(command: &str) -> Defaults {
    Sources::of_process().read(command)
}

/// Where defaults come from.
#[derive(Default)]
struct Sources {
    /// The system's file.
    system: Option<PathBuf>,
    /// The user's file.
    user: Option<PathBuf>,
    /// The variable.
    variable: Option<Vec<u8>>,
}

impl Sources {
    fn of_process() -> Self {
        let variable = std::env::var_os(VARIABLE).map(OsString::into_vec).filter(|text| !text.is_empty());
        if batch::is_in_job() {
            return Self { variable, ..Self::default() };
        }
        // A relative path must be ignored (XDG Base Directory Specification).
        let directory = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let user = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
        Self {
            system: Some(PathBuf::from("/etc/haul.toml")),
            user: user.map(|directory| directory.join("haul/config.toml")),
            variable,
        }
    }

    fn read(&self, command: &str) -> Defaults {
        self.try_read(command)
            .unwrap_or_else(|why| Defaults { refused: Some(FlagError::Sentence(why)), ..Defaults::default() })
    }

    fn try_read(&self, command: &str) -> Result<Defaults, String> {
        let files = [(&self.system, AllowedOwner::Root), (&self.user, AllowedOwner::RootOrUser)];
        let mut texts = Vec::new();
        for (path, owner) in files {
            let Some(path) = path else { continue };
            if let Some(text) = file::read(path, owner)? {
                texts.push((path, text));
            }
        }
        let mut defaults = Defaults::default();
        if texts.is_empty() && self.variable.is_none() {
            return Ok(defaults);
        }
        let commands = Commands { all: definitions::commands(), command };
        for (path, text) in texts {
            file::parse(path, &text, &commands, &mut defaults.files)?;
        }
        if let Some(text) = &self.variable {
            defaults.variable = variable::parse(text, &commands)?;
        }
        Ok(defaults)
    }
}

/// All commands and their flags.
struct Commands<'a> {
    all: Vec<Documented>,
    /// The one to run.
    command: &'a str,
}

impl Commands<'_> {
    fn named(&self, name: &str) -> Option<&Documented> {
        self.all.iter().find(|command| command.name == name && !command.flags.is_empty())
    }

    /// Finds a flag that may be set, in one command or in any. `has_name` identifies it, and `name`
    /// is its name for messages.
    ///
    /// # Errors
    /// A sentence for the user if no flag fits.
    fn flag(
        &self,
        scope: Option<&Documented>,
        name: &str,
        has_name: impl Fn(&Definition) -> bool,
    ) -> Result<&Definition, String> {
        let in_scope = |command: &&Documented| scope.is_none_or(|scope| scope.name == command.name);
        let flags = self.all.iter().filter(in_scope).flat_map(|command| &command.flags);
        let found: Vec<_> = flags.filter(|flag| has_name(flag)).collect();
        match found.iter().find(|flag| flag.configurable != Configurable::No) {
            Some(flag) => Ok(flag),
            None if !found.is_empty() => Err(format!(
                "{name} changes what a command does, so it can only be given on the command line"
            )),
            None if scope.is_none() && self.named(name).is_some() => {
                Err(format!("{name} is a command: begin its settings with [{name}]"))
            }
            None => Err(match scope {
                Some(command) => format!("haul {} has no option {name}", command.name),
                None => format!("no command has an option {name}"),
            }),
        }
    }
}

/// Adds a setting, which replaces earlier ones of the flag.
fn set(settings: &mut Vec<DefaultSetting>, setting: DefaultSetting) {
    unset(settings, &setting.name);
    settings.push(setting);
}

fn unset(settings: &mut Vec<DefaultSetting>, name: &str) {
    settings.retain(|setting| setting.name != name);
}

/// Returns the text of `HAUL_OPTIONS` that has these settings.
pub(crate) fn as_variable(settings: &[DefaultSetting]) -> OsString {
    let word = |setting: &DefaultSetting| {
        let value = setting.value.iter().flat_map(|value| [b"=", value.as_slice()].concat());
        format!("--{}", setting.name).into_bytes().into_iter().chain(value).collect::<Vec<u8>>()
    };
    let words: Vec<_> = settings.iter().map(word).collect();
    // Only a NUL can't be quoted, and no variable or TOML value that a flag accepts has one.
    let text = shlex::bytes::try_join(words.iter().map(Vec::as_slice)).unwrap_or_default();
    OsString::from_vec(text)
}
