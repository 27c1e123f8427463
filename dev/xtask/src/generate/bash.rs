//! Completion for bash.
//!
//! A single function determines the current command and whether the word is an option's argument,
//! an option or an operand, and offers words. If it offers none, bash's default file name
//! completion follows, unless only the words are valid. It doesn't depend on bash-completion, and
//! handles `=` as a separate word, because bash splits the command line there.

use super::definitions::{Argument, CommandDefinition, CommandPath, FileCompletion, names, places, programs};
use super::inserted;

pub(super) fn completion(commands: &[CommandDefinition]) -> String {
    let places = places(commands);
    let of_each = |write: fn(&CommandPath<'_>) -> String| places.iter().map(write).collect::<String>();
    let top = |words: String| format!("            haul) words='{words}' ;;\n");
    let names = names(commands);
    let functions = programs(commands)
        .map(|(program, command)| format!("        {program}) command=haul_{} ;;\n", command.name));
    let parts = [
        ("programs", functions.collect()),
        ("descents", of_each(descent)),
        ("separate_arguments", of_each(separate_arguments)),
        ("arguments", of_each(arguments)),
        ("options", top(format!("{names} --help --version")) + &of_each(options)),
        ("operands", top(names) + &of_each(operands)),
        ("stand_ins", programs(commands).map(|(program, _)| stands_in(program)).collect()),
    ];
    inserted(include_str!("templates/haul.bash.in"), parts)
}

/// Registers completion for a program, if that program is haul.
fn stands_in(program: &str) -> String {
    format!(
        "[[ $(type -P {program}) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul {program}\n"
    )
}

/// Generates the transition from a command to a subcommand.
fn descent(place: &CommandPath<'_>) -> String {
    let (last, before) =
        place.path.split_last().map_or(("", String::new()), |(last, before)| (*last, before.join("_")));
    format!("            {before}/{last}) command={} ;;\n", place.identifier())
}

/// Generates the options whose argument may be the next word.
fn separate_arguments(place: &CommandPath<'_>) -> String {
    let command = place.identifier();
    let required = || place.command.flags.iter().filter(|flag| flag.required().is_some());
    let long: Vec<_> =
        required().filter_map(|flag| flag.long()).map(|long| format!("{command}:{long}")).collect();
    let letters: String =
        required().flat_map(|flag| flag.short()).map(|short| short.replace('-', "")).collect();
    let mut text = String::new();
    if !long.is_empty() {
        text += &format!("            {}) option=$prev ;;\n", long.join(" | "));
    }
    if !letters.is_empty() {
        // The last letter of a group of short options.
        text += &format!(
            "            {command}:-[{letters}] | {command}:-[!-]*[{letters}]) option=-${{prev: -1}} ;;\n"
        );
    }
    text
}

fn arguments(place: &CommandPath<'_>) -> String {
    let arm = |flag: &super::definitions::FlagDefinition| {
        let does = flag.argument.as_ref().map(offer).filter(|does| !does.is_empty())?;
        let forms: Vec<_> =
            flag.forms().iter().map(|form| format!("{}:{form}", place.identifier())).collect();
        Some(format!("            {}) {does} ;;\n", forms.join(" | ")))
    };
    place.command.flags.iter().filter_map(arm).collect()
}

/// Returns the assignment that offers values for an argument.
fn offer(argument: &Argument) -> String {
    let words = argument.words.join(" ");
    match (argument.names(), words.is_empty(), argument.list) {
        (_, false, true) => format!("list='{words}'"),
        (_, false, false) => format!("words='{words}'"),
        (FileCompletion::Files, ..) => "names=files".to_owned(),
        (FileCompletion::Directories, ..) => "names=directories".to_owned(),
        (FileCompletion::Programs, ..) => "names=programs".to_owned(),
        (FileCompletion::None, ..) => String::new(),
    }
}

fn options(place: &CommandPath<'_>) -> String {
    let words: Vec<String> = place
        .command
        .flags
        .iter()
        .flat_map(|flag| {
            let long = flag.long().into_iter().flat_map(|long| match &flag.argument {
                None => vec![long],
                Some(argument) if argument.optional => vec![long.clone(), long + "="],
                Some(_) => vec![long + "="],
            });
            flag.short().into_iter().chain(long).collect::<Vec<_>>()
        })
        .collect();
    format!("            {}) words='{}' ;;\n", place.identifier(), words.join(" "))
}

fn operands(place: &CommandPath<'_>) -> String {
    if let Some(words) = place.command.second_words() {
        let first = place.path.len() - 1;
        let arms = format!("{first}) names=files ;; {}) words='{words}' ;;", first + 1);
        return format!("            {}) case $position in {arms} esac ;;\n", place.identifier());
    }
    let words = place.command.words();
    let words = if words.is_empty() { String::new() } else { format!("words='{}' ", words.join(" ")) };
    let files = if place.command.takes_files() { "names=files " } else { "" };
    format!("            {}) {words}{files};;\n", place.identifier())
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tests::sample;
    use super::*;

    #[test]
    fn each_kind_of_option_has_its_arms() {
        let text = completion(&sample());
        for line in [
            "copy) command=haul_cp ;;",
            "[[ $(type -P copy) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul copy",
            "haul/cp) command=haul_cp ;;",
            "haul_cp:--target-directory | haul_cp:--jobs) option=$prev ;;",
            "haul_cp:-[tj] | haul_cp:-[!-]*[tj]) option=-${prev: -1} ;;",
            "haul_cp:-t | haul_cp:--target-directory) names=directories ;;",
            "haul_cp:--reflink) words='auto never' ;;",
            "haul_cp:--preserve) list='mode links' ;;",
            "haul_cp) words='-a --archive -t --target-directory= --reflink --reflink= --preserve --preserve= -j --jobs=' ;;",
            "haul_cp) names=files ;;",
            "haul_ctl) case $position in 1) names=files ;; 2) words='status stop' ;; esac ;;",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line}\n{text}");
        }
    }
}
