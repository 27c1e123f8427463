//! Names of values on the command line.

use clap::ValueEnum;

pub(crate) trait ValueName: ValueEnum {
    /// Returns the name on the command line, which reports use too.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl<T: ValueEnum> ValueName for T {}
