//! haul's commands and options, as it prints them.

use serde::Deserialize;

/// A command and what may stand behind it.
#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) name: String,
    /// Programs in whose place it can stand.
    #[serde(default)]
    pub(super) programs: Vec<String>,
    pub(super) about: String,
    /// More of what it is for.
    #[serde(default)]
    pub(super) description: String,
    /// How it is called: a line for each way.
    #[serde(default)]
    pub(super) synopsis: Vec<String>,
    /// What help says behind the flags: paragraphs under headings that end in a colon.
    #[serde(default)]
    pub(super) notes: String,
    pub(super) flags: Vec<Flag>,
    pub(super) operands: Vec<Argument>,
    pub(super) commands: Vec<Command>,
}

/// An option.
#[derive(Debug, Deserialize)]
pub(super) struct Flag {
    letters: Vec<char>,
    long: String,
    pub(super) argument: Option<Argument>,
    pub(super) help: String,
    /// Whether GNU cp has it too.
    pub(super) gnu: bool,
    /// Whether it is about copying with many hosts.
    pub(super) cluster: bool,
}

/// What an option takes, or an operand.
#[derive(Debug, Deserialize)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Whether it may be left out; if not, it may be a word of its own.
    pub(super) optional: bool,
    /// The words it may be, if it is one of them.
    pub(super) words: Vec<String>,
    /// Whether it may be several of them, with commas between.
    pub(super) list: bool,
}

/// Which names may stand for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    None,
    Files,
    Directories,
}

impl Flag {
    /// Gives its short forms, such as `-a`.
    pub(super) fn short(&self) -> Vec<String> {
        self.letters.iter().map(|letter| format!("-{letter}")).collect()
    }

    /// Gives its long form, such as `--archive`.
    pub(super) fn long(&self) -> Option<String> {
        (!self.long.is_empty()).then(|| format!("--{}", self.long))
    }

    /// Gives all its forms.
    pub(super) fn forms(&self) -> Vec<String> {
        self.short().into_iter().chain(self.long()).collect()
    }

    /// Gives its argument, if it must have one.
    pub(super) fn required(&self) -> Option<&Argument> {
        self.argument.as_ref().filter(|argument| !argument.optional)
    }
}

impl Argument {
    /// Says which names may stand for it: by how help calls it.
    pub(super) fn names(&self) -> Names {
        match self.name.as_str() {
            "DIRECTORY" | "DIR" | "DESTINATION" => Names::Directories,
            "FILE" | "PATH" => Names::Files,
            _ => Names::None,
        }
    }
}

/// A command with the words that lead to it.
pub(super) struct Place<'a> {
    /// `haul`, then the commands below it.
    pub(super) path: Vec<&'a str>,
    pub(super) command: &'a Command,
}

impl Place<'_> {
    /// Makes a name for a function of a shell.
    pub(super) fn identifier(&self) -> String {
        self.path.join("_")
    }
}

impl Command {
    /// Tells whether names of files may stand behind it.
    pub(super) fn takes_files(&self) -> bool {
        let takes = |operand: &Argument| operand.words.is_empty();
        self.commands.is_empty() && (self.operands.is_empty() || self.operands.iter().any(takes))
    }

    /// Lists the words that may stand behind it.
    pub(super) fn words(&self) -> Vec<&str> {
        let of_operands = self.operands.iter().flat_map(|operand| &operand.words).map(String::as_str);
        self.commands.iter().map(|command| command.name.as_str()).chain(of_operands).collect()
    }
}

/// Lists all commands, those that lead to others before these.
pub(super) fn places(commands: &[Command]) -> Vec<Place<'_>> {
    fn collect<'a>(path: &[&'a str], commands: &'a [Command], places: &mut Vec<Place<'a>>) {
        for command in commands {
            let path = [path, &[command.name.as_str()]].concat();
            places.push(Place { path: path.clone(), command });
            collect(&path, &command.commands, places);
        }
    }
    let mut places = Vec::new();
    collect(&["haul"], commands, &mut places);
    places
}

/// Pairs each program in whose place a command can stand with the command.
pub(super) fn programs(commands: &[Command]) -> impl Iterator<Item = (&str, &Command)> {
    commands
        .iter()
        .flat_map(|command| command.programs.iter().map(move |program| (program.as_str(), command)))
}

/// Joins the names of commands.
pub(super) fn names(commands: &[Command]) -> String {
    commands.iter().map(|command| command.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Gives the first sentence, or as much of it as a menu has room for.
pub(super) fn in_short(help: &str) -> &str {
    const MOST: usize = 100;
    let end = [": ", "; ", " ("].iter().filter_map(|stop| help.find(stop)).min().unwrap_or(help.len());
    let end = if end > MOST { help[..MOST].rfind(' ').unwrap_or(MOST) } else { end };
    &help[..end]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Gives one command with an option of each kind, for the tests of the generators.
    pub(crate) fn sample() -> Vec<Command> {
        let json = r#"[{"name": "cp", "programs": ["cp", "copy"], "about": "copy", "operands": [], "commands": [], "flags": [
            {"letters": ["a"], "long": "archive", "argument": null, "help": "it's [all]: kept", "gnu": true, "cluster": false},
            {"letters": ["t"], "long": "target-directory", "help": "into -d", "gnu": true, "cluster": false,
             "argument": {"name": "DIRECTORY", "optional": false, "words": [], "list": false}},
            {"letters": [], "long": "reflink", "help": "share", "gnu": true, "cluster": false,
             "argument": {"name": "WHEN", "optional": true, "words": ["auto", "never"], "list": false}},
            {"letters": [], "long": "preserve", "help": "keep", "gnu": true, "cluster": false,
             "argument": {"name": "ATTR_LIST", "optional": true, "words": ["mode", "links"], "list": true}},
            {"letters": ["j"], "long": "jobs", "help": "workers", "gnu": false, "cluster": true,
             "argument": {"name": "N", "optional": false, "words": [], "list": false}}]}]"#;
        serde_json::from_str(json).unwrap_or_default()
    }

    #[test]
    fn help_is_cut_at_the_first_stop() {
        assert_eq!(in_short("make holes: auto (where SOURCE has them)"), "make holes");
        assert_eq!(in_short("tell; more"), "tell");
        assert_eq!(in_short("whole"), "whole");
        assert!(in_short(&"word ".repeat(50)).len() <= 100);
        assert_eq!(sample().len(), 1);
        assert_eq!(sample()[0].flags[1].forms(), ["-t", "--target-directory"]);
    }
}
