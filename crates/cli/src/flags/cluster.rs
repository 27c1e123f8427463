//! Values of the flags for many hosts: times, command lines, names for a batch system, and layouts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use haul_cluster::{Options, Walk};
use haul_copy::{Dereference, LayoutRule};
use haul_flow::BLOCK_BYTES as USUAL_BLOCK_BYTES;

use super::lower::{BLOCK_BYTES, Interactive};
use super::values::{self, Bounds};
use super::{Error, Typed};

/// `--clients`.
pub(crate) const CLIENTS: Bounds = Bounds { least: 1, most: 1 << 20, text: "1 to 1048576" };
/// `--io-factor`.
const IO_FACTOR: Bounds = Bounds { least: 1, most: 4096, text: "1 to 4096" };
/// `--range-size`: at least a page, so that no page has two writers.
const RANGE_BYTES: Bounds = Bounds { least: 4 << 10, most: 1 << 50, text: "4K to 1P" };
/// Maximum walltime, in seconds: a year.
const WALLTIME_SECONDS_MAX: u64 = 366 * 24 * 3600;

/// The layout flags as given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    pub(super) copy: bool,
    pub(super) reduce: bool,
    pub(super) no_offset: bool,
}

impl Layout {
    /// Combines the flags: each of the two that change a layout implies copying it.
    pub(super) fn rule(self) -> LayoutRule {
        if self.copy || self.reduce || self.no_offset {
            LayoutRule::Copy { reduce: self.reduce, keep_first_target: !self.no_offset }
        } else {
            LayoutRule::Inherit
        }
    }
}

impl Typed {
    /// `--clients`.
    pub(super) fn set_clients(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        let clients = values::count(flag, value, CLIENTS)?;
        self.cluster.clients = u32::try_from(clients).ok();
        Ok(())
    }

    /// `--account`.
    pub(super) fn set_account(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        self.cluster.account = Some(name(flag, value)?);
        self.needs_clients(flag);
        Ok(())
    }

    /// `--queue`.
    pub(super) fn set_queue(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        self.cluster.queue = Some(name(flag, value)?);
        self.needs_clients(flag);
        Ok(())
    }

    /// `--walltime`.
    pub(super) fn set_walltime(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        self.cluster.walltime = Some(walltime(flag, value)?);
        self.needs_clients(flag);
        Ok(())
    }

    /// `--launcher`.
    pub(super) fn set_launcher(&mut self, value: &[u8]) -> Result<(), Error> {
        const FLAG: &str = "--launcher";
        let words = value.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
        if words.is_empty() {
            return Err(refused(FLAG, value, "a command line, like 'mpirun --host a,b'"));
        }
        self.cluster.launcher = Some(words);
        self.needs_clients(FLAG);
        Ok(())
    }

    /// `--mpi-lib`.
    pub(super) fn set_mpi_library(&mut self, value: &[u8]) -> Result<(), Error> {
        const FLAG: &str = "--mpi-lib";
        self.cluster.mpi_library = Some(path(FLAG, value)?);
        self.needs_ranks(FLAG);
        Ok(())
    }

    /// `--journal`.
    pub(super) fn set_journal(&mut self, value: &[u8]) -> Result<(), Error> {
        const FLAG: &str = "--journal";
        self.cluster.journal = Some(path(FLAG, value)?);
        self.needs_ranks(FLAG);
        Ok(())
    }

    /// `--range-size`.
    pub(super) fn set_range_bytes(&mut self, value: &[u8]) -> Result<(), Error> {
        const FLAG: &str = "--range-size";
        let bytes = values::size(FLAG, value, RANGE_BYTES)?;
        self.cluster.range_bytes = Some(bytes as u64);
        self.needs_ranks(FLAG);
        Ok(())
    }

    /// `--walk`.
    pub(super) fn set_walk(&mut self, value: &[u8]) -> Result<(), Error> {
        const FLAG: &str = "--walk";
        self.cluster.walk = values::choose(FLAG, value, values::WALK)?;
        self.needs_ranks(FLAG);
        Ok(())
    }

