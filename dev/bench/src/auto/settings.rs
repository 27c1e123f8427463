//! haul's own choice, and the settings that can be forced.

use super::sets::FileSet;

/// Name of haul's own choice.
pub(crate) const AUTO: &str = "auto";

/// Options of haul.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) words: &'static [&'static str],
    applies: fn(&FileSet, Waits) -> bool,
}

/// Whether the file system makes every request wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    Yes,
}

/// All settings, haul's own choice first. One that does the same as another for a set is left out
/// there.
const SETTINGS: [Setting; 11] = [
    Setting { name: AUTO, words: &[], applies: |_, _| true },
    Setting { name: "sync", words: &["--engine=sync"], applies: |_, _| true },
    Setting {
        name: "sync -j1",
        words: &["--engine=sync", "-j1"],
        applies: |set, waits| waits == Waits::No && set.can_be_shared(),
    },
    Setting {
        name: "sync -j2",
        words: &["--engine=sync", "-j2"],
        applies: |set, waits| waits == Waits::No && set.can_be_shared(),
    },
    Setting { name: "io-uring", words: &["--engine=io-uring"], applies: |_, _| true },
    Setting {
        name: "io-uring multi",
        words: &["--engine=io-uring", "--ops=multi"],
        applies: |set, _| set.has_data(),
    },
    Setting {
        name: "retry",
        words: &["--engine=retry"],
        applies: |set, waits| waits == Waits::No && set.has_data(),
    },
    Setting { name: "1 MiB blocks", words: &["--block-size=1M"], applies: |set, _| set.has_blocks() },
    Setting { name: "-j4", words: &["-j4"], applies: |_, waits| waits == Waits::Yes },
    Setting { name: "-j16", words: &["-j16"], applies: |_, waits| waits == Waits::Yes },
    Setting { name: "-j64", words: &["-j64"], applies: |_, waits| waits == Waits::Yes },
];

/// Returns the settings that are measured for `set`, haul's own choice first.
pub(super) fn for_set(set: &FileSet, waits: Waits) -> Vec<Setting> {
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
        assert_eq!(names("symlinks", Waits::No), ["auto", "sync", "sync -j1", "sync -j2", "io-uring"]);
        assert_eq!(names("symlinks", Waits::Yes), ["auto", "sync", "io-uring", "-j4", "-j16", "-j64"]);
        let one = ["auto", "sync", "io-uring", "io-uring multi", "retry", "1 MiB blocks"];
        assert_eq!(names("one", Waits::No), one);
        assert_eq!(names("many", Waits::No).len(), 7);
    }
}
