//! haul's own choice, and the settings that can be forced.

use super::sets::FileSet;

/// Name of haul's own choice.
pub(crate) const AUTO: &str = "auto";

/// Options of haul.
#[derive(Clone, Copy, Debug)]
pub(super) struct AutoSetting {
    pub(super) name: &'static str,
    pub(super) words: &'static [&'static str],
    applies: fn(&FileSet, RequestLatency) -> bool,
}

/// `Yes` if the file system makes every request wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestLatency {
    No,
    Yes,
}

/// All settings, haul's own choice first. One that does the same as another for a set is left out
/// there.
const SETTINGS: [AutoSetting; 11] = [
    AutoSetting { name: AUTO, words: &[], applies: |_, _| true },
    AutoSetting { name: "sync", words: &["--engine=sync"], applies: |_, _| true },
    AutoSetting {
        name: "sync -j1",
        words: &["--engine=sync", "-j1"],
        applies: |set, waits| waits == RequestLatency::No && set.can_be_shared(),
    },
    AutoSetting {
        name: "sync -j2",
        words: &["--engine=sync", "-j2"],
        applies: |set, waits| waits == RequestLatency::No && set.can_be_shared(),
    },
    AutoSetting { name: "io-uring", words: &["--engine=io-uring"], applies: |_, _| true },
    AutoSetting {
        name: "io-uring multi",
        words: &["--engine=io-uring", "--ops=multi"],
        applies: |set, _| set.has_data(),
    },
    AutoSetting {
        name: "retry",
        words: &["--engine=retry"],
        applies: |set, waits| waits == RequestLatency::No && set.has_data(),
    },
    AutoSetting { name: "1 MiB blocks", words: &["--block-size=1M"], applies: |set, _| set.has_blocks() },
    AutoSetting { name: "-j4", words: &["-j4"], applies: |_, waits| waits == RequestLatency::Yes },
    AutoSetting { name: "-j16", words: &["-j16"], applies: |_, waits| waits == RequestLatency::Yes },
    AutoSetting { name: "-j64", words: &["-j64"], applies: |_, waits| waits == RequestLatency::Yes },
];

/// Returns the settings that are measured for `set`, haul's own choice first.
pub(super) fn for_set(set: &FileSet, waits: RequestLatency) -> Vec<AutoSetting> {
    SETTINGS.into_iter().filter(|setting| (setting.applies)(set, waits)).collect()
}

/// Returns the names of all settings, in the order of the tables.
pub(crate) fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto::sets::SETS;

    #[test]
    fn a_setting_that_changes_nothing_is_left_out() {
        let names = |name: &str, waits| -> Vec<&str> {
            let set = SETS.into_iter().find(|set| set.name == name).unwrap();
            for_set(&set, waits).iter().map(|setting| setting.name).collect()
        };
        assert_eq!(
            names("symlinks", RequestLatency::No),
            ["auto", "sync", "sync -j1", "sync -j2", "io-uring"]
        );
        assert_eq!(
            names("symlinks", RequestLatency::Yes),
            ["auto", "sync", "io-uring", "-j4", "-j16", "-j64"]
        );
        let one = ["auto", "sync", "io-uring", "io-uring multi", "retry", "1 MiB blocks"];
        assert_eq!(names("one", RequestLatency::No), one);
        assert_eq!(names("many", RequestLatency::No).len(), 7);
    }
}
