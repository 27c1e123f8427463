//! Decides which entries the selection leaves out: those that it takes in neither tree.
//!
//! The walk applies the rules by name to the listings of the first tree. An entry may still be left
//! out in one tree only: sizes, times and types may differ (`build/` is a directory), and so may
//! the names of operands. It is compared then, because it would count as equal otherwise.

use std::ffi::CStr;

use haul_flow::{Context, Entry, Problem, Scope, Selection, Tally};
use haul_sys::{EntryType, Errno, Fd, stat_at, stat_followed, stat_path};

use super::counterpart::{kind, second_path};
use super::difference::What;
use super::{CompareKind, Comparer};

/// True if a selection leaves out more than the program's own files.
pub(super) fn is_any(selection: &Selection) -> bool {
    *selection != Selection { own_files: selection.own_files.clone(), ..Selection::default() }
}

impl Comparer {
    /// True if the selection takes an entry, which isn't a directory, in either tree. One that
    /// can't be examined is taken: the comparison reports it.
    pub(super) fn is_selected(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> bool {
        let selector = cx.selector();
        // Elsewhere, the rules have been applied to the listing.
        let keeps = |name: &CStr| !entry.is_operand() || !selector.rules_exclude(name.to_bytes(), false);
        if keeps(entry.name()) {
            let is_limited = kind == EntryType::Regular && selector.has_limits();
            let look = || {
                let directory = cx.cache().open(&entry.node.source)?;
                stat_path(Some(&*directory), entry.name(), self.follows_here(entry))
            };
            if !is_limited || look().map_or(true, |first| selector.admits(&first)) {
                return true;
            }
        }
        keeps(entry.node.own.name(entry))
            && match self.look(cx, entry) {
                Ok(second) => selector.admits(&second),
                Err(cause) => !cause.is(Errno::NOENT) || entry.is_operand() || self.dangles(cx, entry),
            }
    }

    /// Counts an entry that the selection leaves out. To leave out an operand is an error, because
    /// success would mean that it is equal to the other one.
    pub(super) fn leave_out(cx: &Context<'_, Self>, entry: &Entry<Self>) {
        if entry.is_operand() {
            cx.problem(Problem::new(CompareKind::LeftOut).naming(entry.path()).naming(second_path(entry)));
        }
        cx.count(Tally { excluded: 1, ..Tally::default() });
    }

    /// True if the selection takes an entry of a directory in the second tree.
    pub(super) fn is_selected_in_second(
        &self,
        cx: &Context<'_, Self>,
        scope: Option<&Scope>,
        (second, name): (&Fd, &CStr),
        listed: EntryType,
    ) -> bool {
        let selector = cx.selector();
        let admits = || stat_followed(second, name).map_or(true, |stat| selector.admits(&stat));
        let is_followed = self.options.dereference && selector.has_limits();
        selector.selects(scope, second, name, listed) && (!is_followed || admits())
    }

    /// Returns the difference of an entry that has different types in two directories, if the rules
    /// exclude it in the first but not in the second.
    pub(super) fn excluded_in_first(
        &self,
        cx: &Context<'_, Self>,
        scope: &Scope,
        name: &CStr,
        [(first, ours), (second, theirs)]: [(&Fd, EntryType); 2],
    ) -> Option<What> {
        if ours == theirs && ours != EntryType::Unknown {
            return None;
        }
        let ours = match ours {
            EntryType::Unknown => stat_at(first, name).ok()?.kind.into(),
            known => known,
        };
        let is_excluded = cx.selector().excludes(scope, name, ours);
        if !is_excluded || !self.is_selected_in_second(cx, Some(scope), (second, name), theirs) {
            return None;
        }
        let look = |directory: &Fd| stat_path(Some(directory), name, self.options.dereference).ok();
        let (first, second) = (look(first)?, look(second)?);
        (first.kind != second.kind).then(|| What::Types(kind(&first), kind(&second)))
    }
}
