//! CephFS layouts as text: the attributes `ceph.file.layout` and `ceph.dir.layout`.
//!
//! `stripe_unit=1048576 stripe_count=3 object_size=4194304 pool=cephfs_data [pool_namespace=N]`.
//! The attribute sets the whole layout at once, on a file that is still empty. If the fields were
//! set one by one, every intermediate combination would have to be valid, which is not given.
//!
//! A field that is missing keeps the value inherited from the directory. No value stands for "no
//! namespace", so an inherited one is removed through an attribute of its own.

use std::ffi::CStr;

pub(crate) const OF_FILE: &CStr = c"ceph.file.layout";
pub(crate) const OF_DIRECTORY: &CStr = c"ceph.dir.layout";
/// Only the namespace in the layout of a file.
pub(crate) const NAMESPACE_OF_FILE: &CStr = c"ceph.file.layout.pool_namespace";
/// Only the namespace in the layout of a directory.
pub(crate) const NAMESPACE_OF_DIRECTORY: &CStr = c"ceph.dir.layout.pool_namespace";

/// A CephFS layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephLayout {
    /// Size of a stripe, in bytes.
    pub stripe_unit: u64,
    /// Number of objects that stripes are spread over in turn.
    pub stripe_count: u64,
    /// Size of an object, in bytes.
    pub object_size: u64,
    /// The pool; `None` leaves it to the file system.
    pub pool: Option<String>,
    /// The namespace in the pool, if any.
    pub namespace: Option<String>,
}

impl CephLayout {
    /// Decodes a layout; `None` if it isn't one.
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
            pool: Some(value("pool")?.to_owned()),
            namespace: value("pool_namespace").map(str::to_owned),
        })
    }

    /// Encodes the layout as the value of an attribute.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { stripe_unit, stripe_count, object_size, pool, namespace } = self;
        let mut text =
            format!("stripe_unit={stripe_unit} stripe_count={stripe_count} object_size={object_size}");
        for (key, value) in [(" pool=", pool), (" pool_namespace=", namespace)] {
            if let Some(value) = value {
                text.push_str(key);
                text.push_str(value);
            }
        }
        text.into_bytes()
    }

    /// Reduces the stripe count to the number of stripes that `size` bytes use, at least one.
    #[must_use]
    pub fn reduced(mut self, size: u64) -> Self {
        self.stripe_count = self.stripe_count.min(size.div_ceil(self.stripe_unit).max(1));
        self
    }

    /// Leaves the pool, and with it the namespace, to the file system.
    #[must_use]
    pub fn with_any_pool(self) -> Self {
        Self { pool: None, namespace: None, ..self }
    }

    /// Returns the best size of the ranges to cut a file of `size` bytes into, and the number of
    /// its objects, any two of which may be on different servers. Stripes fill one set of objects,
    /// then the next.
    #[must_use]
    pub fn main_stripes(&self, size: u64) -> (u64, u32) {
        let set = self.object_size.saturating_mul(self.stripe_count);
        let of_last = (size % set).div_ceil(self.stripe_unit).min(self.stripe_count);
        let objects = (size / set).saturating_mul(self.stripe_count).saturating_add(of_last).max(1);
        let cut = if self.stripe_count > 1 { self.stripe_unit } else { self.object_size };
        (cut, u32::try_from(objects).unwrap_or(u32::MAX))
    }

    /// Returns true if `given`, the layout read back, has a namespace and this one, the requested
    /// one, does not.
    pub(crate) fn misses_removal(&self, given: &Self) -> bool {
        self.pool.is_some() && self.namespace.is_none() && given.namespace.is_some()
    }

    /// Describes how a layout that was read back differs from this one, which was requested.
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
        // If the pool is left to the file system, pool and namespace don't matter.
        if self.pool.is_some() {
            let names = [("pool", &self.pool, &given.pool), ("namespace", &self.namespace, &given.namespace)];
            let shown = |name: &Option<String>| name.as_deref().unwrap_or_default().to_owned();
            found.extend(names.iter().filter(|(_, asked, given)| asked != given).map(
                |(what, asked, given)| format!("{what} '{}' instead of '{}'", shown(given), shown(asked)),
            ));
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
            (layout.stripe_unit, layout.stripe_count, layout.pool.as_deref()),
            (1 << 20, 3, Some("cephfs_data"))
        );
        assert_eq!(layout.encode(), TEXT);
        assert_eq!(layout.clone().reduced(1).stripe_count, 1);
        assert_eq!(layout.clone().reduced((1 << 20) + 1).stripe_count, 2);
        assert_eq!(layout.differences(&layout.clone().reduced(1)), ["stripe count 1 instead of 3"]);
    }

    #[test]
    fn a_file_lies_in_more_objects_than_its_stripes_go_round() {
        let layout = CephLayout { stripe_count: 1, ..CephLayout::decode(TEXT).unwrap() };
        assert_eq!(layout.main_stripes(10 << 20), (4 << 20, 3));
        let layout = CephLayout { stripe_count: 2, ..layout };
        for (size, objects) in [(0, 1), (1, 1), (1 << 20, 1), (10 << 20, 4), (8 << 20, 2), ((8 << 20) + 1, 3)]
        {
            assert_eq!(layout.main_stripes(size), (1 << 20, objects), "{size}");
        }
    }

    #[test]
    fn pools_and_namespaces_that_differ_are_reported() {
        let asked = CephLayout::decode(TEXT).unwrap();
        let given = CephLayout::decode(&[TEXT, b" pool_namespace=n"].concat()).unwrap();
        assert_eq!(given.encode(), [TEXT, b" pool_namespace=n"].concat());
        assert_eq!(asked.differences(&given), ["namespace 'n' instead of ''"]);
        assert!(asked.misses_removal(&given) && !given.misses_removal(&asked));
        let anywhere = asked.clone().with_any_pool();
        assert_eq!(anywhere.encode(), b"stripe_unit=1048576 stripe_count=3 object_size=4194304");
        assert!(anywhere.differences(&given).is_empty() && !anywhere.misses_removal(&given));
        let other = CephLayout { pool: Some("other".to_owned()), ..asked.clone() };
        assert_eq!(asked.differences(&other), ["pool 'other' instead of 'cephfs_data'"]);
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
