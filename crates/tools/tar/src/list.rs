//! `haul tar -t`: lists the members of an archive, in the format of GNU tar.

use haul_flow::{OutputLine, Reporter};
use haul_sys::{LocalTime, Mode, local_time};

use super::format::MemberKind;
use super::prefix::PrefixReporter;
use super::read::archive;
use super::read::member::Member;
use super::read::select::{MemberSelection, confined, link_target};
use super::{Options, TarKind};

/// Initial width of owner, group and size together; it grows.
const FIRST_WIDTH: usize = 19;

/// Exit status of a run in which something failed.
const FAILED: u8 = 2;

/// Lists an archive; returns the exit status.
pub fn list(options: &Options, report: &dyn Reporter) -> u8 {
    let mut members = match archive::open(options) {
        Ok(members) => members,
        Err(problem) => {
            report.problem(problem);
            return FAILED;
        }
    };
    let (selection, prefixes) = (MemberSelection::new(options), PrefixReporter::new(options.confinement));
    let (mut problems, mut failed) = (Vec::new(), false);
    let mut lines = MemberLines::new(options.verbose.saturating_add(1), options.numeric_owner);
    loop {
        let next = members.next(&mut problems);
        failed |= archive::report_all(&mut problems, report);
        match next {
            Ok(Some(mut member)) => {
                if selection.wants(&member.name).is_some() {
                    confined(&prefixes, options, &member.name, TarKind::RemovingPrefix, report);
                    if member.kind == MemberKind::HardLink {
                        // GNU tar, too, strips components from it, but not from the name.
                        member.link = link_target(&prefixes, options, &member.link, report);
                    }
                    report.line(lines.line(&member));
                    if report.has_lost_output() {
                        return FAILED;
                    }
                }
            }
            Ok(None) => break,
            Err(failure) => {
                report.problem(archive::problem(options, failure));
                return FAILED;
            }
        }
    }
    failed |= archive::end(&mut members, options, report);
    failed |= selection.report_missing(report);
    if failed { FAILED } else { 0 }
}

pub(crate) struct MemberLines {
    verbose: u8,
    numeric_owner: bool,
    width: usize,
}

impl MemberLines {
    /// Creates a formatter of names only (1), or of everything known (2).
    pub(crate) fn new(verbose: u8, numeric_owner: bool) -> Self {
        Self { verbose, numeric_owner, width: FIRST_WIDTH }
    }

    pub(crate) fn line(&mut self, member: &Member) -> OutputLine {
        if self.verbose < 2 {
            return OutputLine::new(TarKind::Listed, vec![member.name.clone()]);
        }
        let owner = |name: &[u8], number: u32| match self.numeric_owner || name.is_empty() {
            true => number.to_string().into_bytes(),
            false => name.to_vec(),
        };
        let (user, group) = (owner(&member.user_name, member.user), owner(&member.group_name, member.group));
        let size = match member.kind {
            MemberKind::CharacterDevice | MemberKind::BlockDevice => {
                format!("{},{}", member.device.0, member.device.1)
            }
            _ => member.size.to_string(),
        };
        let taken = user.len() + 1 + group.len() + 1 + size.len();
        // Like GNU tar's, the column grows for long lines and never shrinks.
        self.width = self.width.max(taken);
        let fill = " ".repeat(self.width - taken);
        let date = date(member.modified.seconds);
        let before = [mode(letter(member), member.mode).as_slice(), b" ", &user, b"/", &group].concat();
        let middle = format!(" {fill}{size} {date} ").into_bytes();
        let mut names = vec![before, middle, member.name.clone()];
        let kind = match member.kind {
            MemberKind::Symlink => TarKind::ListedSymlink,
            MemberKind::HardLink => TarKind::ListedHardLink,
            MemberKind::Volume => TarKind::ListedVolume,
            MemberKind::Continued => TarKind::ListedContinued,
            MemberKind::Unknown(_) => TarKind::ListedUnknown,
            _ => TarKind::ListedLong,
        };
        match member.kind {
            MemberKind::Symlink | MemberKind::HardLink => names.push(member.link.clone()),
            MemberKind::Unknown(letter) => names.push(vec![letter]),
            _ => {}
        }
        OutputLine::new(kind, names)
    }
}

/// Formats a time in the local time zone.
fn date(seconds: i64) -> String {
    match local_time(seconds) {
        Some(LocalTime { year, month, day, hour, minute, .. }) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
        }
        None => seconds.to_string(),
    }
}

/// Returns the letter of a member's type.
fn letter(member: &Member) -> u8 {
    match member.kind {
        // Like GNU tar, even for a directory that is one only by its name's trailing slash.
        _ if member.is_contiguous => b'C',
        MemberKind::Regular => b'-',
        MemberKind::HardLink => b'h',
        MemberKind::Symlink => b'l',
        MemberKind::CharacterDevice => b'c',
        MemberKind::BlockDevice => b'b',
        MemberKind::Directory => b'd',
        MemberKind::Fifo => b'p',
        MemberKind::Volume => b'V',
        MemberKind::Continued => b'M',
        MemberKind::Unknown(_) => b'?',
    }
}

/// Formats a type and mode in ten letters.
fn mode(first: u8, mode: Mode) -> [u8; 10] {
    let bits = mode.bits();
    let has = |bit: u32, letter: u8| if bits & bit != 0 { letter } else { b'-' };
    let execute = |bit: u32, special: u32, letter: u8| match (bits & bit != 0, bits & special != 0) {
        (true, true) => letter,
        (false, true) => letter.to_ascii_uppercase(),
        (true, false) => b'x',
        (false, false) => b'-',
    };
    [
        first,
        has(0o400, b'r'),
        has(0o200, b'w'),
        execute(0o100, 0o4000, b's'),
        has(0o040, b'r'),
        has(0o020, b'w'),
        execute(0o010, 0o2000, b's'),
        has(0o004, b'r'),
        has(0o002, b'w'),
        execute(0o001, 0o1000, b't'),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_ls_writes_them() {
        for (bits, text) in
            [(0o644, "-rw-r--r--"), (0o7777, "-rwsrwsrwt"), (0o7000, "---S--S--T"), (0o1755, "-rwxr-xr-t")]
        {
            assert_eq!(mode(b'-', Mode::new(bits)), text.as_bytes());
        }
    }
}
