//! All text that users read about a copy: problems, `--verbose` lines, usage errors.
//!
//! Sentences are GNU's where GNU has one. The library reports kinds; the modules here have a
//! sentence with placeholders for each kind, one module per applet. This module fills in quoted
//! names, and adds the program's name and the system's reason.
//!
//! A message is one line (a list of valid values follows on lines of its own), and no name in it
//! can break the line or move the cursor.
//!
//! Invariant: a name fills one placeholder, whatever it contains
//! (test: `a_name_with_a_hole_in_it_is_left_alone`).

/// Defines a function that returns the sentence for each kind of a crate: a `match` that misses
/// none. The placeholders are those of [`Messages::fill`].
macro_rules! sentences {
    ($name:ident($kinds:ident): $($($kind:ident)|+ => $sentence:literal,)+) => {
        pub(crate) fn $name(kind: $kinds) -> &'static str {
            match kind {
                $($($kinds::$kind)|+ => $sentence,)+
            }
        }
    };
}

pub(crate) mod bzip2;
pub(crate) mod cluster;
pub(crate) mod compare;
mod copy;
mod delete;
pub(crate) mod each;
mod flow;
pub(crate) mod grep;
mod quoting;
mod spdcp;
pub(crate) mod sum;
mod sync;
pub(crate) mod tar;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_bzip2::Bzip2Kind;
use haul_cluster::ClusterKind;
use haul_compare::CompareKind;
use haul_copy::CopyKind;
use haul_delete::DeleteKind;
use haul_each::EachKind;
use haul_flow::{FlowKind, Kind, Line, Problem};
use haul_grep::GrepKind;
use haul_sum::SumKind;
use haul_sync::SyncKind;
use haul_sys::{Errno, Error, Operation, reason};
use haul_tar::TarKind;

pub(crate) use quoting::Charset;
pub(crate) use spdcp::SpdcpKind;

use crate::flags::{self, Doubt};

/// Returns the text of an error. Without `/proc` the kernel has no way to the attributes of a file
/// that is held without being open, and its error doesn't say so.
fn explained(cause: &Error) -> String {
    let attributes =
        [Operation::Flistxattr, Operation::Fgetxattr, Operation::Fsetxattr, Operation::Fremovexattr];
    let may_need_proc =
        (cause.is(Errno::BADF) || cause.is(Errno::NOENT)) && attributes.contains(&cause.operation());
    match may_need_proc && !Path::new("/proc/self").exists() {
        true => format!("{cause} (/proc is not mounted)"),
        false => cause.to_string(),
    }
}

/// Formats messages for one program in one locale.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    /// Program name at the start of messages: `cp`, or `haul cp`.
    program: String,
    /// `None`: that of the user's locale.
    charset: Option<Charset>,
    /// Returns the applet's sentence for a kind of the framework's.
    of_flow: fn(FlowKind) -> &'static str,
}

impl Messages {
    /// Formats messages that begin with `program`.
    pub(crate) fn new(program: &str, charset: Charset) -> Self {
        Self { program: program.to_owned(), charset: Some(charset), of_flow: flow::sentence }
    }

    /// Formats messages that begin with `program`, in the user's locale. Must be called before
    /// there are other threads.
    pub(crate) fn in_locale(program: &str) -> Self {
        Charset::prepare();
        Self { charset: None, ..Self::new(program, Charset::Ascii) }
    }

    fn charset(&self) -> Charset {
        self.charset.unwrap_or_else(Charset::of_process)
    }

    /// Returns the command that the program's own name stands for; `None` for `haul COMMAND`.
    pub(crate) fn stands_for(&self) -> Option<&str> {
        Some(self.program.as_str()).filter(|program| !program.contains(' '))
    }

    /// Sets the sentences for the framework's kinds.
    pub(crate) fn saying(self, of_flow: fn(FlowKind) -> &'static str) -> Self {
        Self { of_flow, ..self }
    }

