//! `--itemize-changes`: a line for each entry that changes, as rsync prints it.
//!
//! A line has eleven characters, which rsync's manual calls `YXcstpoguax`, and the path below the
//! target: the change (`>` a file's data is copied, `c` something else is created or replaced,
//! `h` a hard link is created, `.` attributes are set), the type of the entry, and then a letter
//! for each property that differed, or `+` for a new entry. Scripts parse these lines, so
//! `cli/tests/rsync.rs` compares them with the lines of real runs of rsync.
//!
//! Most lines are printed while the old entry still has the name. Only its extended attributes are
//! looked up here; its `stat` comes from whoever decided about it.

use std::sync::Arc;

use haul_flow::{OutputLine, path_below};
use haul_sys::{Fd, FileType, Stat, read_link};

use super::CopyKind;
use super::entry_copy::EntryCopy;
use super::links::LinkedName;
use super::mend::{self, Differences};
use super::options::{Preserve, Update};

/// Change to an entry of the target.
#[derive(Clone, Copy)]
pub(super) enum ItemizedChange<'a> {
    /// It is created or replaced. There may be a `stat` of the entry that had its name.
    Copied(Option<&'a Stat>),
    /// It becomes another name of a file.
    Linked(&'a LinkedName, Option<&'a Stat>),
    /// Its attributes are set.
    Mended(Differences),
}

/// Prints the line for a change.
pub(super) fn print(copy: EntryCopy<'_>, change: ItemizedChange<'_>) {
    // A source that has disappeared is reported by the step that needs it.
    let Ok(source) = copy.stat_source() else { return };
    let mut path = below_target(copy, &copy.target_path());
    if source.kind == FileType::Directory {
        path.push(b'/');
    }
    let names = vec![letters(copy, change, &source).to_vec(), path];
    let (kind, other) = match change {
        ItemizedChange::Linked(first, _) => {
            let path = first.path();
            (CopyKind::ItemizedName, Some(below_target(copy, &path)))
        }
        _ if source.kind == FileType::Symlink => (CopyKind::ItemizedLink, content(copy)),
        _ => (CopyKind::Itemized, None),
    };
    let kind = if other.is_some() { kind } else { CopyKind::Itemized };
    copy.cx.report().line(OutputLine::new(kind, names.into_iter().chain(other).collect()));
}

/// Returns the part of a path below the target; `.` for the target itself.
fn below_target(copy: EntryCopy<'_>, path: &[u8]) -> Vec<u8> {
    let target = &copy.entry.node.own.operand.target;
    path_below(path, target).to_vec()
}

/// Returns the content of the source, a symbolic link.
fn content(copy: EntryCopy<'_>) -> Option<Vec<u8>> {
    let directory = copy.cx.cache().open(&copy.entry.node.source).ok()?;
    read_link(&*directory, copy.entry.name()).ok().map(|content| content.into_bytes())
}

fn letters(copy: EntryCopy<'_>, change: ItemizedChange<'_>, source: &Stat) -> [u8; 11] {
    let (done, before) = match change {
        ItemizedChange::Copied(before) if source.kind == FileType::Regular => (b'>', before),
        ItemizedChange::Copied(before) => (b'c', before),
        ItemizedChange::Linked(_, before) => (b'h', before),
        ItemizedChange::Mended(differences) => return line(b'.', source.kind, differences),
    };
    // Something of another type was removed first.
    let Some(before) = before.filter(|before| before.kind == source.kind) else {
        let mut letters = [b'+'; 11];
        [letters[0], letters[1]] = [done, letter_of(source.kind)];
        return letters;
    };
    let mut differences = mend::all_differences(copy, source, before);
    if matches!(change, ItemizedChange::Copied(_)) {
        differences.content = has_other_content(copy, source, before);
        differences.gets_new_time = !copy.options.preserves(Preserve::TIMESTAMPS);
    }
    line(done, source.kind, differences)
}

/// True unless the old entry has the content of its source, and is only replaced because it shares
/// its attributes with other names. The content of a regular file counts with `--checksum`.
fn has_other_content(copy: EntryCopy<'_>, source: &Stat, before: &Stat) -> bool {
    let by_content =
        matches!(copy.options.existing.update, Update::Different(difference) if difference.by_content);
    let is_same = |directory: Arc<Fd>| match source.kind {
        FileType::Regular => source.size == before.size && mend::has_same_content(copy, &directory),
        FileType::Symlink => mend::leads_to_the_same(copy, &directory),
        _ => source.device_number == before.device_number,
    };
    (source.kind != FileType::Regular || by_content)
        && !(before.links > 1 && copy.open_directory().is_ok_and(is_same))
}

fn line(done: u8, kind: FileType, differences: Differences) -> [u8; 11] {
    let Differences { content, size, time, gets_new_time, mode, owner, group, access_list, xattrs } =
        differences;
    let letter = |differs: bool, letter: u8| if differs { letter } else { b'.' };
    let time = if gets_new_time { b'T' } else { letter(time, b't') };
    let mut letters = [
        done,
        letter_of(kind),
        letter(content, b'c'),
        letter(size, b's'),
        time,
        letter(mode, b'p'),
        letter(owner, b'o'),
        letter(group, b'g'),
        b'.',
        letter(access_list, b'a'),
        letter(xattrs, b'x'),
    ];
    if done != b'>' && letters[2..].iter().all(|letter| *letter == b'.') {
        letters[2..].fill(b' ');
    }
    letters
}

fn letter_of(kind: FileType) -> u8 {
    match kind {
        FileType::Regular => b'f',
        FileType::Directory => b'd',
        FileType::Symlink => b'L',
        FileType::BlockDevice | FileType::CharacterDevice => b'D',
        _ => b'S',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_stands_for_each_difference() {
        let all = Differences {
            content: true,
            size: true,
            time: true,
            gets_new_time: false,
            mode: true,
            owner: true,
            group: true,
            access_list: true,
            xattrs: true,
        };
        let none = Differences::default();
        assert_eq!(&line(b'>', FileType::Regular, all), b">fcstpog.ax");
        let new_time = Differences { gets_new_time: true, ..none };
        assert_eq!(&line(b'>', FileType::Regular, new_time), b">f..T......");
        assert_eq!(&line(b'>', FileType::Regular, none), b">f.........");
        assert_eq!(&line(b'h', FileType::Regular, none), b"hf         ");
        assert_eq!(&line(b'.', FileType::Directory, Differences { time: true, ..none }), b".d..t......");
    }
}