    /// `--io-factor`.
    pub(super) fn set_io_factor(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        let factor = values::count(flag, value, IO_FACTOR)?;
        self.io_factor = Some((flag, factor));
        Ok(())
    }

    /// Records the first flag about starting a job, which is meaningless without one.
    fn needs_clients(&mut self, flag: &'static str) {
        self.without_job.get_or_insert(flag);
    }

    /// Records the first flag about how several ranks share the work.
    fn needs_ranks(&mut self, flag: &'static str) {
        self.without_ranks.get_or_insert(flag);
    }

    /// Computes the block size, once all flags are known.
    pub(super) fn settle_block_bytes(&mut self) -> Result<(), Error> {
        let Some((flag, factor)) = self.io_factor else { return Ok(()) };
        let bytes = self.config.block_bytes.unwrap_or(USUAL_BLOCK_BYTES).saturating_mul(factor);
        if bytes > BLOCK_BYTES.most {
            let wanted = "less, as a block has at most 1 GiB";
            return Err(refused(flag, factor.to_string().as_bytes(), wanted));
        }
        self.config.block_bytes = Some(bytes);
        Ok(())
    }

    /// Checks that job flags apply to a job: one that is started, or one this process is a rank of.
    pub(super) fn check_job(&self, clients: &'static str, is_rank: bool) -> Result<(), Error> {
        let without_ranks = self.without_ranks.filter(|_| !is_rank);
        match self.without_job.or(without_ranks) {
            Some(flag) if self.cluster.clients.is_none() => Err(Error::Requires { flag, other: clients }),
            _ => self.check_useless(),
        }
    }

    /// Checks that no flag makes another useless: work of the launch process itself is not
    /// journaled, and no batch job is submitted if the user says how to start the ranks.
    fn check_useless(&self) -> Result<(), Error> {
        let Options { account, queue, walltime, launcher, journal, walk, range_bytes, .. } = &self.cluster;
        let of_batch = [
            ("--account", account.is_some()),
            ("--queue", queue.is_some()),
            ("--walltime", walltime.is_some()),
        ];
        let of_ranks = [
            ("--journal", journal.is_some()),
            ("--walk=ranks", *walk == Walk::Ranks),
            ("--range-size", range_bytes.is_some()),
        ];
        let alone = [("--interactive", self.interactive == Interactive::Ask), ("--backup", self.backs_up())];
        let follows = self.dereference == Some(Dereference::Always);
        let pairs = of_ranks.into_iter().flat_map(|flag| alone.map(|other| (flag, other)));
        let pairs = pairs.chain(of_batch.map(|flag| (flag, ("--launcher", launcher.is_some()))));
        let mut pairs = pairs.chain([(of_ranks[1], ("--dereference", follows))]);
        match pairs.find(|((_, given), (_, useless))| *given && *useless) {
            Some(((flag, _), (other, _))) => Err(Error::Useless { flag, other }),
            None => Ok(()),
        }
    }
}

fn refused(flag: &'static str, value: &[u8], wanted: &str) -> Error {
    Error::Number { value: value.to_vec(), flag, wanted: wanted.to_owned() }
}

/// Parses a name for a batch system. It ends up on command lines of other programs, so spaces,
/// control characters and leading dashes are refused.
pub(crate) fn name(flag: &'static str, value: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if text.is_empty() || text.starts_with('-') || text.contains(odd) {
        return Err(refused(flag, value, "a name without spaces that begins with no dash"));
    }
    Ok(text.to_owned())
}

fn path(flag: &'static str, value: &[u8]) -> Result<PathBuf, Error> {
    if value.is_empty() || value.contains(&0) {
        return Err(refused(flag, value, "the name of a file"));
    }
    Ok(PathBuf::from(OsString::from_vec(value.to_vec())))
}

