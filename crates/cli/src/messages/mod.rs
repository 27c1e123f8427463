//! All text that users read about a copy: problems, `--verbose` lines, usage errors.
//!
//! The library reports kinds, each with a sentence: GNU's where GNU has one. `messages/flow.rs` has
//! the wordings of applets that differ for the framework's kinds. This module quotes the names for
//! the user's locale, and adds the program's name.
//!
//! A message is one line (a list of valid values follows on lines of its own), and no name in it
//! can break the line or move the cursor.

pub(crate) mod cluster;
pub(crate) mod flow;
pub(crate) mod grep;
mod quoting;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use haul_flow::{FlowKind, Kind, OutputLine, Problem, Quoting};
use haul_sys::reason;

pub(crate) use quoting::Charset;

use crate::flags::{self, Doubt};

/// Formats messages for one program in one locale.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    /// Program name at the start of messages: `cp`, or `haul cp`.
    program: String,
    /// `None`: that of the user's locale.
    charset: Option<Charset>,
    /// The applet's own sentences for kinds of the framework's.
    of_flow: flow::Sentences,
}

impl Messages {
    /// Formats messages that begin with `program`.
    pub(crate) fn new(program: &str, charset: Charset) -> Self {
        Self { program: program.to_owned(), charset: Some(charset), of_flow: |_| None }
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

    /// Sets the applet's own sentences for kinds of the framework's.
    pub(crate) fn with_sentences(self, of_flow: flow::Sentences) -> Self {
        Self { of_flow, ..self }
    }

    pub(crate) fn problem(&self, problem: &Problem) -> Vec<u8> {
        let show = |quoting, name: &[u8]| self.quoted(quoting, name);
        end([self.begin(), problem.render(self.sentence(problem.kind), show)].concat())
    }

    /// Formats a line of output.
    pub(crate) fn line(&self, line: &OutputLine) -> Vec<u8> {
        end(self.words(line))
    }

    /// Formats a question, without a newline: the answer is typed on the same line.
    pub(crate) fn question(&self, question: &OutputLine) -> Vec<u8> {
        [self.begin(), self.words(question)].concat()
    }

    fn words(&self, line: &OutputLine) -> Vec<u8> {
        line.render(self.sentence(line.kind), |quoting, name| self.quoted(quoting, name))
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
    pub(crate) fn wrong_flags(&self, error: &flags::FlagError) -> Vec<u8> {
        let mut text = end([self.begin(), self.usage(error)].concat());
        let invalid = match error {
            flags::FlagError::Configured { error, .. } => error,
            error => error,
        };
        if let flags::FlagError::Value { valid, .. } = invalid {
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

    /// Formats a suggestion for a mistyped option; GNU has no such line.
    pub(crate) fn suggestion(&self, error: &flags::FlagError) -> Vec<u8> {
        match error {
            flags::FlagError::Unrecognized { meant: Some(meant), .. } => {
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

    /// Returns the sentence for a kind: the applet's, if it has one, or the kind's.
    fn sentence(&self, kind: Kind) -> &'static str {
        FlowKind::of(kind).and_then(self.of_flow).unwrap_or_else(|| kind.sentence())
    }

    /// Shows a name in the user's locale.
    fn quoted(&self, quoting: Quoting, name: &[u8]) -> Vec<u8> {
        match quoting {
            Quoting::Always => quoting::shell(name, self.charset()),
            Quoting::IfNeeded => quoting::shell_if_needed(name, self.charset()),
            Quoting::Word => quoting::prose(name, self.charset()),
            Quoting::Escape => quoting::escape(name, self.charset()),
            Quoting::Itemize => quoting::itemized(name, self.charset()),
            Quoting::Bare => name.to_vec(),
        }
    }

    /// Returns the sentence for a command-line error. The C library's keep their plain quotes in
    /// every locale.
    fn usage(&self, error: &flags::FlagError) -> Vec<u8> {
        use flags::FlagError;
        let prose = |word: &[u8]| quoting::prose(word, self.charset());
        match error {
            FlagError::Unrecognized { given, .. } => {
                [b"unrecognized option '--", given.as_slice(), b"'"].concat()
            }
            FlagError::Ambiguous { given, possibilities } => {
                let listed = possibilities.iter().map(|long| format!(" '--{long}'")).collect::<String>();
                [b"option '--", given.as_slice(), b"' is ambiguous; possibilities:", listed.as_bytes()]
                    .concat()
            }
            FlagError::ArgumentMissing { long } => {
                format!("option '--{long}' requires an argument").into_bytes()
            }
            FlagError::ArgumentRefused { long } => {
                format!("option '--{long}' doesn't allow an argument").into_bytes()
            }
            FlagError::UnknownLetter { letter } => {
                [b"invalid option -- '".as_slice(), &[*letter], b"'"].concat()
            }
            FlagError::LetterArgumentMissing { letter } => {
                [b"option requires an argument -- '".as_slice(), &[*letter], b"'"].concat()
            }
            FlagError::Value { doubt, value, flag, .. } => {
                let doubt: &[u8] = match doubt {
                    Doubt::Invalid => b"invalid argument ",
                    Doubt::Ambiguous => b"ambiguous argument ",
                };
                [doubt, &prose(value), b" for ", &prose(flag.as_bytes())].concat()
            }
            FlagError::Number { value, flag, wanted } => {
                let (value, flag) = (prose(value), prose(flag.as_bytes()));
                [b"invalid argument ", value.as_slice(), b" for ", &flag, b": must be ", wanted.as_bytes()]
                    .concat()
            }
            FlagError::TargetDirectoryTwice => b"multiple target directories specified".to_vec(),
            FlagError::HardAndSymbolicLinks => b"cannot make both hard and symbolic links".to_vec(),
            FlagError::BackupOfNothing => {
                b"--backup is mutually exclusive with -n or --update=none-fail".to_vec()
            }
            FlagError::ReflinkWithSparse => b"--reflink can be used only with --sparse=auto".to_vec(),
            FlagError::NoContexts => {
                b"cannot preserve security context without an SELinux-enabled kernel".to_vec()
            }
            FlagError::Exclusive { flag, other } => {
                format!("options {flag} and {other} are mutually exclusive").into_bytes()
            }
            FlagError::ContextSetAndPreserved => b"cannot set target context and preserve it".to_vec(),
            FlagError::Requires { flag, other } => {
                format!("option '{flag}' has no effect without '{other}'").into_bytes()
            }
            FlagError::Useless { flag, other } => {
                format!("option '{flag}' has no effect with '{other}'").into_bytes()
            }
            FlagError::Missing { operand } => format!("missing {operand}").into_bytes(),
            FlagError::Extra { operand } => [b"extra operand ".as_slice(), &prose(operand)].concat(),
            FlagError::Sentence(sentence) => sentence.clone().into_bytes(),
            FlagError::Configured { origin, error } => {
                [origin.as_bytes(), b": ", self.usage(error).as_slice()].concat()
            }
            FlagError::NulInName => b"a name contains a NUL byte".to_vec(),
        }
    }
}

fn end(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use haul_bzip2::Bzip2Kind;
    use haul_cluster::ClusterKind;
    use haul_compare::CompareKind;
    use haul_copy::CopyKind;
    use haul_delete::DeleteKind;
    use haul_each::EachKind;
    use haul_grep::GrepKind;
    use haul_sum::SumKind;
    use haul_sync::SyncKind;
    use haul_tar::TarKind;

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
        let line =
            |name: &[u8]| text(messages().line(&OutputLine::new(EachKind::NotStarted, vec![name.to_vec()])));
        assert_eq!(line(b"d/a"), "d/a: not started\n");
        assert_eq!(line(b"d/a b"), "'d/a b': not started\n");
    }

    #[test]
    fn a_name_with_a_hole_in_it_is_left_alone() {
        let line = OutputLine::new(CopyKind::Copied, vec![b"{}".to_vec(), b"{}b\n".to_vec()]);
        assert_eq!(text(messages().line(&line)), "'{}' -> '{}b'$'\\n'\n");
    }

    #[test]
    fn every_kind_crosses_the_wire_with_its_sentence() {
        use haul_cluster::wire::{KnownKinds, PackedProblem};
        fn check<T: haul_cluster::Distributed>(tool: &[Kind]) {
            let cause =
                haul_sys::Error::new(haul_sys::Operation::Openat, "x".to_owned(), haul_sys::Errno::ACCESS);
            for &kind in [tool, FlowKind::KINDS, ClusterKind::KINDS].into_iter().flatten() {
                let problem = Problem::new(kind).naming("a").because(cause.clone());
                let arrived =
                    PackedProblem::from(problem).unpack(KnownKinds::of_tool(T::KINDS), "host").unwrap();
                assert_eq!((arrived.kind, arrived.cause), (kind, Some(cause.clone())));
                assert_eq!(arrived.kind.sentence(), kind.sentence());
            }
        }
        check::<haul_copy::Copier>(CopyKind::KINDS);
        check::<haul_delete::Deleter>(DeleteKind::KINDS);
        check::<haul_tar::PositionedWriter>(TarKind::KINDS);
        check::<haul_tar::Extractor>(TarKind::KINDS);
        check::<haul_grep::Grep>(GrepKind::KINDS);
        check::<haul_bzip2::Bzip2>(Bzip2Kind::KINDS);
        check::<haul_compare::Comparer>(CompareKind::KINDS);
        check::<haul_each::Runner>(EachKind::KINDS);
        check::<haul_sum::Summer>(SumKind::KINDS);
    }

    #[test]
    fn every_placeholder_is_known() {
        let kinds = [
            Bzip2Kind::KINDS,
            ClusterKind::KINDS,
            CompareKind::KINDS,
            CopyKind::KINDS,
            DeleteKind::KINDS,
            EachKind::KINDS,
            FlowKind::KINDS,
            GrepKind::KINDS,
            SumKind::KINDS,
            SyncKind::KINDS,
            TarKind::KINDS,
        ];
        let of_applets: [flow::Sentences; 6] =
            [flow::in_bzip2, flow::in_compare, flow::in_each, flow::in_grep, flow::in_sum, flow::in_tar];
        let sentences = (kinds.iter().copied().flatten().map(|kind| kind.sentence()))
            .chain(of_applets.iter().flat_map(|of_flow| FlowKind::ALL.iter().copied().filter_map(*of_flow)));
        let known = ["", "plain", "prose", "escape", "itemized", "bare", "cause"];
        for sentence in sentences {
            for after in sentence.split('{').skip(1) {
                let placeholder = after.split_once('}').unwrap().0;
                assert!(known.contains(&placeholder), "{sentence}");
            }
        }
    }

    #[test]
    fn a_kind_of_another_tool_does_not_cross_the_wire() {
        use haul_cluster::wire::{KnownKinds, PackedProblem};
        let problem = PackedProblem::from(Problem::new(TarKind::CannotOpen));
        assert!(problem.unpack(KnownKinds::of_tool(CopyKind::KINDS), "host").is_none());
    }

    #[test]
    fn lost_output_is_worded_as_gnu_does() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(text(messages().output_lost(&error)), "cp: write error: No space left on device\n");
    }
}
