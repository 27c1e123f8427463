//! haul's command and option definitions, as it prints them.

use serde::Deserialize;

use crate::steps::StepFailure;

/// A command with its options, operands and subcommands.
#[derive(Debug, Deserialize)]
pub(super) struct CommandDefinition {
    pub(super) name: String,
    /// Names of programs that this command can replace.
    #[serde(default)]
    pub(super) programs: Vec<String>,
    pub(super) about: String,
    /// Further paragraphs after `about`.
    #[serde(default)]
    pub(super) description: String,
    /// Forms of the command line, one per line.
    #[serde(default)]
    pub(super) synopsis: Vec<String>,
    /// Text after the flags in the help: paragraphs under headings that end with a colon.
    #[serde(default)]
    pub(super) notes: String,
    pub(super) flags: Vec<FlagDefinition>,
    pub(super) operands: Vec<Argument>,
    #[serde(default)]
    pub(super) commands: Vec<CommandDefinition>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FlagDefinition {
    letters: Vec<char>,
    long: String,
    #[serde(default)]
    aliases: Vec<String>,
    pub(super) argument: Option<Argument>,
    pub(super) help: String,
    /// True if the GNU program has it too.
    pub(super) gnu: bool,
    /// True if it concerns copying with many hosts.
    pub(super) cluster: bool,
}

/// The argument of an option, or an operand.
#[derive(Debug, Deserialize)]
pub(super) struct Argument {
    pub(super) name: String,
    /// True if it may be omitted; if false, it may be a separate word.
    pub(super) optional: bool,
    /// Permitted values; empty if any value is.
    pub(super) words: Vec<String>,
    /// True if it accepts a comma-separated list of values.
    pub(super) list: bool,
}

/// Which names complete an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileCompletion {
    None,
    Files,
    Directories,
    Programs,
}

/// Which names complete an argument without fixed words, by its name in the help.
const NAMES: [(FileCompletion, &str); 4] = [
    // A time may be that of a file.
    (FileCompletion::Files, "ARCHIVE DATE FILE PATH SOCKET WHEN"),
    (FileCompletion::Directories, "DESTINATION DIR DIRECTORY"),
    (FileCompletion::Programs, "COMMAND PROGRAM"),
    (
        FileCompletion::None,
        "ACTION CHANGES CTX F GLOB LABEL M MS N NAME NAME[:GID] NAME[:UID] NUM NUMBER OPTIONS P PATTERN \
         PATTERNS PERCENT Q QUEUE RATE SECONDS SEP SIZE SUFFIX T TIME TYPE [+-]N",
    ),
];

impl FlagDefinition {
    /// Returns its short forms, such as `-a`.
    pub(super) fn short(&self) -> Vec<String> {
        self.letters.iter().map(|letter| format!("-{letter}")).collect()
    }

    /// Returns its long form, such as `--archive`.
    pub(super) fn long(&self) -> Option<String> {
        (!self.long.is_empty()).then(|| format!("--{}", self.long))
    }

    pub(super) fn forms(&self) -> Vec<String> {
        let aliases = self.aliases.iter().map(|alias| format!("--{alias}"));
        self.short().into_iter().chain(self.long()).chain(aliases).collect()
    }

    pub(super) fn required(&self) -> Option<&Argument> {
        self.argument.as_ref().filter(|argument| !argument.optional)
    }
}

impl Argument {
    /// Returns which names complete it.
    pub(super) fn names(&self) -> FileCompletion {
        self.listed_names().unwrap_or(FileCompletion::None)
    }

    fn listed_names(&self) -> Option<FileCompletion> {
        // Several are shown as `DIR,...`.
        let name = self.name.split(',').next()?;
        NAMES.iter().find(|(_, arguments)| arguments.split(' ').any(|it| it == name)).map(|(names, _)| *names)
    }
}

/// A command and its path.
pub(super) struct CommandPath<'a> {
    /// `haul`, followed by the commands down to this one.
    pub(super) path: Vec<&'a str>,
    pub(super) command: &'a CommandDefinition,
}

impl CommandPath<'_> {
    /// Returns a name for a shell function.
    pub(super) fn identifier(&self) -> String {
        self.path.join("_")
    }
}

impl CommandDefinition {
    pub(super) fn takes_files(&self) -> bool {
        let takes = |operand: &Argument| operand.words.is_empty();
        self.commands.is_empty() && (self.operands.is_empty() || self.operands.iter().any(takes))
    }

    /// Returns the words of its second operand, if only that has any.
    pub(super) fn second_words(&self) -> Option<String> {
        match self.operands.as_slice() {
            [first, second] if first.words.is_empty() && !second.words.is_empty() => {
                Some(second.words.join(" "))
            }
            _ => None,
        }
    }

