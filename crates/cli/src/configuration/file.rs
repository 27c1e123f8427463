//! Reads and parses a configuration file in TOML.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use haul_sys::{effective_identity, reason};
use toml::de::{DeTable, DeValue};

use super::{Commands, set, unset};
use crate::flags::{Configurable, DefaultSetting, Definition, Documented};

/// Maximum size of a file, in bytes: a larger one isn't a configuration file.
const BYTES_MAX: u64 = 1 << 20;
/// The bits of a mode that let others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const ROOT: u32 = 0;

/// Users who may own a file. Files of others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedOwner {
    Root,
    RootOrUser,
}

/// Reads a file. `None` if it doesn't exist.
///
/// # Errors
/// A sentence for the user: why it can't be read, or isn't trusted.
pub(super) fn read(path: &Path, owner: AllowedOwner) -> Result<Option<String>, String> {
    let shown = shown(path);
    // Opening a FIFO would wait for a writer.
    match OpenOptions::new().read(true).custom_flags(haul_sys::NONBLOCK).open(path) {
        Ok(file) => text_of(&file, owner).map(Some).map_err(|why| format!("{shown}: {why}")),
        Err(error) if is_missing(path, &error) => Ok(None),
        Err(error) => Err(format!("cannot open {shown}: {}", reason(&error))),
    }
}

/// True if a file that can't be opened may count as missing. A daemon may run with the HOME of a
/// user whose directories it can't search; git ignores that too.
fn is_missing(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => path.metadata().is_err(),
        _ => false,
    }
}

fn text_of(file: &File, owner: AllowedOwner) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read the file: {}", reason(&error));
    let status = file.metadata().map_err(failed)?;
    if !status.is_file() {
        return Err("not a regular file".to_owned());
    }
    let user = status.uid();
    let trusted = user == ROOT || (owner == AllowedOwner::RootOrUser && user == effective_identity().user);
    if !trusted {
        let wanted = if owner == AllowedOwner::Root { "root" } else { "root or you" };
        return Err(format!("refused, because user {user} owns it, not {wanted} (chown)"));
    }
    if status.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err("refused: it is writable by others (chmod go-w)".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err("larger than 1 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

/// Parses a file's text, and adds its settings for the command to run to `settings`.
///
/// # Errors
/// A sentence for the user that begins with the file's name, and the line if one is to blame.
pub(super) fn parse(
    path: &Path,
    text: &str,
    commands: &Commands<'_>,
    settings: &mut Vec<DefaultSetting>,
) -> Result<(), String> {
    let place = |at: usize| format!("{}:{}", shown(path), line_of(text, at));
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{}: {}", place(at), error.message())
    })?;
    let reader = TableReader { commands, place: &place };
    let table = table.get_ref();
    // A command's own settings take precedence over those for all commands.
    reader.read(table, None, settings)?;
    for (name, value) in in_order(table) {
        let Some(inner) = value.as_table() else { continue };
        let scope = commands.named(name);
        let scope = scope.ok_or_else(|| format!("{}: haul has no command {name}", place(value.at)))?;
        if scope.name == commands.command {
            reader.read(inner, Some(scope), settings)?;
        } else {
            reader.read(inner, Some(scope), &mut Vec::new())?;
        }
    }
    Ok(())
}

/// A value and where its key begins in the text.
struct Placed<'a> {
    value: &'a DeValue<'a>,
    at: usize,
}

impl<'a> Placed<'a> {
    fn as_table(&self) -> Option<&'a DeTable<'a>> {
        self.value.as_table()
    }
}

/// Returns a table's keys and values in the order of the text.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<(&'a str, Placed<'a>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| {
            let placed = Placed { value: value.get_ref(), at: key.span().start };
            (key.get_ref().as_ref(), placed)
        })
        .collect();
    entries.sort_by_key(|(_, placed)| placed.at);
    entries
}

struct TableReader<'a> {
    commands: &'a Commands<'a>,
    /// Returns the file and line of a position in the text.
    place: &'a dyn Fn(usize) -> String,
}

impl TableReader<'_> {
    /// Adds the settings of one table, without those in tables below.
    fn read(
        &self,
        table: &DeTable<'_>,
        scope: Option<&Documented>,
        settings: &mut Vec<DefaultSetting>,
    ) -> Result<(), String> {
        let is_key = |(_, placed): &(&str, Placed<'_>)| scope.is_some() || placed.as_table().is_none();
        for (name, Placed { value, at }) in in_order(table).into_iter().filter(is_key) {
            let origin = (self.place)(at);
            let flag = self.commands.flag(scope, name, |flag| flag.long == name);
            let value = flag.and_then(|flag| value_of(flag, value).map_err(|why| format!("{name}: {why}")));
            match value.map_err(|why| format!("{origin}: {why}"))? {
                KeyValue::Off => unset(settings, name),
                KeyValue::On => set(settings, DefaultSetting { name: name.to_owned(), value: None, origin }),
                KeyValue::Value(value) => {
                    set(settings, DefaultSetting { name: name.to_owned(), value: Some(value), origin });
                }
            }
        }
        Ok(())
    }
}

/// Value of a key, for its flag.
enum KeyValue {
    Off,
    On,
    Value(Vec<u8>),
}

/// Converts a TOML value into a value for a flag.
///
/// # Errors
/// The expected type, if it has another one.
fn value_of(flag: &Definition, value: &DeValue<'_>) -> Result<KeyValue, String> {
    let is_switch = flag.argument.is_none() || flag.configurable == Configurable::Switch;
    match value {
        DeValue::Boolean(false) if is_switch => Ok(KeyValue::Off),
        DeValue::Boolean(true) if is_switch => Ok(KeyValue::On),
        DeValue::String(text) if !is_switch => Ok(KeyValue::Value(text.as_bytes().to_vec())),
        DeValue::Integer(digits) if !is_switch => {
            let number = i64::from_str_radix(digits.as_str(), digits.radix());
            let number = number.map_err(|error| format!("invalid number: {error}"))?;
            Ok(KeyValue::Value(number.to_string().into_bytes()))
        }
        other if is_switch => Err(format!("must be true or false, not {}", type_of(other))),
        other => Err(format!("must be a string or a whole number, not {}", type_of(other))),
    }
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the number of the line with a position, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}