/// Parses a duration: seconds, `MM:SS` or `HH:MM:SS`.
pub(crate) fn walltime(flag: &'static str, value: &[u8]) -> Result<Duration, Error> {
    let number = |digits: &str| -> Option<u64> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let sixtieths = |digits: &str| number(digits).filter(|number| *number < 60);
    let text = std::str::from_utf8(value).unwrap_or_default();
    let parts: Vec<_> = text.split(':').collect();
    let seconds = match parts.as_slice() {
        [seconds] => number(seconds),
        [minutes, seconds] => number(minutes)
            .zip(sixtieths(seconds))
            .and_then(|(minutes, seconds)| minutes.checked_mul(60)?.checked_add(seconds)),
        [hours, minutes, seconds] => number(hours).zip(sixtieths(minutes).zip(sixtieths(seconds))).and_then(
            |(hours, (minutes, seconds))| hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds),
        ),
        _ => None,
    };
    seconds
        .filter(|seconds| (1..=WALLTIME_SECONDS_MAX).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| refused(flag, value, "a time of up to a year, like 3600, 60:00 or 1:00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_colons() {
        let seconds = |text: &str| walltime("-w", text.as_bytes()).map(|time| time.as_secs()).ok();
        assert_eq!(
            [seconds("1"), seconds("090"), seconds("31622400")],
            [Some(1), Some(90), Some(31_622_400)]
        );
        assert_eq!([seconds("1:30"), seconds("120:00"), seconds("0:01")], [Some(90), Some(7200), Some(1)]);
        assert_eq!([seconds("1:00:00"), seconds("48:59:59")], [Some(3600), Some(176_399)]);
        for bad in [
            "",
            "0",
            "0:00",
            "1:60",
            "1:60:00",
            "1:00:60",
            ":",
            "1:",
            ":1",
            "1:2:3:4",
            "+1",
            "-1",
            "1.5",
            " 1",
            "1h",
            "31622401",
            "18446744073709551615:00",
            "18446744073709551616",
            "\u{661}",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_for_batch_systems_are_single_words() {
        let read = |text: &str| name("-q", text.as_bytes()).ok();
        assert_eq!(read("debug,batch@x").as_deref(), Some("debug,batch@x"));
        for bad in ["", "-x", "a b", "a\nb", "a\u{7f}"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert!(name("-q", b"\xff").is_err());
    }

    fn request(line: &[&str]) -> Result<Box<super::super::Request>, Error> {
        let words: Vec<_> = line.iter().map(OsString::from).collect();
        match super::super::parse(&words, super::super::Environment::default(), &mut |_| {})? {
            super::super::Parsed::Copy(request) => Ok(request),
            super::super::Parsed::Tell(told) => panic!("{told:?}"),
        }
    }

    #[test]
    fn a_job_is_described_by_its_flags() {
        let line = [
            "--clients=64",
            "--account=p",
            "--walltime=1:30",
            "--queue=q",
            "--walk=ranks",
            "--mpi-lib=/a/libmpi.so",
            "--range-size=1M",
            "--journal",
            "j",
            "a",
            "b",
        ];
        let wanted = haul_cluster::Options {
            clients: Some(64),
            account: Some("p".to_owned()),
            walltime: Some(Duration::from_secs(90)),
            queue: Some("q".to_owned()),
            walk: haul_cluster::Walk::Ranks,
            mpi_library: Some(PathBuf::from("/a/libmpi.so")),
            launcher: None,
            journal: Some(PathBuf::from("j")),
            range_bytes: Some(1 << 20),
        };
        assert_eq!(request(&line).unwrap().cluster, wanted);
        assert_eq!(request(&["a", "b"]).unwrap().cluster, haul_cluster::Options::default());
        let words =
            request(&["--clients=2", "--launcher=srun  --mpi=pmix", "a", "b"]).unwrap().cluster.launcher;
        assert_eq!(words, Some(vec!["srun".into(), "--mpi=pmix".into()]));
    }

    #[test]
    fn what_describes_no_job_is_refused() {
        // All cluster flags but those for layouts and block size, which also work on one machine.
        let alone = ["--clients", "--copy-layout", "--reduce-stripes", "--no-stripe-offset", "--io-factor"];
        let valued = [
            "--account=1",
            "--walltime=1",
            "--queue=1",
            "--launcher=1",
            "--mpi-lib=1",
            "--walk=ranks",
            "--range-size=1M",
            "--journal=1",
        ];
        let flags = super::super::table::TABLE.iter().filter(|flag| flag.cluster);
        let flags =
            flags.map(|flag| format!("--{}", flag.long)).filter(|flag| !alone.contains(&flag.as_str()));
        assert_eq!(flags.collect::<Vec<_>>(), valued.map(|word| word.split('=').next().unwrap()));
        for word in valued {
            let refused = request(&[word, "a", "b"]).expect_err(word);
            let flag = word.split('=').next().unwrap();
            assert!(matches!(refused, Error::Requires { flag: told, other: "--clients" } if told == flag));
        }
        // A rank started by a launcher shares the work too.
        for (word, is_taken) in valued.into_iter().zip([false, false, false, false, true, true, true, true]) {
            let words = [word, "a", "b"].map(OsString::from);
            let rank = super::super::Environment { is_rank: true, ..Default::default() };
            assert_eq!(super::super::parse(&words, rank, &mut |_| {}).is_ok(), is_taken, "{word}");
        }
        for word in [
            "--clients=0",
            "--clients=x",
            "--clients=",
            "--walltime=x",
            "--queue=",
            "--launcher= ",
            "--mpi-lib=",
            "--journal=",
            "--range-size=4095",
            "--range-size=x",
            "--io-factor=0",
            "--io-factor=1.5",
            "--account=a b",
        ] {
            let refused = request(&["--clients=2", word, "a", "b"]).expect_err(word);
            assert!(matches!(refused, Error::Number { .. }), "{word}: {refused:?}");
        }
        assert!(matches!(request(&["--walk=both"]), Err(Error::Value { .. })));
    }

    /// Each flag that another makes useless is refused with it, and accepted without it.
    #[test]
    fn flags_that_others_make_useless_are_refused() {
        let table = [
            ("--journal=j", "--interactive"),
            ("--journal=j", "--backup"),
            ("--walk=ranks", "--interactive"),
            ("--walk=ranks", "--backup"),
            ("--walk=ranks", "--dereference"),
            ("--range-size=1M", "--interactive"),
            ("--range-size=1M", "--backup"),
            ("--account=p", "--launcher=mpirun"),
            ("--queue=q", "--launcher=mpirun"),
            ("--walltime=1", "--launcher=mpirun"),
        ];
        for (flag, other) in table {
            let refused = request(&["--clients=2", flag, other, "a", "b"]).expect_err(flag);
            let Error::Useless { flag: told, other: why } = refused else {
                panic!("{flag} {other}: {refused:?}")
            };
            assert!(flag.starts_with(told) && other.starts_with(why), "{flag} {other}: {told} {why}");
            assert!(request(&["--clients=2", flag, "a", "b"]).is_ok(), "{flag}");
            assert!(request(&["--clients=2", other, "a", "b"]).is_ok(), "{other}");
        }
    }

    #[test]
    fn a_factor_multiplies_blocks_wherever_it_stands() {
        let bytes = |line: &[&str]| request(line).map(|request| request.config.block_bytes);
        assert_eq!(bytes(&["--io-factor=3", "--block-size=4K", "a", "b"]), Ok(Some(12 << 10)));
        assert_eq!(bytes(&["--io-factor=2", "a", "b"]), Ok(Some(2 * USUAL_BLOCK_BYTES)));
        assert!(bytes(&["--io-factor=4096", "--block-size=1M"]).is_err());
    }

    #[test]
    fn a_changed_layout_is_a_copied_one() {
        let rule = |line: &[&str]| request(line).unwrap().options.layout;
        let copy = |reduce, keep_first_target| LayoutRule::Copy { reduce, keep_first_target };
        assert_eq!(rule(&["a", "b"]), LayoutRule::Inherit);
        assert_eq!(rule(&["--copy-layout", "a", "b"]), copy(false, true));
        assert_eq!(rule(&["--reduce-stripes", "a", "b"]), copy(true, true));
        assert_eq!(rule(&["--no-stripe-offset", "--copy-layout", "a", "b"]), copy(false, false));
    }
}