    /// Lists the fixed words that may follow it.
    pub(super) fn words(&self) -> Vec<&str> {
        let of_operands = self.operands.iter().flat_map(|operand| &operand.words).map(String::as_str);
        self.commands.iter().map(|command| command.name.as_str()).chain(of_operands).collect()
    }
}

/// Checks that the table says what completes each argument.
///
/// # Errors
/// The first argument that isn't in the table.
pub(super) fn check_names(commands: &[CommandDefinition]) -> Result<(), StepFailure> {
    for CommandPath { path, command } in places(commands) {
        let mut arguments = command.flags.iter().filter_map(|flag| flag.argument.as_ref());
        if let Some(argument) =
            arguments.find(|argument| argument.words.is_empty() && argument.listed_names().is_none())
        {
            let (path, name) = (path.join(" "), &argument.name);
            return Err(StepFailure(format!(
                "{path}: NAMES in definitions.rs must say what completes {name}"
            )));
        }
    }
    Ok(())
}

/// Lists all commands, parents first.
pub(super) fn places(commands: &[CommandDefinition]) -> Vec<CommandPath<'_>> {
    fn collect<'a>(path: &[&'a str], commands: &'a [CommandDefinition], places: &mut Vec<CommandPath<'a>>) {
        for command in commands {
            let path = [path, &[command.name.as_str()]].concat();
            places.push(CommandPath { path: path.clone(), command });
            collect(&path, &command.commands, places);
        }
    }
    let mut places = Vec::new();
    collect(&["haul"], commands, &mut places);
    places
}

/// Pairs each program with the command that can replace it.
pub(super) fn programs(commands: &[CommandDefinition]) -> impl Iterator<Item = (&str, &CommandDefinition)> {
    commands
        .iter()
        .flat_map(|command| command.programs.iter().map(move |program| (program.as_str(), command)))
}

/// Joins the names of commands with spaces.
pub(super) fn names(commands: &[CommandDefinition]) -> String {
    commands.iter().map(|command| command.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns the first clause, shortened to fit in a menu, at a comma if it has one.
pub(super) fn in_short(help: &str) -> &str {
    const MOST: usize = 120;
    let end = [": ", "; ", " ("].iter().filter_map(|stop| help.find(stop)).min().unwrap_or(help.len());
    if end <= MOST {
        return &help[..end];
    }
    let most = &help[..MOST];
    &most[..most.rfind(", ").or_else(|| most.rfind(' ')).unwrap_or(MOST)]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a command with an option of each kind, for the generators' tests.
    pub(crate) fn sample() -> Vec<CommandDefinition> {
        let json = r#"[{"name": "cp", "programs": ["cp", "copy"], "about": "copy", "operands": [], "commands": [], "flags": [
            {"letters": ["a"], "long": "archive", "argument": null, "help": "it's [all]: kept", "gnu": true, "cluster": false},
            {"letters": ["t"], "long": "target-directory", "help": "into -d", "gnu": true, "cluster": false,
             "argument": {"name": "DIRECTORY", "optional": false, "words": [], "list": false}},
            {"letters": [], "long": "reflink", "help": "share", "gnu": true, "cluster": false,
             "argument": {"name": "WHEN", "optional": true, "words": ["auto", "never"], "list": false}},
            {"letters": [], "long": "preserve", "help": "keep", "gnu": true, "cluster": false,
             "argument": {"name": "ATTR_LIST", "optional": true, "words": ["mode", "links"], "list": true}},
            {"letters": ["j"], "long": "jobs", "help": "workers", "gnu": false, "cluster": true,
             "argument": {"name": "N", "optional": false, "words": [], "list": false}}]},
            {"name": "ctl", "about": "control", "flags": [], "operands": [
            {"name": "FILE", "optional": false, "words": [], "list": false},
            {"name": "COMMAND", "optional": false, "words": ["status", "stop"], "list": false}]}]"#;
        serde_json::from_str(json).unwrap_or_default()
    }

    #[test]
    fn help_is_cut_at_the_first_stop() {
        assert_eq!(in_short("make holes: auto (where SOURCE has them)"), "make holes");
        assert_eq!(in_short("tell; more"), "tell");
        assert_eq!(in_short("whole"), "whole");
        assert!(in_short(&"word ".repeat(50)).len() <= 120);
        let long = format!("one{}, two, and three, which is far too long", " more".repeat(20));
        assert!(in_short(&long).ends_with("more, two"), "{long}");
        assert_eq!(sample().len(), 2);
        assert_eq!(sample()[0].flags[1].forms(), ["-t", "--target-directory"]);
    }
}
