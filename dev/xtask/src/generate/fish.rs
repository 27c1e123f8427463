//! Completion for fish, with `complete`.

use super::definitions::{
    Argument, CommandDefinition, CommandPath, FileCompletion, FlagDefinition, in_short, places,
};

const HEAD: &str = "# Completion of haul for fish, and of the programs it replaces.
# Generated from the options' definitions: cargo xtask gen.

# True if the words after the program's name begin with these.
function __haul_within
    set -l words (commandline -opc)[2..]
    test \"$words[1..$(count $argv)]\" = \"$argv\"
end

# True if these are the words after the program's name, ignoring options.
function __haul_exactly
    set -l words (string match -v -- '-*' (commandline -opc)[2..])
    test \"$words\" = \"$argv\"
end

# True if one word follows these, ignoring options.
function __haul_after
    set -l words (string match -v -- '-*' (commandline -opc)[2..])
    test (count $words) -gt (count $argv); and test \"$words[1..-2]\" = \"$argv\"
end

";

pub(super) fn completion(commands: &[CommandDefinition]) -> String {
    let mut text = HEAD.to_owned();
    text += &choices("", commands);
    text += "complete -c haul -n __haul_exactly -l help -d 'show the commands'\n";
    text += "complete -c haul -n __haul_exactly -l version -d 'show the version'\n";
    for place in places(commands) {
        text += &match place.path[1..] {
            [name] if !place.command.programs.is_empty() => {
                let flags: String =
                    place.command.flags.iter().map(|flag| option(flag, "-c $argv[1] -n $argv[2]")).collect();
                let indented: String = flags.lines().map(|line| format!("    {line}\n")).collect();
                let programs = place.command.programs.join(" ");
                format!(
                    "
# Offers the options of {name} to a command, under a condition.
function __haul_complete_{name}
{indented}end
__haul_complete_{name} haul '__haul_within {name}'
for name in {programs}
    if set -l program (command -s $name); and set -l haul (command -s haul); and test (realpath $program) = (realpath $haul)
        __haul_complete_{name} $name true
    end
end

"
                )
            }
            _ => below(&place),
        };
    }
    text
}

/// Generates completions for the commands that may follow some words.
fn choices(words: &str, commands: &[CommandDefinition]) -> String {
    let condition =
        if words.is_empty() { "__haul_exactly".to_owned() } else { format!("'__haul_exactly {words}'") };
    let line = |command: &CommandDefinition| {
        format!("complete -c haul -n {condition} -f -a {} -d '{}'\n", command.name, quoted(&command.about))
    };
    commands.iter().map(line).collect()
}

/// Generates completions for a command other than those that replace programs, such
/// as `haul bench`.
fn below(place: &CommandPath<'_>) -> String {
    let words = place.path[1..].join(" ");
    let mut text = choices(&words, &place.command.commands);
    let to = format!("-c haul -n '__haul_within {words}'");
    text.extend(
        place
            .command
            .flags
            .iter()
            .filter(|_| place.command.commands.is_empty())
            .map(|flag| option(flag, &to)),
    );
    if let Some(operands) = place.command.second_words() {
        text += &format!("complete -c haul -n '__haul_after {words}' -f -a '{operands}'\n");
        return text;
    }
    let operands = place.command.operands.iter().flat_map(|operand| &operand.words);
    let operands = operands.map(String::as_str).collect::<Vec<_>>().join(" ");
    if !operands.is_empty() {
        text += &format!("complete -c haul -n '__haul_exactly {words}' -f -a '{operands}'\n");
    }
    text
}

fn option(flag: &FlagDefinition, to: &str) -> String {
    let shorts: String = flag.short().iter().map(|short| format!(" -s {}", short.replace('-', ""))).collect();
    let long = flag.long().map(|long| format!(" -l {}", long.replacen("--", "", 1))).unwrap_or_default();
    let argument = flag.argument.as_ref().map(argument).unwrap_or_default();
    format!("complete {to}{shorts}{long}{argument} -d '{}'\n", quoted(in_short(&flag.help)))
}

/// Returns the options of `complete` for an argument.
fn argument(argument: &Argument) -> String {
    let words = argument.words.join(" ");
    let how = if argument.optional { "-f" } else { "-x" };
    match (argument.names(), words.is_empty(), argument.list) {
        (_, false, true) => format!(" {how} -a '(__fish_append , {words})'"),
        (_, false, false) => format!(" {how} -a '{words}'"),
        (FileCompletion::Files, ..) => " -r".to_owned(),
        (FileCompletion::Directories, ..) => " -x -a '(__fish_complete_directories)'".to_owned(),
        // __fish_complete_command would run command substitutions that are on the line.
        (FileCompletion::Programs, ..) => " -x -a '(string replace -r \".*/\" \"\" -- $PATH/*)'".to_owned(),
        (FileCompletion::None, ..) => format!(" {how}"),
    }
}

/// Escapes text inside single quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', r"\\").replace('\'', r"\'")
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tests::sample;
    use super::*;

    #[test]
    fn each_kind_of_option_has_its_line() {
        let text = completion(&sample());
        for line in [
            r"complete -c $argv[1] -n $argv[2] -s a -l archive -d 'it\'s [all]'",
            "complete -c $argv[1] -n $argv[2] -s t -l target-directory -x -a '(__fish_complete_directories)' -d 'into -d'",
            "complete -c $argv[1] -n $argv[2] -l reflink -f -a 'auto never' -d 'share'",
            "complete -c $argv[1] -n $argv[2] -l preserve -f -a '(__fish_append , mode links)' -d 'keep'",
            "complete -c haul -n __haul_exactly -f -a cp -d 'copy'",
            "complete -c haul -n '__haul_after ctl' -f -a 'status stop'",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line}\n{text}");
        }
    }
}
