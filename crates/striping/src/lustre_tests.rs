use proptest::prelude::*;

use super::*;

/// The request of `lfs setstripe -c 3 -S 2M -i 1`.
const ASKED: [u8; 32] = [
    0xd0, 0x0b, 0xd1, 0x0b, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 3, 0,
    1, 0,
];

fn stripes() -> Stripes {
    Stripes { pattern: 1, stripe_bytes: 2 << 20, count: 3, first: 1, pool: [0; 16], targets: Vec::new() }
}

fn plain(stripes: Stripes) -> LustreLayout {
    let only = LustreComponent { id: 0, flags: 0, extent: 0..u64::MAX, stripes };
    LustreLayout { mirrors: None, components: vec![only] }
}

fn two_parts() -> LustreLayout {
    let first = Stripes { count: 1, stripe_bytes: 1 << 20, ..stripes() };
    let second = Stripes { count: ALL, first: ANY, pool: *b"fast\0\0\0\0\0\0\0\0\0\0\0\0", ..stripes() };
    let part = |id, extent, stripes| LustreComponent { id, flags: 0, extent, stripes };
    LustreLayout {
        mirrors: Some(0),
        components: vec![part(1, 0..4 << 20, first), part(2, 4 << 20..u64::MAX, second)],
    }
}

/// Adds a file's objects, as in a layout that was read back, and replaces the first target with
/// the generation.
fn read_back(mut header: Vec<u8>, targets: &[u32]) -> Vec<u8> {
    header[30..32].copy_from_slice(&[7, 0]);
    for target in targets {
        header.extend([9; 20]);
        header.extend(target.to_le_bytes());
    }
    header
}

#[test]
fn what_is_asked_for_has_the_known_bytes() {
    assert_eq!(plain(stripes()).encode(), ASKED);
    assert_eq!(LustreLayout::decode(&ASKED), Ok(plain(stripes())));
}

#[test]
fn the_first_object_is_where_a_file_begins() {
    let read = LustreLayout::decode(&read_back(ASKED.to_vec(), &[5, 6, 7])).unwrap();
    assert_eq!(read, plain(Stripes { first: 5, ..stripes() }));
    assert_eq!(plain(stripes()).differences(&read), ["first target 5 instead of 1"]);
}

#[test]
fn state_is_not_taken_along() {
    let mut bytes = ASKED;
    bytes[7] = 0x80; // released to an archive
    assert_eq!(LustreLayout::decode(&bytes), Ok(plain(stripes())));
    let mut bytes = two_parts().encode();
    bytes[36] = 0x10; // placed on targets
    assert_eq!(LustreLayout::decode(&bytes), Ok(two_parts()));
}

#[test]
fn composite_layouts_have_the_known_shape() {
    let bytes = two_parts().encode();
    assert_eq!(bytes.len(), 32 + 2 * 48 + 32 + 48);
    assert_eq!(bytes[..4], [0xd0, 0x0b, 0xd6, 0x0b]);
    assert_eq!(bytes[14..16], [2, 0]);
    // The first component's extent ends where the second one's begins; its body follows the table.
    assert_eq!(bytes[48..56], (4_u64 << 20).to_le_bytes());
    assert_eq!(bytes[56..60], [128, 0, 0, 0]);
    assert_eq!(LustreLayout::decode(&bytes), Ok(two_parts()));
}

#[test]
fn chosen_targets_are_kept() {
    let chosen = plain(Stripes { first: 4, targets: vec![4, 2, 9], ..stripes() });
    let bytes = chosen.encode();
    assert_eq!((bytes.len(), &bytes[..4]), (48 + 3 * 24, &[0xd0, 0x0b, 0xd5, 0x0b][..]));
    assert_eq!(LustreLayout::decode(&bytes), Ok(chosen.clone()));
    assert_eq!(chosen.clone().reduced(1 << 20).components[0].stripes.targets, [4]);
    assert!(chosen.with_any_first_target().components[0].stripes.targets.is_empty());
}

#[test]
fn other_kinds_are_kept_out() {
    for (magic, why) in [(0xd7, "its layout is of another system"), (0xd8, "its layout extends itself")] {
        let mut bytes = ASKED;
        bytes[2] = magic;
        assert_eq!(LustreLayout::decode(&bytes).unwrap_err().to_string(), why);
    }
    assert!(LustreLayout::decode(b"").is_err());
    assert!(LustreLayout::decode(&ASKED[..31]).is_err());
}

