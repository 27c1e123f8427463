//! Manual pages: hand-written prose combined with generated options.

use super::definitions::{Argument, Command, Flag};

/// Date of the last substantial change to the pages.
const DATE: &str = "2026-11-22";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const COPY_SYNOPSIS: &str = r".SY haul\~cp
.RI [ OPTION ]\|.\|.\|.\&
.RB [ \-T ]
.I SOURCE
.I DEST
.YS
.SY haul\~cp
.RI [ OPTION ]\|.\|.\|.\&
.IR SOURCE \|.\|.\|.\&
.I DIRECTORY
.YS
.SY haul\~cp
.RI [ OPTION ]\|.\|.\|.\&
.B \-t
.I DIRECTORY
.IR SOURCE \|.\|.\|.\&
.YS
";

const COPY_DESCRIPTION: &str = r"Copies
.I SOURCE
to
.IR DEST ,
or each
.I SOURCE
into
.IR DIRECTORY .
Options, messages and exit status are those of GNU
.BR cp (1);
many files are copied at once.
.PP
The program
.B haul
called by the name
.B cp
does the same, and its messages begin with that name.
.PP
Long options may be abbreviated.
GNU's names take precedence:
haul's own options never change what an abbreviation means.
Arguments required by a long option are also required by its short form.
";

const COPY_OWN: &str = r"GNU
.BR cp (1)
does not have these.
They change how fast haul copies and what it reports, never what it copies.
";

const COPY_CLUSTER: &str = r"With
.B \-\-clients
the ranks of an MPI job do the copying.
The process that you start walks the tree, creates the directories, hands out the files, and waits for the ranks.
haul needs no MPI to build, or to copy without these options:
it looks for the library when the job starts.
";

const COPY_STATUS: &str = r".TP
.B 0
Everything was copied, or was skipped as requested.
.TP
.B 1
Something was not copied; standard error says what.
Everything else was copied.
.TP
.B 130
The copy was interrupted.
";

const COPY_ENVIRONMENT: &str = r".TP
.B VERSION_CONTROL
The backup method if
.B \-\-backup
has no argument:
.BR none ,
.BR numbered ,
.B existing
or
.BR simple .
.TP
.B SIMPLE_BACKUP_SUFFIX
The suffix of simple backups, instead of ~.
.TP
.B POSIXLY_CORRECT
The first operand ends the options, and files are written through dangling symbolic links.
.TP
\fBLC_ALL\fR, \fBLC_CTYPE\fR, \fBLANG\fR
The character set of names in messages.
";

const COPY_EXAMPLES: &str = r".TP
.B haul cp \-a source target
Copies a tree with owners, modes, times, links, extended attributes and access lists.
.TP
.B haul cp \-au \-\-progress source/. backup
Updates a backup, and shows progress.
.TP
.B haul cp \-\-parents \-t /mnt etc/hosts etc/fstab
Copies two files to
.IR /mnt/etc .
.TP
.B haul cp \-r \-\-stats=json source target
Prints counts, bytes, times and memory as one line of JSON at the end.
.TP
.B haul cp \-r \-\-engine=io\-uring \-\-ops=multi \-\-direct source target
Bypasses the page cache, with several blocks of a file in flight.
";

const COPY_DIFFERENCES: &str = r"Files are copied in any order, so the lines of
.B \-v
and messages come in any order, but each as a whole.
Options that prompt or depend on an order
.RB ( \-i
for one) behave as if files were copied one after the other.
.PP
While a new file is being copied, its mode is never more permissive than in the end.
Below the names on the command line, no path is looked up twice:
swapping a directory for a symbolic link during the copy does not redirect it.
.PP
The output of
.B \-\-help
and
.B \-\-version
is haul's own, and
.B \-\-debug
prints more.
";

const SPDCP_SYNOPSIS: &str = r".SY spdcp
.RI [ options ]
.I SRC
.I DEST
.YS
.SY spdcp
.RI [ options ]
.IR SRC \|.\|.\|.\&
.I DIRECTORY
.YS
";

