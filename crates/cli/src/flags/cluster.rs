//! The flags of `cp` about many hosts: layouts, block sizes, and how ranks share the work.

use haul_cluster::WalkPlacement;
use haul_copy::{Dereference, LayoutRule, OnFull};
use haul_digest::Algorithm;
use haul_flow::usual_block_bytes;

use super::values::{self, BLOCK_BYTES, Bounds};
use super::{FlagError, Typed, Value};

/// The last of `-i` and `-n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interactive {
    Unspecified,
    /// `-i`.
    Ask,
    /// `-n`.
    Keep,
}

const IO_FACTOR: Bounds = Bounds { least: 1, most: 4096, text: "1 to 4096" };
/// `--range-size`. Ranges are rounded up to whole MiB (`haul_cluster::schedule::RANGE_UNIT`).
const RANGE_BYTES: Bounds = Bounds { least: 4 << 10, most: 1 << 50, text: "4K to 1P" };

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpdcpLayout {
    pub(super) copy: bool,
    pub(super) reduce: bool,
    pub(super) no_offset: bool,
}

impl SpdcpLayout {
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
    pub(super) fn set_journal(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.shared.run.hosts.journal = Some(value.output_path()?);
        Ok(())
    }

    pub(super) fn set_range_bytes(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.shared.run.hosts.range_bytes = Some(value.size(RANGE_BYTES)? as u64);
        self.shared.needs_ranks(value.flag);
        Ok(())
    }

    pub(super) fn set_walk(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.shared.run.hosts.walk = value.choose(values::WALK)?;
        self.shared.needs_ranks(value.flag);
        Ok(())
    }

    pub(super) fn set_io_factor(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.io_factor = Some((value.flag, value.count(IO_FACTOR)?));
        Ok(())
    }

    /// Computes the block size, once all flags are known.
    pub(super) fn resolve_block_bytes(&mut self) -> Result<(), FlagError> {
        let Some((flag, factor)) = self.io_factor else { return Ok(()) };
        let config = &mut self.shared.run.config;
        let bytes =
            config.block_bytes.unwrap_or_else(|| usual_block_bytes(config.switches)).saturating_mul(factor);
        if bytes > BLOCK_BYTES.most {
            let factor = factor.to_string();
            let value = Value { flag, bytes: factor.as_bytes(), word: 0 };
            return Err(value.refused("less, as a block has at most 1 GiB"));
        }
        config.block_bytes = Some(bytes);
        Ok(())
    }

