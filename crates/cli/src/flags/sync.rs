//! The flags of `haul sync`: the flags of `cp` that apply, and those that define when a file has
//! changed.

use std::ffi::OsString;

use haul_copy::{Atomic, Dereference, Preserve, UpdateRule};

use super::Action::{Optional, Plain, Required};
use super::lower::Typed;
use super::shared::{self, MACHINE};
use super::table::{COPYING, HOSTS};
use super::values::{self, Bounds};
use super::{AppletCommand, CopyCommand, Environment, FlagError, Sharing, after_preset};

/// `--modify-window`, in seconds.
const WINDOW: Bounds = Bounds { least: 0, most: 1 << 31, text: "0 to 2147483648" };

pub(crate) static COMMAND: AppletCommand<Typed> = AppletCommand {
    usage: &["[OPTION]... SOURCE TARGET"],
    about: "Make TARGET equal to SOURCE: copy missing and changed entries with all their attributes, and leave the \
            rest alone. Entries only in TARGET stay, unless --delete is given. A \
            trailing slash on either name makes no difference: the contents of the directories are compared.\n\
            Arguments required by a long option are also required by its short form.",
    sections: &[("", OWN), (MACHINE, COPYING), (shared::HOSTS, HOSTS)],
    sharing: Sharing::All,
    notes: "\
Exit status is 0 if TARGET has everything that SOURCE has, and 1 if not; standard error says what is missing.

Examples:
  haul sync --delete --dry-run /srv/photos /mnt/backup/photos
  haul sync --delete /srv/photos /mnt/backup/photos
  haul sync --link-dest=../monday /srv/photos /mnt/backup/tuesday",
};

type SyncFlag = super::FlagSpec<Typed>;

static OWN: &[SyncFlag] = &[
    SyncFlag::own(
        "-a --archive",
        Plain(keep_everything),
        "copy directories recursively, and preserve all attributes (always on)",
    ),
    SyncFlag::own(
        "-r --recursive",
        Plain(Typed::recurse),
        "copy directories recursively (always on, except for directories in the list of --files-from)",
    ),
    SyncFlag::own(
        "-H --hard-links",
        Plain(|typed| typed.preserve |= Preserve::LINKS),
        "preserve hard links (always on)",
    ),
    SyncFlag::own("-A --acls", Plain(|typed| typed.preserve |= Preserve::MODE), "keep ACLs (always on)"),
    SyncFlag::own(
        "-X --xattrs",
        Plain(|typed| typed.preserve |= Preserve::XATTR),
        "keep extended attributes (always on)",
    ),
    SyncFlag::own(
        "-c --checksum",
        Plain(|typed| typed.difference().by_content = true),
        "find changed files by comparing contents, not by size and modification time",
    ),
    SyncFlag::own(
        "--modify-window",
        Required("SECONDS", |typed, value| {
            value.count(WINDOW).map(|seconds| typed.difference().window = seconds as u32)
        }),
        "treat modification times that differ by at most SECONDS as equal (1 for FAT)",
    ),
    SyncFlag::own(
        "-u --update",
        Plain(|typed| typed.difference().keeps_newer = true),
        "skip files that are newer in TARGET",
    ),
    SyncFlag::own(
        "--existing",
        Plain(|typed| typed.difference().only_existing = true),
        "update only what TARGET already has, and create nothing",
    ),
    SyncFlag::own(
        "--ignore-existing",
        Plain(|typed| typed.difference().only_missing = true),
        "copy only entries missing from TARGET; existing ones are left unchanged, except for directories",
    ),
    SyncFlag::own(
        "--delete",
        Plain(|typed| typed.deletion.wanted = true),
        "delete entries that are not in SOURCE, once everything else has succeeded; excluded entries are kept",
    ),
    SyncFlag::own(
        "--delete-excluded",
        Plain(|typed| {
            typed.deletion.wanted = true;
            typed.deletion.excluded = true;
        }),
        "like --delete, and also delete excluded entries from TARGET",
    ),
    SyncFlag::own(
        "--max-delete",
        Required("N", |typed, value| value.deletions().map(|limit| typed.deletion.limit = Some(limit))),
        "delete nothing at all if more than N entries, or N% of TARGET, would be deleted; the default is 50% if TARGET \
         has more than 1000 entries",
    ),
    SyncFlag::own(
        "--really",
        Plain(|typed| typed.deletion.really = true),
        "let --delete work on your home directory, on the root of a mounted file system, and with an empty SOURCE",
    ),
    SyncFlag::own(
        "--inplace",
        Plain(|typed| typed.atomic = Some(Atomic::Never)),
        "overwrite existing files in place, instead of writing a new file and renaming it",
    ),
    SyncFlag::own(
        "--backup-dir",
        Required("DIR", |typed, value| value.path().map(|path| typed.backup_dir = Some(path))),
        "move replaced and deleted files to DIR, keeping their paths relative to TARGET; DIR is relative to TARGET and \
         must be outside it",
    ),
    SyncFlag::own(
        "--link-dest",
        Required("DIR", |typed, value| value.path().map(|path| typed.link_dest.push(path))),
        "make hard links to files in the earlier copy DIR that are unchanged, attributes included, instead of copying; \
         DIR is relative to TARGET; may be repeated",
    ),
    SyncFlag::own(
        "-n --dry-run",
        Plain(|typed| typed.dry_run = true),
        "print what would be copied, deleted, or only given new attributes, and change nothing",
    ),
    SyncFlag::own(
        "-L --dereference",
        Plain(|typed| typed.dereference = Some(Dereference::Always)),
        "follow all symbolic links in SOURCE",
    ),
    SyncFlag::own(
        "-x --one-file-system",
        Plain(|typed| typed.one_file_system = true),
        "do not descend into other file systems",
    ),
    SyncFlag::own(
        "--no-preserve",
        Required("ATTR_LIST", Typed::no_preserve),
        "do not preserve these attributes, separated by commas: mode, ownership, timestamps, links, xattr",
    ),
    SyncFlag::own(
        "--sparse",
        Required("WHEN", |typed, value| value.choose(values::SPARSE).map(|when| typed.sparse = when)),
        "create sparse files: auto (holes where SOURCE has them), always (wherever there are zeros), or never",
    ),
    SyncFlag::own(
        "--reflink",
        Optional("WHEN", Typed::share_blocks),
        "share data blocks with SOURCE: auto (if the file system can), always (or fail; the default for WHEN), or never",
    ),
    SyncFlag::own(
        "--rsync-status",
        Plain(|typed| typed.rsync_status = true),
        "exit with 23 instead of 1 if something could not be copied, or with 24 if that is only because files vanished \
         from SOURCE",
    ),
    SyncFlag::own(
        "-i --itemize-changes",
        Plain(|typed| typed.itemize = true),
        "print a line for each change, in the format of rsync",
    ),
    SyncFlag::own(
        "-v --verbose",
        Plain(|typed| typed.verbose = true),
        "print the name of each file that is copied, deleted, or only given new attributes",
    ),
    SyncFlag::own(
        "--debug",
        Plain(|typed| typed.debug = true),
        "print how each file is copied and how the run was set up; implies -v",
    ),
    SyncFlag::help("--help"),
    SyncFlag::version("--version"),
];