const SPDCP_DESCRIPTION: &str = r"Copies like
.BR haul\-cp (1),
with the options of
.BR spdcp ,
a parallel copy program for Lustre file systems.
It is
.B haul
called by the name
.BR spdcp ,
or
.BR haul\~spdcp .
.PP
Copies
.I SRC
to
.IR DEST ,
or each
.I SRC
into
.IR DIRECTORY .
New files are striped over storage targets like their sources, where the file system can.
.PP
With
.B \-s
clients on many hosts copy together, by MPI.
In a batch job, all its tasks are clients.
If only a batch system can provide hosts,
.B spdcp
submits a job and follows it to its end.
.PP
Letters may be bundled, and options may stand after names;
.B \-\-
ends them.
";

const SPDCP_ENVIRONMENT: &str = r".TP
.B HAUL_AGENT
The program that is started on the hosts, instead of this one.
.TP
.B POSIXLY_CORRECT
The first name ends the options.
.TP
\fBLC_ALL\fR, \fBLC_CTYPE\fR, \fBLANG\fR
The character set of names in messages.
";

const SPDCP_EXAMPLES: &str = r".TP
.B spdcp \-s 16 \-r /source/directory/ /target/directory/
Copies a tree with 16 clients.
.TP
.B spdcp \-s 64 \-rp \-A project \-q batch \-w 3600 run /archive
The same in a batch job of at most an hour, preserving attributes.
.TP
.B spdcp \-dr run /archive
Lists the names that a copy would create.
";

const TOP_DESCRIPTION: &str = r"Copies file trees as fast as the hardware allows, and never lies about the result.
The first word selects the command.
Called by the name
.B cp
it is
.BR haul\-cp (1),
called by the name
.B spdcp
it is
.BR spdcp (1).
";

const TOP_STATUS: &str = r"The exit status of the command;
.B 1
if there is no such command.
";

const BENCH_DESCRIPTION: &str = r"Makes trees to copy, races haul and other copiers over them, and measures the engines alone.
A run counts only if its copy was read back and found right.
What is mounted, attached or written for it is taken away at the end, also at an error and when it is interrupted.
.PP
.B haul bench
runs the program
.BR haul\-bench ,
which is built and installed apart from haul and looked for beside it, then on
.BR PATH .
";

const BENCH_STATUS: &str = r".TP
.B 0
All is well.
.TP
.B 1
It is not, or haul, as one of those that are compared, copied wrong.
.TP
.B 130
It was interrupted.
";

/// Generates the page for `haul`.
pub(super) fn haul(commands: &[Command]) -> String {
    let described: String = commands
        .iter()
        .map(|command| format!(".TP\n.B {}\n{}.\n", escaped(&command.name), sentence(&command.about)))
        .collect();
    let parts = [
        head("haul", "copy file trees, many files at once"),
        ".SY haul\n.I COMMAND\n.RI [ ARGUMENT ]\\|.\\|.\\|.\\&\n.YS\n.SY haul\n.B \\-\\-help\n|\n.B \\-\\-version\n.YS\n".to_owned(),
        section("DESCRIPTION", TOP_DESCRIPTION),
        section("COMMANDS", &described),
        section("EXIT STATUS", TOP_STATUS),
        section("SEE ALSO", ".BR haul\\-cp (1),\n.BR spdcp (1),\n.BR haul\\-bench (1),\n.BR cp (1)\n"),
    ];
    filled(&parts.concat())
}

/// Generates the page for `haul cp`.
pub(super) fn cp(commands: &[Command]) -> String {
    let flags = || commands.iter().filter(|command| command.name == "cp").flat_map(|command| &command.flags);
    let options =
        |wanted: fn(&Flag) -> bool| flags().filter(|flag| wanted(flag)).map(option).collect::<String>();
    let parts = [
        head("haul-cp", "copy files and directories, many at once"),
        COPY_SYNOPSIS.to_owned(),
        section("DESCRIPTION", COPY_DESCRIPTION),
        section("OPTIONS", &options(|flag| flag.gnu)),
        format!(".SS Options of haul\n{COPY_OWN}{}", options(|flag| !flag.gnu && !flag.cluster)),
        format!(".SS Running on many hosts, by MPI\n{COPY_CLUSTER}{}", options(|flag| flag.cluster)),
        section("EXIT STATUS", COPY_STATUS),
        section("ENVIRONMENT", COPY_ENVIRONMENT),
        section("EXAMPLES", COPY_EXAMPLES),
        section("DIFFERENCES FROM GNU CP", COPY_DIFFERENCES),
        section("SEE ALSO", ".BR cp (1),\n.BR haul (1),\n.BR spdcp (1),\n.BR haul\\-bench (1)\n"),
    ];
    filled(&parts.concat())
}