#[test]
fn stripes_that_hold_nothing_are_not_asked_for() {
    let count = |size| plain(stripes()).reduced(size).components[0].stripes.count;
    assert_eq!([0, 1, 2 << 20, (2 << 20) + 1, 6 << 20, 1 << 40].map(count), [1, 1, 1, 2, 3, 3]);
    let parts = two_parts().reduced(9 << 20);
    let counts: Vec<_> = parts.components.iter().map(|part| part.stripes.count).collect();
    assert_eq!(counts, [1, 3]);
}

#[test]
fn the_main_part_is_the_one_with_most_bytes() {
    assert_eq!(two_parts().main_stripes(5 << 20), Some((1 << 20, 1)));
    assert_eq!(two_parts().main_stripes(50 << 20), Some((2 << 20, u32::from(ALL))));
    assert_eq!(plain(Stripes { pattern: WITH_METADATA, ..stripes() }).main_stripes(5), None);
}

#[test]
fn what_was_given_instead_is_reported() {
    let given = |change: fn(&mut Stripes)| {
        let mut given = stripes();
        change(&mut given);
        plain(stripes()).differences(&plain(given))
    };
    assert!(given(|_| ()).is_empty());
    assert_eq!(given(|stripes| stripes.count = 2), ["stripe count 2 instead of 3"]);
    assert_eq!(given(|stripes| stripes.pool[0] = b'x'), ["pool 'x' instead of ''"]);
    assert_eq!(given(|stripes| stripes.stripe_bytes = 1 << 16), ["stripe size 65536 instead of 2097152"]);
    assert_eq!(plain(stripes()).differences(&two_parts()), ["2 components instead of 1"]);
}

fn any_stripes() -> impl Strategy<Value = Stripes> {
    let pool = prop_oneof![Just([0; 16]), any::<[u8; 16]>()];
    let targets = prop_oneof![Just(Vec::new()), prop::collection::vec(0..0xffff_u32, 1..20)];
    (0..0x1000_u32, any::<u32>(), any::<u16>(), any::<u16>(), pool, targets).prop_map(
        |(pattern, stripe_bytes, count, first, mut pool, targets)| {
            let count = if targets.is_empty() { count } else { targets.len() as u16 };
            let first = targets.first().map_or(first, |target| *target as u16);
            // A pool without a name is no pool.
            if pool[0] == 0 {
                pool = [0; 16];
            }
            Stripes { pattern, stripe_bytes, count, first, pool, targets }
        },
    )
}

fn any_layout() -> impl Strategy<Value = LustreLayout> {
    let part = (any::<u32>(), any::<u32>(), any::<u64>(), 1_u64..1 << 50, any_stripes()).prop_map(
        |(id, flags, start, length, stripes)| {
            let extent = start..start.saturating_add(length).max(1);
            LustreComponent { id, flags: flags & !ENTRY_STATE & !EXTENSION, extent, stripes }
        },
    );
    let parts = prop::collection::vec(part, 1..6);
    let composite = (any::<u16>(), parts)
        .prop_map(|(mirrors, components)| LustreLayout { mirrors: Some(mirrors), components });
    prop_oneof![any_stripes().prop_map(plain), composite]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(layout in any_layout()) {
        prop_assume!(layout.components.iter().all(|component| !component.extent.is_empty()));
        prop_assert_eq!(LustreLayout::decode(&layout.encode()), Ok(layout));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(layout) = LustreLayout::decode(&bytes) {
            prop_assert!(layout.reduced(12345).with_any_first_target().encode().len() >= 32);
        }
    }

    #[test]
    fn damaged_layouts_are_read_or_refused(
        layout in any_layout(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = layout.encode();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(length.index(bytes.len()) + 1);
        if let Ok(layout) = LustreLayout::decode(&bytes) {
            layout.differences(&layout.clone().reduced(1)).len();
            prop_assert!(layout.main_stripes(1 << 30).is_none_or(|(bytes, _)| bytes > 0));
        }
    }

    #[test]
    fn no_stripe_is_asked_for_that_holds_nothing(count in 1_u16..2000, stripe_bytes in 1_u32.., size in any::<u64>()) {
        let reduced = plain(Stripes { count, stripe_bytes, ..stripes() }).reduced(size);
        let now = u64::from(reduced.components[0].stripes.count);
        prop_assert!(now >= 1 && now <= u64::from(count));
        prop_assert!(now == 1 || (now - 1) * u64::from(stripe_bytes) < size);
        prop_assert!(now == u64::from(count) || now * u64::from(stripe_bytes) >= size);
    }
}
