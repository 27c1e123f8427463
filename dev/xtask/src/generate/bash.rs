//! Completion for bash.
//!
//! A single function determines the current command and whether the word is an option's argument,
//! an option or an operand, and offers words. If it offers none, bash's default file name
//! completion follows, unless only the words are valid. It doesn't depend on bash-completion, and
//! handles `=` as a separate word, because bash splits the command line there.

use super::definitions::{Argument, Command, Names, Place, names, places, programs};

const HEAD: &str = r#"# Completion of haul for bash, and of the programs in whose place it stands.
# Generated from the options' definitions: cargo xtask gen.

_haul() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=haul option= lead= words= list= names= ended= word
    local IFS=$' \t\n'
    COMPREPLY=()
    case ${COMP_WORDS[0]##*/} in
"#;

const WORDS: &str = r#"    esac
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -- ]] && ended=yes
        case $command/$word in
"#;

const OPTION: &str = r#"        esac
    done

    # Which option's argument the word is, if it is one.
    if [[ $ended ]]; then
        :
    elif [[ $cur == --*=* ]]; then
        option=${cur%%=*} lead=${cur%%=*}= cur=${cur#*=}
    elif [[ $cur == = ]]; then
        option=$prev cur=
    elif [[ $prev == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    else
        case $command:$prev in
"#;

const ARGUMENTS: &str = r#"        esac
    fi

    if [[ $option ]]; then
        case $command:$option in
"#;

const OPTIONS: &str = r#"        esac
    elif [[ $cur == -* && ! $ended ]]; then
        names=files
        case $command in
"#;

const OPERANDS: &str = r#"        esac
    else
        case $command in
"#;

const TAIL: &str = r#"        esac
    fi

    if [[ $list ]]; then
        local begun=
        [[ $cur == *,* ]] && begun=${cur%,*},
        for word in $list; do
            [[ ,$begun == *,$word,* ]] || words+=" $begun$word"
        done
        compopt -o nospace
    fi
    COMPREPLY=($(compgen -P "$lead" -W "$words" -- "$cur"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == --*= ]] && compopt -o nospace
    case $names in
        files) ;;
        directories) compopt +o default +o bashdefault -o dirnames ;;
        *) compopt +o default +o bashdefault ;;
    esac
}

complete -o bashdefault -o default -F _haul haul
"#;

/// Generates the completion script.
pub(super) fn completion(commands: &[Command]) -> String {
    let places = places(commands);
    let of_each = |write: fn(&Place<'_>) -> String| places.iter().map(write).collect::<String>();
    let arm = |pattern: &str, does: &str| format!("            {pattern}) {does} ;;\n");
    let top = format!("words='{} --help --version'", names(commands));
    [
        HEAD,
        &programs(commands)
            .map(|(program, command)| format!("        {program}) command=haul_{} ;;\n", command.name))
            .collect::<String>(),
        WORDS,
        &of_each(descent),
        OPTION,
        &of_each(separate_arguments),
        ARGUMENTS,
        &of_each(arguments),
        OPTIONS,
        &arm("haul", &top),
        &of_each(options),
        OPERANDS,
        &arm("haul", &format!("words='{}'", names(commands))),
        &of_each(operands),
        TAIL,
        &programs(commands).map(|(program, _)| stands_in(program)).collect::<String>(),
        ":\n",
    ]
    .concat()
}

/// Registers completion for a program, if that program is haul.
fn stands_in(program: &str) -> String {
    format!(
        "[[ $(type -P {program}) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul {program}\n"
    )
}

/// Generates the transition from a command to a subcommand.
fn descent(place: &Place<'_>) -> String {
    let (last, before) =
        place.path.split_last().map_or(("", String::new()), |(last, before)| (*last, before.join("_")));
    format!("            {before}/{last}) command={} ;;\n", place.identifier())
}

/// Generates the options whose argument may be the next word.
fn separate_arguments(place: &Place<'_>) -> String {
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

fn arguments(place: &Place<'_>) -> String {
    let arm = |flag: &super::definitions::Flag| {
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
        (Names::Files, ..) => "names=files".to_owned(),
        (Names::Directories, ..) => "names=directories".to_owned(),
        (Names::None, ..) => String::new(),
    }
}

fn options(place: &Place<'_>) -> String {
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

fn operands(place: &Place<'_>) -> String {
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
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line}\n{text}");
        }
    }
}