    /// Checks that job flags apply to a job, and that no flag makes another useless: work of the
    /// launch process itself is not journaled.
    pub(super) fn check_job(&self, clients: &'static str, is_rank: bool) -> Result<(), FlagError> {
        self.shared.check_job(clients, is_rank)?;
        let hosts = &self.shared.run.hosts;
        if self.on_full == OnFull::Pause && (is_rank || hosts.clients.is_some()) {
            // Each rank would wait by itself, and a rank that waits looks like one that is stuck.
            return Err(FlagError::Exclusive { flag: "--on-full=pause", other: clients });
        }
        let of_ranks = [
            ("--journal", hosts.journal.is_some()),
            ("--resume", self.resume),
            ("--walk=ranks", hosts.walk == WalkPlacement::Ranks),
            ("--range-size", hosts.range_bytes.is_some()),
        ];
        let alone = [("--interactive", self.interactive == Interactive::Ask), ("--backup", self.backs_up())];
        let follows = self.dereference == Some(Dereference::Always);
        let pairs = of_ranks.into_iter().flat_map(|flag| alone.map(|other| (flag, other)));
        // Only BLAKE3 can be computed from ranges.
        let needs_order = self.hash.is_some_and(|hash| hash != Algorithm::Blake3);
        let mut pairs =
            pairs.chain([(of_ranks[2], ("--dereference", follows)), (of_ranks[3], ("--hash", needs_order))]);
        match pairs.find(|((_, given), (_, useless))| *given && *useless) {
            Some(((flag, _), (other, _))) => Err(FlagError::Useless { flag, other }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn request(line: &[&str]) -> Result<Box<super::super::LoweredCopy>, FlagError> {
        let words: Vec<_> = line.iter().map(OsString::from).collect();
        match super::super::parse(&words, super::super::Environment::default(), &mut |_| {})? {
            super::super::CopyCommand::Copy(request) => Ok(request),
            super::super::CopyCommand::Print(information) => panic!("{information:?}"),
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
            walk: haul_cluster::WalkPlacement::Ranks,
            mpi_library: Some(PathBuf::from("/a/libmpi.so")),
            launcher: None,
            journal: Some(PathBuf::from("j")),
            range_bytes: Some(1 << 20),
        };
        assert_eq!(request(&line).unwrap().run.hosts, wanted);
        assert_eq!(request(&["a", "b"]).unwrap().run.hosts, haul_cluster::Options::default());
        let words =
            request(&["--clients=2", "--launcher=srun  --mpi=pmix", "a", "b"]).unwrap().run.hosts.launcher;
        assert_eq!(words, Some(vec!["srun".into(), "--mpi=pmix".into()]));
    }

    #[test]
    fn several_processes_do_not_pause() {
        assert!(request(&["--on-full=stop", "--clients=2", "a", "b"]).is_ok());
        let refused = request(&["--on-full=pause", "--clients=2", "a", "b"]).expect_err("with --clients");
        assert_eq!(refused, FlagError::Exclusive { flag: "--on-full=pause", other: "--clients" });
        let words = ["--on-full=pause", "a", "b"].map(OsString::from);
        let rank = super::super::Environment { is_rank: true, ..Default::default() };
        assert!(super::super::parse(&words, rank, &mut |_| {}).is_err());
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
        ];
        let specs = super::super::COMMAND.specs().into_iter();
        let specs = specs.filter(|spec| spec.section == super::super::shared::HOSTS);
        let mut flags: Vec<_> = specs.map(|spec| spec.name()).filter(|flag| !alone.contains(flag)).collect();
        let mut wanted = valued.map(|word| word.split('=').next().unwrap());
        flags.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(flags, wanted);
        for word in valued {
            let refused = request(&[word, "a", "b"]).expect_err(word);
            let flag = word.split('=').next().unwrap();
            assert!(
                matches!(refused, FlagError::Requires { flag: named, other: "--clients" } if named == flag)
            );
        }
        // A rank started by a launcher shares the work too.
        for (word, is_taken) in valued.into_iter().zip([false, false, false, false, true, true, true]) {
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
            assert!(matches!(refused, FlagError::Number { .. }), "{word}: {refused:?}");
        }
        assert!(matches!(request(&["--walk=both"]), Err(FlagError::Value { .. })));
    }

    /// Each flag that another makes useless is refused with it, and accepted without it.
    #[test]
    fn flags_that_others_make_useless_are_refused() {
        let table = [
            ("--journal=j", "--interactive"),
            ("--journal=j", "--backup"),
            ("--resume", "--interactive"),
            ("--resume", "--backup"),
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
            let FlagError::Useless { flag: named, other: why } = refused else {
                panic!("{flag} {other}: {refused:?}")
            };
            assert!(flag.starts_with(named) && other.starts_with(why), "{flag} {other}: {named} {why}");
            assert!(request(&["--clients=2", flag, "a", "b"]).is_ok(), "{flag}");
            assert!(request(&["--clients=2", other, "a", "b"]).is_ok(), "{other}");
        }
    }

    /// A file isn't cut into ranges if its bytes must be hashed in order.
    #[test]
    fn the_size_of_ranges_is_refused_with_a_hash_that_has_none() {
        let line = |hash| request(&["--clients=2", "--range-size=1M", "--manifest=m", hash, "a", "b"]);
        for hash in ["--hash=md5", "--hash=sha256", "--hash=xxh64", "--hash=xxh128"] {
            let refused = line(hash).expect_err(hash);
            assert_eq!(refused, FlagError::Useless { flag: "--range-size", other: "--hash" });
            assert!(request(&["--clients=2", "--manifest=m", hash, "a", "b"]).is_ok(), "{hash}");
        }
        assert!(line("--hash=blake3").is_ok());
    }

    #[test]
    fn a_factor_multiplies_blocks_wherever_it_stands() {
        let bytes = |line: &[&str]| request(line).map(|request| request.run.config.block_bytes);
        assert_eq!(bytes(&["--io-factor=3", "--block-size=4K", "a", "b"]), Ok(Some(12 << 10)));
        assert_eq!(bytes(&["--io-factor=2", "a", "b"]), Ok(Some(2 * haul_flow::BLOCK_BYTES)));
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
