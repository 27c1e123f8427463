//! Patterns as Perl writes them, as far as they are regular: what looks around or asks for a group again is refused.
//!
//! As in GNU grep's, `\d`, `\w`, `\s` and `\b` know ASCII only. What matches is a part of one line, as everywhere.

use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassPerlKind, ClassSet, ClassSetItem, parse::Parser,
};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
    Repetition,
};

use super::bracket::Alphabet;
use super::dialect;
use super::pattern::Refused;

const NOT_REGULAR: Refused = Refused(
    "this Perl-compatible pattern is not supported: it must be regular, without look-around and back-references",
);

/// Reads a pattern.
///
/// # Errors
/// When it is none, or not a regular one.
pub(super) fn read(text: &[u8], alphabet: Alphabet) -> Result<Hir, Refused> {
    let characters: Vec<char> = if alphabet.utf8 {
        let text = std::str::from_utf8(text).map_err(|_| Refused("the pattern is not valid UTF-8"))?;
        text.chars().collect()
    } else {
        text.iter().copied().map(char::from).collect()
    };
    let text = dialect::rewritten(&characters, alphabet.utf8)?;
    let mut tree = Parser::new().parse(&text).map_err(|_| NOT_REGULAR)?;
    to_ascii(&mut tree);
    let hir = TranslatorBuilder::new()
        .unicode(alphabet.utf8)
        .utf8(false)
        .case_insensitive(alphabet.ignore_case)
        .build()
        .translate(&text, &tree)
        .map_err(|_| NOT_REGULAR)?;
    Ok(within_a_line(hir, alphabet.terminator))
}

/// Makes classes know ASCII only.
fn to_ascii(tree: &mut Ast) {
    let plain = match tree {
        Ast::ClassPerl(class) => ascii(&class.kind, class.negated),
        Ast::Assertion(assertion) => match &**assertion {
            Assertion { kind: AssertionKind::WordBoundary, .. } => r"(?-u:\b)",
            Assertion { kind: AssertionKind::NotWordBoundary, .. } => r"(?-u:\B)",
            _ => return,
        },
        Ast::ClassBracketed(class) => return to_ascii_in(&mut class.kind),
        Ast::Repetition(repetition) => return to_ascii(&mut repetition.ast),
        Ast::Group(group) => return to_ascii(&mut group.ast),
        Ast::Alternation(alternation) => return alternation.asts.iter_mut().for_each(to_ascii),
        Ast::Concat(concat) => return concat.asts.iter_mut().for_each(to_ascii),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) => return,
    };
    // Texts of this module's own parse.
    if let Ok(parsed) = Parser::new().parse(plain) {
        *tree = parsed;
    }
}

fn ascii(kind: &ClassPerlKind, negated: bool) -> &'static str {
    match (kind, negated) {
        (ClassPerlKind::Digit, false) => r"[0-9]",
        (ClassPerlKind::Digit, true) => r"[^0-9]",
        (ClassPerlKind::Space, false) => r"[\t-\r ]",
        (ClassPerlKind::Space, true) => r"[^\t-\r ]",
        (ClassPerlKind::Word, false) => r"[0-9A-Za-z_]",
        (ClassPerlKind::Word, true) => r"[^0-9A-Za-z_]",
    }
}

fn to_ascii_in(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => to_ascii_item(item),
        ClassSet::BinaryOp(operation) => {
            to_ascii_in(&mut operation.lhs);
            to_ascii_in(&mut operation.rhs);
        }
    }
}

fn to_ascii_item(item: &mut ClassSetItem) {
    match item {
        ClassSetItem::Perl(class) => {
            if let Ok(Ast::ClassBracketed(plain)) = &Parser::new().parse(ascii(&class.kind, class.negated)) {
                *item = ClassSetItem::Bracketed(plain.clone());
            }
        }
        ClassSetItem::Bracketed(inner) => to_ascii_in(&mut inner.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(to_ascii_item),
        _ => {}
    }
}

/// Takes the end of a line out of everything that a pattern can match.
fn within_a_line(hir: Hir, terminator: u8) -> Hir {
    changed(hir, &mut |kind| match kind {
        HirKind::Literal(literal) if literal.0.contains(&terminator) => Hir::fail(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(Class::Unicode(mut set)) => {
            let end = char::from(terminator);
            set.difference(&ClassUnicode::new([ClassUnicodeRange::new(end, end)]));
            Hir::class(Class::Unicode(set))
        }
        HirKind::Class(Class::Bytes(mut set)) => {
            set.difference(&ClassBytes::new([ClassBytesRange::new(terminator, terminator)]));
            Hir::class(Class::Bytes(set))
        }
        HirKind::Look(look) => Hir::look(look),
        _ => Hir::empty(),
    })
}

/// Tells whether a pattern asks for newlines within a line, which there are where lines end with NUL.
pub(super) fn knows_newlines(hir: &Hir) -> bool {
    let looks = hir.properties().look_set();
    looks.contains(Look::StartLF) || looks.contains(Look::EndLF)
}

/// Has a text begin and end where a line does. Newlines within one are not known, so that more may match than does.
pub(super) fn among_lines(hir: Hir, terminator: u8) -> Hir {
    changed(hir, &mut |kind| match kind {
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(Look::Start) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndLF),
        HirKind::Look(Look::StartLF | Look::EndLF) if terminator != b'\n' => Hir::empty(),
        HirKind::Look(look) => Hir::look(look),
        _ => Hir::empty(),
    })
}

/// Changes the parts of a pattern that have none themselves.
fn changed(hir: Hir, change: &mut dyn FnMut(HirKind) -> Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Repetition(repetition) => {
            let sub = Box::new(changed(*repetition.sub, change));
            Hir::repetition(Repetition { sub, ..repetition })
        }
        HirKind::Capture(capture) => {
            let sub = Box::new(changed(*capture.sub, change));
            Hir::capture(Capture { sub, ..capture })
        }
        HirKind::Concat(hirs) => Hir::concat(hirs.into_iter().map(|hir| changed(hir, change)).collect()),
        HirKind::Alternation(hirs) => {
            Hir::alternation(hirs.into_iter().map(|hir| changed(hir, change)).collect())
        }
        kind => change(kind),
    }
}
