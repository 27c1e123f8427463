//! Extended attributes: ordinary ones, the layout, and the control attributes on the
//! stand-in's root.
//!
//! | name | on | meaning |
//! |---|---|---|
//! | `lustre.lov`, `trusted.lov` | files, directories | the layout, see [`lov`] |
//! | `trusted.lma`, `trusted.link` | all | listed for root; writes are ignored, as on Lustre |
//! | `user.standin.statistics` | the root | the counters; read only |
//! | `user.standin.pace` | the root | `off` turns pacing off, `on` turns it on; write only |
//! | `user.standin.faults` | the root | the faults to inject, see [`crate::faults`]; write only |
//! | `user.`, `trusted.`, `security.` | all | stored |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use fuser::{INodeNo, ReplyEmpty, ReplyXattr};
use rustix::io::Errno;

use crate::client::{About, MountClient, to_fuse};
use crate::lov::{self, LayoutOwner};
use crate::statistics::RequestKind;
use crate::tree::{BackedTree, Body, ErrnoResult, InodeRecord, ROOT};

const LAYOUT: [&str; 2] = ["lustre.lov", "trusted.lov"];
/// Server-side attributes that clients cannot change.
const INTERNAL: [&str; 2] = ["trusted.lma", "trusted.link"];
const KEPT: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
const STATISTICS: &str = "user.standin.statistics";
const FAULTS: &str = "user.standin.faults";
const PACE: &str = "user.standin.pace";

fn is_one_of(names: &[&str], name: &OsStr) -> bool {
    names.iter().any(|known| name == *known)
}

fn get(tree: &BackedTree, number: u64, name: &OsStr) -> ErrnoResult<Vec<u8>> {
    let node = tree.node(number)?;
    if is_one_of(&LAYOUT, name) {
        return layout(node, number).ok_or(Errno::NODATA);
    }
    if is_one_of(&INTERNAL, name) {
        return Ok(number.to_le_bytes().to_vec());
    }
    match node.xattrs.get(name) {
        Some(value) => Ok(value.clone()),
        None if KEPT.iter().any(|prefix| name.as_bytes().starts_with(prefix)) => Err(Errno::NODATA),
        None => Err(Errno::OPNOTSUPP),
    }
}

fn layout(node: &InodeRecord, number: u64) -> Option<Vec<u8>> {
    match &node.body {
        Body::File { layout, .. } => {
            layout.as_ref().map(|layout| lov::encode(layout, LayoutOwner::File(number)))
        }
        Body::Directory { layout, .. } => {
            layout.as_ref().map(|layout| lov::encode(layout, LayoutOwner::Directory))
        }
        _ => None,
    }
}

fn set(tree: &mut BackedTree, number: u64, name: &OsStr, value: &[u8], flags: i32) -> ErrnoResult<()> {
    if !KEPT.iter().any(|prefix| name.as_bytes().starts_with(prefix)) {
        return Err(Errno::OPNOTSUPP);
    }
    let node = tree.node_mut(number)?;
    match node.xattrs.contains_key(name) {
        true if flags & libc::XATTR_CREATE != 0 => return Err(Errno::EXIST),
        false if flags & libc::XATTR_REPLACE != 0 => return Err(Errno::NODATA),
        _ => {}
    }
    node.xattrs.insert(name.to_owned(), value.to_owned());
    node.touch();
    Ok(())
}

/// Replies with the value, or with its length if `size` is 0.
fn give(reply: ReplyXattr, size: u32, outcome: ErrnoResult<Vec<u8>>) {
    match outcome {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(to_fuse(Errno::RANGE)),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(to_fuse(errno)),
    }
}

impl MountClient {
    pub(crate) fn set_xattr(
        &self,
        (number, name): (INodeNo, &OsStr),
        value: &[u8],
        flags: i32,
        reply: ReplyEmpty,
    ) {
        if number.0 == ROOT && name == FAULTS {
            return match self.model().faults.set(value) {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(to_fuse(errno)),
            };
        }
        if number.0 == ROOT && name == PACE {
            self.model().paced.store(value != b"off", Ordering::Relaxed);
            return reply.ok();
        }
        let targets = self.model().settings.targets;
        let act = |tree: &mut BackedTree| {
            if is_one_of(&LAYOUT, name) {
                return tree.set_layout(number.0, lov::decode(value, targets)?);
            }
            if is_one_of(&INTERNAL, name) {
                return Ok(());
            }
            set(tree, number.0, name, value, flags)
        };
        self.operate(
            (RequestKind::SetXattr, About::Node(number)),
            reply,
            act,
            |reply, outcome| match outcome {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(to_fuse(errno)),
            },
        );
    }

    pub(crate) fn get_xattr(&self, (number, name): (INodeNo, &OsStr), size: u32, reply: ReplyXattr) {
        if number.0 == ROOT && name == STATISTICS {
            return give(reply, size, Ok(self.model().statistics.describe().into_bytes()));
        }
        let act = |tree: &mut BackedTree| get(tree, number.0, name);
        let what = (RequestKind::GetXattr, About::Node(number));
        self.operate(what, reply, act, move |reply, outcome| give(reply, size, outcome));
    }

    pub(crate) fn list_xattrs(&self, number: INodeNo, is_root: bool, size: u32, reply: ReplyXattr) {
        let act = |tree: &mut BackedTree| {
            let node = tree.node(number.0)?;
            let mut names: Vec<&[u8]> = node.xattrs.keys().map(|name| name.as_bytes()).collect();
            if layout(node, number.0).is_some() {
                names.push(LAYOUT[0].as_bytes());
            }
            if is_root && matches!(node.body, Body::File { .. } | Body::Directory { .. }) {
                names.extend(INTERNAL.map(str::as_bytes));
            }
            if !is_root {
                names.retain(|name| !name.starts_with(b"trusted."));
            }
            Ok(names.iter().flat_map(|name| name.iter().copied().chain([0])).collect())
        };
        let what = (RequestKind::ListXattr, About::Node(number));
        self.operate(what, reply, act, move |reply, outcome| give(reply, size, outcome));
    }

    pub(crate) fn remove_xattr(&self, (number, name): (INodeNo, &OsStr), reply: ReplyEmpty) {
        let act = |tree: &mut BackedTree| {
            let node = tree.node_mut(number.0)?;
            if let (Body::Directory { layout, .. }, true) = (&mut node.body, is_one_of(&LAYOUT, name)) {
                return layout.take().map(drop).ok_or(Errno::NODATA);
            }
            node.touch();
            node.xattrs.remove(name).map(drop).ok_or(Errno::NODATA)
        };
        self.operate((RequestKind::RemoveXattr, About::Node(number)), reply, act, |reply, outcome| {
            match outcome {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(to_fuse(errno)),
            }
        });
    }
}