/// Generates the page for `spdcp`.
pub(super) fn spdcp(commands: &[Command]) -> String {
    let flags = commands.iter().filter(|command| command.name == "spdcp").flat_map(|command| &command.flags);
    let parts = [
        head("spdcp", "copy files and directories with many hosts"),
        SPDCP_SYNOPSIS.to_owned(),
        section("DESCRIPTION", SPDCP_DESCRIPTION),
        section("OPTIONS", &flags.map(option).collect::<String>()),
        section("EXIT STATUS", COPY_STATUS),
        section("ENVIRONMENT", SPDCP_ENVIRONMENT),
        section("EXAMPLES", SPDCP_EXAMPLES),
        section("SEE ALSO", ".BR haul\\-cp (1),\n.BR haul (1)\n"),
    ];
    filled(&parts.concat())
}

/// Generates the page for `haul bench`.
pub(super) fn bench(commands: &[Command]) -> String {
    let below =
        || commands.iter().filter(|command| command.name == "bench").flat_map(|command| &command.commands);
    let synopsis: String = below().map(bench_synopsis).collect();
    let parts: String = below()
        .map(|command| {
            let operands: String =
                command.operands.iter().filter(|operand| !operand.words.is_empty()).map(operand).collect();
            let options: String = command.flags.iter().map(option).collect();
            format!(
                ".SS haul bench {}\n{}.\n{operands}{options}",
                escaped(&command.name),
                sentence(&command.about)
            )
        })
        .collect();
    let parts = [
        head("haul-bench", "create test trees and benchmark copy programs"),
        synopsis,
        section("DESCRIPTION", BENCH_DESCRIPTION),
        section("COMMANDS", &parts),
        section("EXIT STATUS", BENCH_STATUS),
        section("SEE ALSO", ".BR haul (1),\n.BR haul\\-cp (1)\n"),
    ];
    filled(&parts.concat())
}

/// Generates a tool's page entirely from its definition.
pub(super) fn tool(command: &Command) -> String {
    let options = |wanted: fn(&Flag) -> bool| {
        command.flags.iter().filter(|flag| wanted(flag)).map(option).collect::<String>()
    };
    let synopsis: String = command
        .synopsis
        .iter()
        .map(|way| format!(".SY haul\\~{}\n{}\n.YS\n", escaped(&command.name), escaped(way)))
        .collect();
    let parts = [
        head(&format!("haul-{}", command.name), &command.about),
        synopsis,
        section("DESCRIPTION", &paragraphs(&command.description)),
        section("OPTIONS", &options(|flag| flag.gnu)),
        format!(".SS Options of haul\n{}", options(|flag| !flag.gnu && !flag.cluster)),
        format!(".SS Running on many hosts, by MPI\n{}", options(|flag| flag.cluster)),
        notes(&command.notes),
        section("SEE ALSO", ".BR haul (1),\n.BR haul\\-cp (1)\n"),
    ];
    filled(&parts.concat())
}

/// Formats text with paragraphs separated by empty lines.
fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| sentence_line(&paragraph.replace('\n', " ")));
    paragraphs.collect::<Vec<_>>().join(".PP\n")
}

/// Formats a line so that it can't be taken for a roff request.
fn sentence_line(text: &str) -> String {
    let text = escaped(text.trim());
    let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{text}\n")
}

/// Formats text under headings. A heading is an unindented line that ends with a colon. Indented
/// lines are not filled.
fn notes(notes: &str) -> String {
    let mut text = String::new();
    // Indentation of the previous line; `None` after a heading.
    let mut before = None;
    for line in notes.lines().filter(|line| !line.trim().is_empty()) {
        let indented = line.starts_with(' ');
        if let (Some(heading), false) = (line.strip_suffix(':'), indented) {
            text += &format!(".SH {}\n", escaped(&heading.to_uppercase()));
            before = None;
            continue;
        }
        if before.is_some_and(|before| before || indented) {
            text += ".br\n";
        }
        text += &sentence_line(line);
        before = Some(indented);
    }
    text
}

