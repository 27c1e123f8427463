//! Flags that configuration files and `HAUL_OPTIONS` set before the command line does.
//!
//! A flag's entry in its table says whether they may ([`Configurable`]): only if it changes neither
//! what is written nor what is printed on standard output. So a command line does the same on every
//! machine, only at another speed or with another display.

use serde::Serialize;

use super::{AppletCommand, Arguments, Environment, FlagError, Value};

/// Ways in which configuration files and `HAUL_OPTIONS` may set a flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Configurable {
    /// Not at all: it changes what is written or printed.
    #[default]
    No,
    /// With its argument, if it has one; otherwise as a switch.
    Yes,
    /// Only without its argument, as a switch: the argument would change the output.
    Switch,
}

/// A flag that was set, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultSetting {
    /// Its long name, without dashes.
    pub(crate) name: String,
    pub(crate) value: Option<Vec<u8>>,
    /// `FILE:LINE` or the variable, for messages.
    pub(crate) origin: String,
}

/// Settings made before the command line, each kind in order: the last one counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    /// Those of the configuration files.
    pub(crate) files: Vec<DefaultSetting>,
    /// Those of `HAUL_OPTIONS`.
    pub(crate) variable: Vec<DefaultSetting>,
    /// Why they can't be used, if they can't.
    pub(crate) refused: Option<FlagError>,
}

impl<T: Arguments> AppletCommand<T> {
    /// Applies the settings of configuration files, `HAUL_PROGRESS` and `HAUL_OPTIONS`.
    ///
    /// # Errors
    /// When a setting is invalid; the error says where it was made.
    pub(crate) fn preset(&self, line: &mut T, environment: &Environment) -> Result<(), FlagError> {
        line.shared().files = environment.option_files;
        let Defaults { files, variable, refused } = &environment.defaults;
        if let Some(error) = refused {
            return Err(error.clone());
        }
        files.iter().try_for_each(|setting| self.preset_one(line, setting))?;
        line.shared().set_progress(environment)?;
        if environment.progress.is_some() {
            line.shared().run.configured.retain(|setting| setting.name != "progress");
        }
        variable.iter().try_for_each(|setting| self.preset_one(line, setting))
    }

    fn preset_one(&self, line: &mut T, setting: &DefaultSetting) -> Result<(), FlagError> {
        let specs = self.specs();
        let has_name = |spec: &&super::Spec| spec.longs().any(|long| long == setting.name);
        let Some(spec) = specs.iter().find(has_name) else { return Ok(()) };
        // Settings of flags that only other commands may have set are not for this one.
        if spec.configurable == Configurable::No {
            return Ok(());
        }
        let value = setting.value.as_deref().map(|bytes| Value { flag: spec.name(), bytes, word: 0 });
        self.set(spec.place, line, value).map_err(|error| FlagError::Configured {
            origin: setting.origin.clone(),
            error: Box::new(error),
        })?;
        line.shared().run.configured.push(setting.clone());
        Ok(())
    }
}