    pub(crate) fn problem(&self, problem: &Problem) -> Vec<u8> {
        let mut text = self.begin();
        let cause = problem.cause.as_ref().map(explained);
        match cause {
            Some(cause) if self.sentence(problem.kind).contains("{cause}") => {
                text.extend(self.fill(problem.kind, &[&problem.names[..], &[cause.into_bytes()]].concat()));
            }
            cause => {
                text.extend(self.fill(problem.kind, &problem.names));
                text.extend(cause.map(|cause| format!(": {cause}")).unwrap_or_default().bytes());
            }
        }
        if let Some(host) = &problem.host {
            text.extend_from_slice(format!(" (on {host})").as_bytes());
        }
        end(text)
    }

    /// Formats a line of output.
    pub(crate) fn line(&self, line: &Line) -> Vec<u8> {
        end(self.fill(line.kind, &line.names))
    }

    /// Formats a question. The answer goes on its line.
    pub(crate) fn question(&self, question: &Line) -> Vec<u8> {
        [self.begin(), self.fill(question.kind, &question.names)].concat()
    }

    /// Formats a remark of `--debug`.
    pub(crate) fn debug(&self, remark: &str) -> Vec<u8> {
        end([self.begin().as_slice(), remark.as_bytes()].concat())
    }

    /// Formats a command, for a shell.
    pub(crate) fn command(&self, words: &[OsString]) -> Vec<u8> {
        let words = words.iter().map(|word| quoting::shell_if_needed(word.as_bytes(), self.charset()));
        words.collect::<Vec<_>>().join(b" ".as_slice())
    }

    /// Formats invalid operands: the problem, and a pointer to help.
    pub(crate) fn wrong_operands(&self, problem: &Problem) -> Vec<u8> {
        [self.problem(problem), self.pointer_to_help()].concat()
    }

    /// Formats a command-line error with the given sentence.
    pub(crate) fn wrong_usage(&self, sentence: &str) -> Vec<u8> {
        [self.debug(sentence), self.pointer_to_help()].concat()
    }

    /// Formats a command-line error.
    pub(crate) fn wrong_flags(&self, error: &flags::Error) -> Vec<u8> {
        let mut text = end([self.begin(), self.usage(error)].concat());
        let invalid = match error {
            flags::Error::Configured { error, .. } => error,
            error => error,
        };
        if let flags::Error::Value { valid, .. } = invalid {
            text.extend_from_slice(b"Valid arguments are:\n");
            for words in valid {
                let words = words.iter().map(|word| quoting::prose(word.as_bytes(), self.charset()));
                let words = words.collect::<Vec<_>>().join(b", ".as_slice());
                text.extend_from_slice(&[b"  - ", words.as_slice(), b"\n"].concat());
            }
        }
        if error.points_to_help() {
            text.extend(self.pointer_to_help());
        }
        text
    }

    /// Formats the name that a mistyped option may be a slip of; GNU has no such line.
    pub(crate) fn suggestion(&self, error: &flags::Error) -> Vec<u8> {
        match error {
            flags::Error::Unrecognized { meant: Some(meant), .. } => {
                format!("Did you mean '--{meant}'?\n").into_bytes()
            }
            _ => Vec::new(),
        }
    }

    /// Formats a command-line warning.
    pub(crate) fn warning(&self, warning: flags::Warning) -> Vec<u8> {
        let text = match warning {
            flags::Warning::ContextIgnored => {
                b"warning: ignoring --context; it requires an SELinux-enabled kernel"
            }
        };
        end([self.begin().as_slice(), text].concat())
    }

    /// Formats a failure of standard output.
    pub(crate) fn output_lost(&self, error: &io::Error) -> Vec<u8> {
        end([self.begin().as_slice(), b"write error: ", reason(error).as_bytes()].concat())
    }

    fn begin(&self) -> Vec<u8> {
        format!("{}: ", self.program).into_bytes()
    }

    fn pointer_to_help(&self) -> Vec<u8> {
        format!("Try '{} --help' for more information.\n", self.program).into_bytes()
    }