/// Wraps text lines to keep the page's source narrow. The reader's program fills them again.
fn filled(page: &str) -> String {
    const WIDTH: usize = 78;
    let mut text = String::new();
    for line in page.lines() {
        let mut used = 0;
        for (index, word) in line.split(' ').enumerate() {
            if index > 0 && used + 1 + word.len() > WIDTH && !line.starts_with('.') {
                text.push('\n');
                used = 0;
                // Not a request, although it starts a line.
                text.push_str(if word.starts_with('.') { "\\&" } else { "" });
            } else if index > 0 {
                text.push(' ');
                used += 1;
            }
            text.push_str(word);
            used += word.len();
        }
        text.push('\n');
    }
    text
}

fn bench_synopsis(command: &Command) -> String {
    let operands: String =
        command.operands.iter().map(|operand| format!(".I {}\n", escaped(&operand.name))).collect();
    format!(".SY haul\\~bench\\~{}\n.RI [ OPTION ]\\|.\\|.\\|.\\&\n{operands}.YS\n", escaped(&command.name))
}

fn head(name: &str, about: &str) -> String {
    let upper = escaped(&name.to_uppercase());
    format!(
        ".\\\" Generated from the options' definitions: cargo xtask gen.
.TH {upper} 1 {DATE} \"haul {VERSION}\" \"User Commands\"
.SH NAME
{} \\- {about}
.SH SYNOPSIS
",
        escaped(name)
    )
}

fn section(title: &str, text: &str) -> String {
    format!(".SH {title}\n{text}")
}

/// Formats an option as a list entry.
fn option(flag: &Flag) -> String {
    // The argument stands with the last name.
    let mut forms: Vec<String> = flag.forms().iter().map(|form| bold(form)).collect();
    if let (Some(argument), Some(last)) = (&flag.argument, forms.last_mut()) {
        let name = escaped(&argument.name);
        *last += &match (flag.long().is_some(), argument.optional) {
            (true, true) => format!("[=\\fI{name}\\fR]"),
            (true, false) => format!("=\\fI{name}\\fR"),
            (false, _) => format!(" \\fI{name}\\fR"),
        };
    }
    format!(".TP\n{}\n{}.\n", forms.join(", "), sentence(&flag.help))
}

/// Formats an operand with fixed values as a list entry.
fn operand(operand: &Argument) -> String {
    format!(".TP\n.I {}\nOne of {}.\n", escaped(&operand.name), escaped(&operand.words.join(", ")))
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

/// Formats a help text as a sentence without the full stop, so that it can't be taken for
/// a roff request.
fn sentence(help: &str) -> String {
    let mut letters = help.trim_end_matches('.').chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let text = escaped(&(first + letters.as_str()));
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Escapes text so that roff prints it literally.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\e")
        .replace('-', r"\-")
        .replace('\'', r"\(aq")
        .replace('~', r"\(ti")
        .replace('^', r"\(ha")
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tests::sample;
    use super::*;

    #[test]
    fn a_tool_has_a_page_from_its_definition() {
        let mut commands = sample();
        commands[0].synopsis = vec!["[OPTION]... FILE".to_owned()];
        commands[0].description = "One.\n\n.Two\nlines.".to_owned();
        commands[0].notes = "Exit status:\n  0 if all is well\n  1 if not\n\nMore:\nText.".to_owned();
        let text = tool(&commands[0]);
        for part in [
            ".SY haul\\~cp\n[OPTION]... FILE\n.YS\n",
            ".SH DESCRIPTION\nOne.\n.PP\n\\&.Two lines.\n",
            ".SH EXIT STATUS\n0 if all is well\n.br\n1 if not\n.SH MORE\nText.\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn each_kind_of_option_has_its_entry() {
        let text = cp(&sample());
        for entry in [
            ".TP\n\\fB\\-a\\fR, \\fB\\-\\-archive\\fR\nIt\\(aqs [all]: kept.\n",
            ".TP\n\\fB\\-t\\fR, \\fB\\-\\-target\\-directory\\fR=\\fIDIRECTORY\\fR\nInto \\-d.\n",
            ".TP\n\\fB\\-\\-reflink\\fR[=\\fIWHEN\\fR]\nShare.\n",
            ".SS Options of haul\n",
        ] {
            assert!(text.contains(entry), "{entry}\n{text}");
        }
        assert_eq!(sentence(".x"), "\\&.x");
    }
}
