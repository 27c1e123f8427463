//! CephFS's layouts as text: the attributes `ceph.file.layout` and `ceph.dir.layout`.
//!
//! `stripe_unit=1048576 stripe_count=3 object_size=4194304 pool=cephfs_data [pool_namespace=N]`. The whole is set at once, on
//! a file that is still empty: set one by one, the parts would have to go together at every step, which they need not.

use std::ffi::CStr;

/// The attribute of files.
pub(super) const OF_FILE: &CStr = c"ceph.file.layout";
/// The attribute of directories.
pub(super) const OF_DIRECTORY: &CStr = c"ceph.dir.layout";

/// A layout of CephFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephLayout {
    /// Bytes of a stripe.
    pub stripe_unit: u64,
    /// Over how many objects stripes go round.
    pub stripe_count: u64,
    /// Bytes of an object.
    pub object_size: u64,
    /// The pool.
    pub pool: String,
    /// The part of the pool, if any.
    pub namespace: Option<String>,
}

impl CephLayout {
    /// Reads a layout; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
        let value = |key: &str| {
            let mut words = text.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let number = |key| value(key)?.parse().ok().filter(|number| *number > 0);
        Some(Self {
            stripe_unit: number("stripe_unit")?,
            stripe_count: number("stripe_count")?,
            object_size: number("object_size")?,
            pool: value("pool")?.to_owned(),
            namespace: value("pool_namespace").map(str::to_owned),
        })
    }

    /// Writes the layout.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { stripe_unit, stripe_count, object_size, pool, namespace } = self;
        let mut text = format!(
            "stripe_unit={stripe_unit} stripe_count={stripe_count} object_size={object_size} pool={pool}"
        );
        if let Some(namespace) = namespace {
            text.push_str(" pool_namespace=");
            text.push_str(namespace);
        }
        text.into_bytes()
    }

    /// Asks for no more stripes than `size` bytes use, at least one.
    #[must_use]
    pub fn reduced(mut self, size: u64) -> Self {
        self.stripe_count = self.stripe_count.min(size.div_ceil(self.stripe_unit).max(1));
        self
    }

    /// Returns how a file of `size` bytes is spread: in stripes, or, where these stay in one object, in objects.
    #[must_use]
    pub fn main_stripes(&self, size: u64) -> (u64, u32) {
        let narrow = |count: u64| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        if self.stripe_count > 1 {
            (self.stripe_unit, narrow(self.stripe_count))
        } else {
            (self.object_size, narrow(size.div_ceil(self.object_size)))
        }
    }

    /// Says how a layout that was read back differs from this one, which was asked for.
    #[must_use]
    pub fn differences(&self, given: &Self) -> Vec<String> {
        let numbers = [
            ("stripe unit", self.stripe_unit, given.stripe_unit),
            ("stripe count", self.stripe_count, given.stripe_count),
            ("object size", self.object_size, given.object_size),
        ];
        let mut found: Vec<_> = numbers
            .iter()
            .filter(|(_, asked, given)| asked != given)
            .map(|(what, asked, given)| format!("{what} {given} instead of {asked}"))
            .collect();
        if (&self.pool, &self.namespace) != (&given.pool, &given.namespace) {
            found.push(format!("pool '{}' instead of '{}'", given.pool, self.pool));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"stripe_unit=1048576 stripe_count=3 object_size=4194304 pool=cephfs_data";

    #[test]
    fn a_layout_is_read_and_written() {
        let layout = CephLayout::decode(TEXT).unwrap();
        assert_eq!(
            (layout.stripe_unit, layout.stripe_count, layout.pool.as_str()),
            (1 << 20, 3, "cephfs_data")
        );
        assert_eq!(layout.encode(), TEXT);
        assert_eq!(layout.clone().reduced(1).stripe_count, 1);
        assert_eq!(layout.clone().reduced((1 << 20) + 1).stripe_count, 2);
        assert_eq!(layout.differences(&layout.clone().reduced(1)), ["stripe count 1 instead of 3"]);
    }

    #[test]
    fn without_stripes_a_file_lies_in_objects() {
        let layout = CephLayout { stripe_count: 1, ..CephLayout::decode(TEXT).unwrap() };
        assert_eq!(layout.main_stripes(10 << 20), (4 << 20, 3));
        assert_eq!(CephLayout { stripe_count: 2, ..layout }.main_stripes(10 << 20), (1 << 20, 2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            CephLayout::decode(&bytes).map(|layout| layout.encode());
        }

        #[test]
        fn any_words_are_read_or_refused(text in "(stripe_unit|stripe_count|object_size|pool)=[0-9a-z]{0,22}( (stripe_unit|stripe_count|object_size|pool)=[0-9]{0,22}){0,5}") {
            if let Some(layout) = CephLayout::decode(text.as_bytes()) {
                prop_assert!(layout.main_stripes(u64::MAX).0 > 0);
                prop_assert_eq!(CephLayout::decode(&layout.encode()), Some(layout));
            }
        }
    }
}