    /// Returns the sentence for a kind, or the kind's name for a crate unknown here.
    fn sentence(&self, kind: Kind) -> &'static str {
        (CopyKind::of(kind).map(copy::sentence))
            .or_else(|| FlowKind::of(kind).map(self.of_flow))
            .or_else(|| ClusterKind::of(kind).map(cluster::sentence))
            .or_else(|| TarKind::of(kind).map(tar::sentence))
            .or_else(|| GrepKind::of(kind).map(grep::sentence))
            .or_else(|| Bzip2Kind::of(kind).map(bzip2::sentence))
            .or_else(|| CompareKind::of(kind).map(compare::sentence))
            .or_else(|| DeleteKind::of(kind).map(delete::sentence))
            .or_else(|| EachKind::of(kind).map(each::sentence))
            .or_else(|| SumKind::of(kind).map(sum::sentence))
            .or_else(|| SyncKind::of(kind).map(sync::sentence))
            .or_else(|| SpdcpKind::of(kind).map(spdcp::sentence))
            .unwrap_or_else(|| kind.name())
    }

    /// Fills placeholders with names, in order: `{}` quotes, `{plain}` quotes only if necessary,
    /// `{prose}` quotes as words of a sentence, `{escape}` escapes without quoting, `{itemized}`
    /// escapes as rsync does, and `{bare}` inserts haul's own words unchanged. A last placeholder
    /// `{cause}` is for a reason that does not belong at the end.
    fn fill(&self, kind: Kind, names: &[Vec<u8>]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut rest = self.sentence(kind);
        for name in names {
            let Some((before, after)) = rest.split_once('{') else { break };
            let Some((placeholder, after)) = after.split_once('}') else { break };
            text.extend_from_slice(before.as_bytes());
            text.extend(match placeholder {
                "bare" | "cause" => name.clone(),
                "prose" => quoting::prose(name, self.charset()),
                "plain" => quoting::shell_if_needed(name, self.charset()),
                "itemized" => quoting::itemized(name, self.charset()),
                "escape" => quoting::escape(name, self.charset()),
                _ => quoting::shell(name, self.charset()),
            });
            rest = after;
        }
        text.extend_from_slice(rest.as_bytes());
        text
    }

    /// Returns the sentence for a command-line error. The C library's keep their plain quotes in
    /// every locale.
    fn usage(&self, error: &flags::Error) -> Vec<u8> {
        use flags::Error;
        let prose = |word: &[u8]| quoting::prose(word, self.charset());
        match error {
            Error::Unrecognized { given, .. } => {
                [b"unrecognized option '--", given.as_slice(), b"'"].concat()
            }
            Error::Ambiguous { given, possibilities } => {
                let listed = possibilities.iter().map(|long| format!(" '--{long}'")).collect::<String>();
                [b"option '--", given.as_slice(), b"' is ambiguous; possibilities:", listed.as_bytes()]
                    .concat()
            }
            Error::ArgumentMissing { long } => format!("option '--{long}' requires an argument").into_bytes(),
            Error::ArgumentRefused { long } => {
                format!("option '--{long}' doesn't allow an argument").into_bytes()
            }
            Error::UnknownLetter { letter } => [b"invalid option -- '".as_slice(), &[*letter], b"'"].concat(),
            Error::LetterArgumentMissing { letter } => {
                [b"option requires an argument -- '".as_slice(), &[*letter], b"'"].concat()
            }
            Error::Value { doubt, value, flag, .. } => {
                let doubt: &[u8] = match doubt {
                    Doubt::Invalid => b"invalid argument ",
                    Doubt::Ambiguous => b"ambiguous argument ",
                };
                [doubt, &prose(value), b" for ", &prose(flag.as_bytes())].concat()
            }
            Error::Number { value, flag, wanted } => {
                let (value, flag) = (prose(value), prose(flag.as_bytes()));
                [b"invalid argument ", value.as_slice(), b" for ", &flag, b": must be ", wanted.as_bytes()]
                    .concat()
            }
            Error::TargetDirectoryTwice => b"multiple target directories specified".to_vec(),
            Error::HardAndSymbolicLinks => b"cannot make both hard and symbolic links".to_vec(),
            Error::BackupOfNothing => {
                b"--backup is mutually exclusive with -n or --update=none-fail".to_vec()
            }
            Error::ReflinkWithSparse => b"--reflink can be used only with --sparse=auto".to_vec(),
            Error::NoContexts => {
                b"cannot preserve security context without an SELinux-enabled kernel".to_vec()
            }
            Error::Exclusive { flag, other } => {
                format!("options {flag} and {other} are mutually exclusive").into_bytes()
            }
            Error::ContextSetAndPreserved => b"cannot set target context and preserve it".to_vec(),
            Error::Requires { flag, other } => {
                format!("option '{flag}' has no effect without '{other}'").into_bytes()
            }
            Error::Useless { flag, other } => {
                format!("option '{flag}' has no effect with '{other}'").into_bytes()
            }
            Error::Missing { operand } => format!("missing {operand}").into_bytes(),
            Error::Extra { operand } => [b"extra operand ".as_slice(), &prose(operand)].concat(),
            Error::Sentence(sentence) => sentence.clone().into_bytes(),
            Error::Configured { origin, error } => {
                [origin.as_bytes(), b": ", self.usage(error).as_slice()].concat()
            }
            Error::NulInName => b"a name contains a NUL byte".to_vec(),
        }
    }
}

