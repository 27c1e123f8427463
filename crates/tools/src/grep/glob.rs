//! Patterns of the shell, as POSIX has them: `*`, `?`, `[...]`, and `\` before what means itself.

use regex_automata::meta;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Repetition};

use super::bracket::{self, Alphabet, Place, UNMATCHED};

/// A pattern made ready.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    /// For names that are characters of UTF-8, where the locale and the pattern are.
    by_characters: Option<meta::Regex>,
    /// For any, as bytes.
    by_bytes: meta::Regex,
}

impl Glob {
    /// Makes a pattern ready, however long it is; `around` says where in a name it is looked for. `None` if it cannot be.
    pub(crate) fn new(pattern: &[u8], utf8: bool, around: impl Fn(Hir) -> Hir) -> Option<Self> {
        let regex = |utf8| {
            let config = meta::Config::new().utf8_empty(false).nfa_size_limit(None);
            meta::Builder::new().configure(config).build_from_hir(&around(hir(pattern, utf8))).ok()
        };
        let is_text = utf8 && str::from_utf8(pattern).is_ok();
        Some(Self { by_characters: is_text.then(|| regex(true)).flatten(), by_bytes: regex(false)? })
    }

    /// Tells whether it matches a name. As with GNU's programs, one that is text may also be taken for bytes.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let by_characters = self.by_characters.as_ref().filter(|_| str::from_utf8(name).is_ok());
        by_characters.is_some_and(|regex| regex.is_match(name)) || self.by_bytes.is_match(name)
    }
}

/// Returns what matches the names that a pattern matches, slashes too.
fn hir(glob: &[u8], utf8: bool) -> Hir {
    let alphabet = Alphabet { utf8, ignore_case: false, terminator: 0 };
    let mut parts = Vec::new();
    let mut at = 0;
    while at < glob.len() {
        let (part, length) = match &glob[at..] {
            [b'*', ..] => (any_number_of_bytes(), 1),
            [b'?', ..] => (Hir::class(alphabet.any()), 1),
            [b'\\', byte, ..] => (Hir::literal([*byte]), 2),
            [b'[', rest @ ..] => match bracket::read(rest, alphabet, Place::Glob) {
                Ok((class, length)) => (Hir::class(class), 1 + length),
                Err(UNMATCHED) => (Hir::literal(*b"["), 1),
                // As in the C library, a name that is no class's makes the pattern none.
                Err(_) => return Hir::fail(),
            },
            [byte, ..] => (Hir::literal([*byte]), 1),
            [] => break,
        };
        parts.push(part);
        at += length;
    }
    Hir::concat(parts)
}

fn any_number_of_bytes() -> Hir {
    let any = Class::Bytes(ClassBytes::new([ClassBytesRange::new(0, u8::MAX)]));
    Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub: Box::new(Hir::class(any)) })
}
