//! Steps that operations share: check for a fault, charge the cost, reply at the modelled time.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use fuser::{Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry};
use rustix::io::Errno;

use super::nodes::{attributes, drop_privileges, layout};
use super::{About, MountClient, to_fuse};
use crate::layout::StripeLayout;
use crate::statistics::RequestKind;
use crate::tree::{BackedTree, BackingFile, ErrnoResult, InodeRecord};

impl MountClient {
    pub(super) fn check(&self, tree: &BackedTree, operation: &str, about: About<'_>) -> ErrnoResult<()> {
        self.model.faults.check(self.budget.number, operation, || match about {
            About::Name(name) => Cow::Borrowed(name.as_bytes()),
            About::Node(number) => {
                let name = |node: &InodeRecord| Cow::Owned(node.first_name.as_bytes().to_owned());
                tree.node(number.0).map(name).unwrap_or_default()
            }
        })
    }

    /// True if a byte of a write to the file is to be stored wrong.
    pub(super) fn flips(&self, number: INodeNo) -> bool {
        let tree = self.model.tree();
        let name = |node: &InodeRecord| Cow::Owned(node.first_name.as_bytes().to_owned());
        self.model.faults.flips(self.budget.number, || tree.node(number.0).map(name).unwrap_or_default())
    }

    /// True if the file is to be opened without offsets.
    pub(super) fn refuses_offsets(&self, tree: &BackedTree, number: INodeNo) -> bool {
        let name = |node: &InodeRecord| Cow::Owned(node.first_name.as_bytes().to_owned());
        let faults = &self.model.faults;
        faults.refuses_offsets(self.budget.number, || tree.node(number.0).map(name).unwrap_or_default())
    }

    pub(super) fn entry(
        &self,
        what: (RequestKind, &OsStr),
        reply: ReplyEntry,
        act: impl FnOnce(&mut BackedTree) -> ErrnoResult<u64>,
    ) {
        let cache_time = self.model.settings.cache_time;
        let act = |tree: &mut BackedTree| act(tree).and_then(|number| attributes(tree, number));
        self.operate((what.0, About::Name(what.1)), reply, act, move |reply, outcome| match outcome {
            Ok(attributes) => reply.entry(&cache_time, &attributes, Generation(0)),
            Err(errno) => reply.error(to_fuse(errno)),
        });
    }

    pub(super) fn empty(
        &self,
        what: (RequestKind, About<'_>),
        reply: ReplyEmpty,
        act: impl FnOnce(&mut BackedTree) -> ErrnoResult<()>,
    ) {
        self.operate(what, reply, act, |reply, outcome| match outcome {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(to_fuse(errno)),
        });
    }

    pub(super) fn attr(
        &self,
        (kind, number): (RequestKind, INodeNo),
        reply: ReplyAttr,
        act: impl FnOnce(&mut BackedTree) -> ErrnoResult<()>,
    ) {
        let cache_time = self.model.settings.cache_time;
        let act = |tree: &mut BackedTree| act(tree).and_then(|()| attributes(tree, number.0));
        self.operate((kind, About::Node(number)), reply, act, move |reply, outcome| match outcome {
            Ok(attributes) => reply.attr(&cache_time, &attributes),
            Err(errno) => reply.error(to_fuse(errno)),
        });
    }

    pub(super) fn begin_write(
        &self,
        number: u64,
        range: Range<u64>,
    ) -> ErrnoResult<(Option<BackingFile>, Option<StripeLayout>)> {
        let mut tree = self.model.tree();
        self.check(&tree, "write", About::Node(INodeNo(number)))?;
        if layout(tree.node(number)?).is_none() {
            // Created with a delayed layout, which was never set, and not reopened: fails as
            // on Lustre.
            return Err(Errno::BADF);
        }
        tree.lay_out(number, None, range)?;
        let object = tree.object(number, true)?;
        Ok((object, layout(tree.node(number)?)))
    }

    pub(super) fn begin_read(
        &self,
        number: u64,
        range: &mut Range<u64>,
    ) -> ErrnoResult<(Option<BackingFile>, Option<StripeLayout>)> {
        let mut tree = self.model.tree();
        self.check(&tree, "read", About::Node(INodeNo(number)))?;
        let object = tree.object(number, false)?;
        let node = tree.node(number)?;
        range.end = range.end.min(node.size);
        range.start = range.start.min(range.end);
        Ok((object, layout(node)))
    }

    pub(super) fn end_write(&self, number: u64, end: u64, kills: bool) -> ErrnoResult<()> {
        let mut tree = self.model.tree();
        let node = tree.node_mut(number)?;
        node.size = node.size.max(end);
        node.modify();
        if kills {
            drop_privileges(node);
        }
        Ok(())
    }

    pub(super) fn drain(&self, number: INodeNo, reply: ReplyEmpty) {
        let at =
            self.budget.drained(&self.model).max(self.budget.operate(&self.model, RequestKind::Synchronize));
        let outcome = self.check(&self.model.tree(), RequestKind::Synchronize.name(), About::Node(number));
        self.model.timer.at(at, move || match outcome {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(to_fuse(errno)),
        });
    }
}