/// Sets the defaults of a sync: it copies the whole tree with all attributes it can preserve.
fn keep_everything(typed: &mut Typed) {
    let dereference = typed.dereference;
    typed.archive();
    typed.dereference = dereference;
}

/// Parses the arguments.
///
/// # Errors
/// The first error.
pub(crate) fn parse(words: &[OsString], environment: &Environment) -> Result<CopyCommand, FlagError> {
    let mut typed = Typed::default();
    let preset = COMMAND.preset(&mut typed, environment);
    keep_everything(&mut typed);
    typed.dereference = Some(Dereference::Operands);
    typed.no_target_directory = true;
    typed.atomic = Some(Atomic::Always);
    typed.sync = Some(UpdateRule::default());
    let parsed = COMMAND.parse(&mut typed, words, environment.posixly_correct);
    if let Some(information) = after_preset(preset, parsed)? {
        return Ok(CopyCommand::Print(information));
    }
    typed.check_job("--clients", environment.is_rank)?;
    typed.read_list()?;
    typed.lower(environment).map(|request| CopyCommand::Copy(Box::new(request)))
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;
    use crate::flags::LoweredCopy;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_sync_copies_as_the_library_does_unless_flags_say_otherwise() {
        let lowered = |line: &str| match parse(&words(line), &Environment::default()) {
            Ok(CopyCommand::Copy(request)) => *request,
            other => panic!("{line}: {other:?}"),
        };
        for words in
            ["a b", "-raHAX a b", "--no-preserve=mode,links,xattr -HAX a b", "--no-preserve=ownership -a a b"]
        {
            let LoweredCopy { options, sync, operands, .. } = lowered(words);
            assert_eq!(format!("{options:?}"), format!("{:?}", haul_sync::copy_options()), "{words}");
            assert_eq!(sync, haul_sync::Options::default());
            assert!(operands.no_target_directory);
        }
        let LoweredCopy { sync, .. } = lowered("--delete a b");
        assert_eq!(sync.deletion, Some(haul_sync::DeletionOptions::default()));
    }
}
