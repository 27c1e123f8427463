//! `--debug`: GNU's line about each copied file, and a remark of haul's own.
//!
//! GNU's line reports whether the kernel copied the data (`copy_file_range`), whether blocks are
//! shared (`FICLONE`), and how holes were found. Its words keep their GNU meaning: under `--debug`
//! a file that haul would copy in blocks is offered to the kernel first, because GNU does so with
//! every file. haul's remark, on standard error, reports how the data was copied, and how it would
//! be without `--debug` if that differs.

use haul_flow::{Context, HELP_BYTES_MIN, Holes, OpenFile, OutputLine};
use haul_sys::{Fd, Stat, suits_two_workers};

use super::entry_copy::EntryCopy;
use super::options::{Reflink, Sparse};
use super::{Copier, CopyKind};

/// Why a file is copied in blocks rather than offered to the kernel; `None` if it is offered.
pub(super) fn why_in_blocks(
    copy: EntryCopy<'_>,
    source: &Fd,
    stat: &Stat,
    holes: Holes,
) -> Option<&'static str> {
    if copy.entry.node.own.held.identity().device != stat.identity.device {
        Some("it goes to another file system")
    } else if holes == Holes::Skip {
        Some("it has holes")
    } else if stat.size < copy.copier.offload_bytes {
        Some("it is short")
    } else if stat.size >= HELP_BYTES_MIN && suits_two_workers(source).unwrap_or(false) {
        Some("it is large enough for two workers")
    } else {
        None
    }
}

/// Prints both lines for a regular file.
pub(super) fn print_file(copy: EntryCopy<'_>, file: &OpenFile<Copier>) {
    let offload = offload_word(copy.copier, file);
    let reflink = match copy.options.reflink {
        _ if file.own.reflinked => "yes",
        Reflink::Never => "no",
        _ => "unsupported",
    };
    let sparse = match (copy.options.sparse, file.own.skips_holes) {
        _ if file.own.reflinked => "unknown",
        (Sparse::Always, true) if file.was_read_in_blocks() => "SEEK_HOLE + zeros",
        (_, true) => "SEEK_HOLE",
        (Sparse::Always, false) => "zeros",
        _ => "no",
    };
    print(copy.cx, [offload, reflink, sparse]);
    let holes = if file.own.skips_holes { Holes::Skip } else { Holes::Read };
    let way = match offload {
        _ if file.own.reflinked => "shares the blocks of its source".to_owned(),
        "yes" => match why_in_blocks(copy.with(&file.entry), &file.source, &file.stat, holes) {
            Some(why) => format!("copied in the kernel; without --debug in blocks, as {why}"),
            None => "copied in the kernel".to_owned(),
        },
        "unsupported" => "copied in blocks, as the kernel cannot copy it".to_owned(),
        _ if file.was_read_in_blocks() => "copied in blocks".to_owned(),
        _ => "has no data to copy".to_owned(),
    };
    copy.cx.report().debug(&format!("{}: {way}", String::from_utf8_lossy(&file.entry.path())));
}

fn offload_word(copier: &Copier, file: &OpenFile<Copier>) -> &'static str {
    let is_refused = copier.options.sparse == Sparse::Always || copier.options.reflink == Reflink::Never;
    match file.was_read_in_blocks() {
        _ if file.own.reflinked => "unknown",
        _ if file.was_copied_by_kernel() => "yes",
        true if file.own.offloaded => "unsupported",
        true => "avoided",
        // With no data nothing was tried, but GNU decides what options rule out before
        // it reads.
        false if is_refused && !file.own.skips_holes => "avoided",
        false => "unknown",
    }
}

/// Prints GNU's line for a file whose target could not be created, or whose blocks could not
/// be shared.
pub(super) fn print_failed(copy: EntryCopy<'_>, reflink: &'static str) {
    if copy.options.debug {
        let is_never = copy.options.reflink == Reflink::Never;
        print(copy.cx, ["unknown", if is_never { "no" } else { reflink }, "unknown"]);
    }
}

/// Prints GNU's line for a file copied as a stream.
pub(super) fn print_stream(copy: EntryCopy<'_>) {
    if copy.options.debug {
        let words = match copy.options.reflink {
            Reflink::Never => ["avoided", "no", "no"],
            _ => ["unsupported", "unsupported", "no"],
        };
        print(copy.cx, words);
    }
}

fn print(cx: &Context<'_, Copier>, words: [&str; 3]) {
    let names = words.map(|word| word.as_bytes().to_vec()).into();
    cx.report().line(OutputLine::new(CopyKind::HowCopied, names));
}