fn end(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Messages {
        Messages::new("cp", Charset::Utf8)
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_problem_names_the_files_and_ends_in_the_reason() {
        let cause = haul_sys::Error::new(haul_sys::Operation::Openat, String::new(), haul_sys::Errno::ACCESS);
        let problem = Problem::new(FlowKind::CannotOpen).naming(*b"it's").because(cause);
        assert_eq!(
            text(messages().problem(&problem)),
            "cp: cannot open \"it's\" for reading: Permission denied\n"
        );
    }

    #[test]
    fn a_name_in_a_plain_hole_is_quoted_only_if_it_must_be() {
        let line = |name: &[u8]| text(messages().line(&Line::new(EachKind::NotStarted, vec![name.to_vec()])));
        assert_eq!(line(b"d/a"), "d/a: not started\n");
        assert_eq!(line(b"d/a b"), "'d/a b': not started\n");
    }

    #[test]
    fn a_name_with_a_hole_in_it_is_left_alone() {
        let line = Line::new(CopyKind::Copied, vec![b"{}".to_vec(), b"{}b\n".to_vec()]);
        assert_eq!(text(messages().line(&line)), "'{}' -> '{}b'$'\\n'\n");
    }

    #[test]
    fn every_kind_has_a_sentence_and_crosses_the_wire() {
        use haul_cluster::wire::{KnownKinds, PackedProblem};
        fn check<T: haul_cluster::Distributed>(tool: &[Kind]) {
            let cause =
                haul_sys::Error::new(haul_sys::Operation::Openat, "x".to_owned(), haul_sys::Errno::ACCESS);
            for &kind in [tool, FlowKind::KINDS, ClusterKind::KINDS].into_iter().flatten() {
                assert_ne!(messages().sentence(kind), kind.name());
                let problem = Problem::new(kind).naming("a").because(cause.clone());
                let arrived =
                    PackedProblem::from(problem).unpack(KnownKinds::of_tool(T::KINDS), "host").unwrap();
                assert_eq!((arrived.kind, arrived.cause), (kind, Some(cause.clone())));
            }
        }
        check::<haul_copy::Copier>(CopyKind::KINDS);
        check::<haul_delete::Deleter>(haul_delete::DeleteKind::KINDS);
        check::<haul_tar::PositionedWriter>(TarKind::KINDS);
        check::<haul_tar::Extractor>(TarKind::KINDS);
        check::<haul_grep::Grep>(GrepKind::KINDS);
        check::<haul_bzip2::Bzip2>(Bzip2Kind::KINDS);
        check::<haul_compare::Comparer>(CompareKind::KINDS);
        check::<haul_each::Runner>(EachKind::KINDS);
        check::<haul_sum::Summer>(SumKind::KINDS);
    }

    #[test]
    fn a_kind_of_another_tool_does_not_cross_the_wire() {
        use haul_cluster::wire::{KnownKinds, PackedProblem};
        let problem = PackedProblem::from(Problem::new(TarKind::CannotOpen));
        assert!(problem.unpack(KnownKinds::of_tool(haul_copy::CopyKind::KINDS), "host").is_none());
    }

    #[test]
    fn lost_output_is_worded_as_gnu_does() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(text(messages().output_lost(&error)), "cp: write error: No space left on device\n");
    }
}
