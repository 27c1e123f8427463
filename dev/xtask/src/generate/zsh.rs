//! Completion for zsh, with `_arguments`.

use super::definitions::{
    Argument, CommandDefinition, CommandPath, FileCompletion, FlagDefinition, in_short, places, programs,
};

const HEAD: &str = "#compdef haul
# Completion of haul for zsh, and of the programs in whose place it stands.
# Generated from the options' definitions: cargo xtask gen.

_haul() {
    case $service in
";

const WORDS: &str = "    esac
    local curcontext=$curcontext state state_descr line ret=1
    typeset -A opt_args
    _arguments -C \\
        '(- *)--help[show the commands]' \\
        '(- *)--version[show the version]' \\
        '1: :->command' \\
        '*:: :->rest' && ret=0
";

const TAIL: &str = "if [[ $funcstack[1] == _haul ]]; then
    _haul \"$@\"
else
    compdef _haul haul
fi
";

pub(super) fn completion(commands: &[CommandDefinition]) -> String {
    let functions: String = places(commands).iter().map(function).collect();
    let services: String = programs(commands)
        .map(|(program, command)| format!("        {program}) _haul_{}; return ;;\n", command.name))
        .collect();
    let programs: String = programs(commands).map(|(program, _)| stands_in(program)).collect();
    format!("{HEAD}{services}{WORDS}{}}}\n{functions}\n{programs}{TAIL}", branches("haul", commands))
}

/// Registers completion for a program, if that program is haul.
fn stands_in(program: &str) -> String {
    format!(
        "if [[ -n ${{commands[haul]}} && ${{commands[{program}]:A}} == ${{commands[haul]:A}} ]]; then
    compdef _haul {program}
fi
"
    )
}

/// Generates the completion of subcommands.
fn branches(identifier: &str, commands: &[CommandDefinition]) -> String {
    let described: String =
        commands.iter().map(|command| format!(" '{}:{}'", command.name, quoted(&command.about))).collect();
    let arms: String = commands
        .iter()
        .map(|command| format!("                {0}) _{identifier}_{0} && ret=0 ;;\n", command.name))
        .collect();
    format!(
        "    case $state in
        command)
            local -a choices=({})
            _describe -t commands command choices && ret=0
            ;;
        rest)
            case $words[1] in
{arms}            esac
            ;;
    esac
    return ret
",
        described.trim_start()
    )
}

fn function(place: &CommandPath<'_>) -> String {
    let identifier = place.identifier();
    let command = place.command;
    let flags = command.flags.iter().flat_map(specifications);
    let files =
        (command.takes_files() && command.second_words().is_none()).then(|| "'*:file:_files'".to_owned());
    let rest: Vec<String> = match command.commands.is_empty() {
        true => command.operands.iter().map(operand).chain(files).collect(),
        false => vec!["'1: :->command'".to_owned(), "'*:: :->rest'".to_owned()],
    };
    let specifications = flags.chain(rest).collect::<Vec<_>>().join(" \\\n        ");
    if command.commands.is_empty() {
        return format!("\n_{identifier}() {{\n    _arguments -s -S : \\\n        {specifications}\n}}\n");
    }
    format!(
        "\n_{identifier}() {{
    local curcontext=$curcontext state state_descr line ret=1
    typeset -A opt_args
    _arguments -C -s -S \\\n        {specifications} && ret=0
{}}}
",
        branches(&identifier, &command.commands)
    )
}

/// Generates an option's specifications: one for all its forms, or one for each if they take
/// arguments differently.
fn specifications(flag: &FlagDefinition) -> Vec<String> {
    let help = format!("[{}]", bracketed(in_short(&flag.help)));
    let shorts = flag.short();
    let one = |forms: &[String], argument: &str| match forms {
        [form] => format!("'*{form}{help}{argument}'"),
        forms => format!("'*'{{{}}}'{help}{argument}'", forms.join(",")),
    };
    match &flag.argument {
        None => vec![one(&flag.forms(), "")],
        Some(argument) if argument.optional => {
            let short = (!shorts.is_empty()).then(|| one(&shorts, ""));
            let long = flag.long().map(|long| one(&[long + "=-"], &format!(":{}", action(argument))));
            short.into_iter().chain(long).collect()
        }
        Some(argument) => {
            let forms =
                shorts.iter().map(|short| format!("{short}+")).chain(flag.long().map(|long| long + "="));
            vec![one(&forms.collect::<Vec<_>>(), &action(argument))]
        }
    }
}

fn operand(operand: &Argument) -> String {
    format!("'{}'", action(operand))
}

/// Returns the action that completes an argument.
fn action(argument: &Argument) -> String {
    let words = argument.words.join(" ");
    // A colon would end the message.
    let name = argument.name.split(',').next().unwrap_or_default().replace(':', r"\:");
    match (argument.names(), words.is_empty(), argument.list) {
        (_, false, true) => format!(":{name}:_values -s , {name} {words}"),
        (_, false, false) => format!(":{name}:({words})"),
        (FileCompletion::Files, ..) => format!(":{name}:_files"),
        (FileCompletion::Directories, ..) => format!(":{name}:_files -/"),
        // After a space, zsh puts no arguments before -e, where it would have no effect.
        (FileCompletion::Programs, ..) => format!(":{name}: _command_names -e"),
        (FileCompletion::None, ..) => format!(":{name}: "),
    }
}

/// Escapes text inside single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', r"'\''")
}

/// Escapes text inside brackets and single quotes.
fn bracketed(text: &str) -> String {
    quoted(&text.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]"))
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tests::sample;
    use super::*;

    #[test]
    fn each_kind_of_option_has_its_specification() {
        let text = completion(&sample());
        for line in [
            r"'*'{-a,--archive}'[it'\''s \[all\]]' \",
            r"'*'{-t+,--target-directory=}'[into -d]:DIRECTORY:_files -/' \",
            r"'*--reflink=-[share]::WHEN:(auto never)' \",
            r"'*--preserve=-[keep]::ATTR_LIST:_values -s , ATTR_LIST mode links' \",
            r"'*'{-j+,--jobs=}'[workers]:N: ' \",
            "cp) _haul_cp && ret=0 ;;",
            "copy) _haul_cp; return ;;",
            r"':FILE:_files' \",
            "':COMMAND:(status stop)'",
            "compdef _haul copy",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line}\n{text}");
        }
    }
}
