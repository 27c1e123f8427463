//! The attribute `lustre.lov`: the binary format of layouts that Lustre clients read and
//! write (`lov_user_md`).
//!
//! Deliberately independent of haul's own parser, so that a bug in either shows as a disagreement.

use rustix::io::Errno;

use crate::layout::{ALL_TARGETS, LayoutComponent, STRIPE_BYTES_UNIT, StripeLayout, Stripes};

const PLAIN: u32 = 0x0bd1_0bd0;
const WITH_POOL: u32 = 0x0bd3_0bd0;
const SPECIFIC: u32 = 0x0bd5_0bd0;
const COMPOSITE: u32 = 0x0bd6_0bd0;
const COMPOSITE_HEADER: usize = 32;
const ENTRY: usize = 48;
/// Flag of a component that has been placed.
const PLACED: u32 = 0x10;

struct LovReader<'a>(&'a [u8]);

impl<'a> LovReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Errno> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Errno> {
        self.take(2)?.try_into().map(u16::from_le_bytes).map_err(|_| Errno::INVAL)
    }

    fn u32(&mut self) -> Result<u32, Errno> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Errno::INVAL)
    }

    fn u64(&mut self) -> Result<u64, Errno> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Errno::INVAL)
    }
}

pub(crate) fn decode(bytes: &[u8], targets: u16) -> Result<StripeLayout, Errno> {
    if LovReader(bytes).u32()? != COMPOSITE {
        return stripes(bytes, targets).map(StripeLayout::plain);
    }
    let mut header = LovReader(bytes);
    let (_magic, size, _generation) = (header.u32()?, header.u32()?, header.u32()?);
    let (flags, entries, mirrors) = (header.u16()?, header.u16()?, header.u16()?);
    if usize::try_from(size).is_ok_and(|size| size > bytes.len()) || entries == 0 {
        return Err(Errno::INVAL);
    }
    let mut table = LovReader(bytes.get(COMPOSITE_HEADER..).ok_or(Errno::INVAL)?);
    let mut components = Vec::new();
    for _ in 0..entries {
        let mut entry = LovReader(table.take(ENTRY)?);
        let (id, flags) = (entry.u32()?, entry.u32()?);
        let extent = entry.u64()?..entry.u64()?;
        let (offset, size) = (entry.u32()? as usize, entry.u32()? as usize);
        let end = offset.checked_add(size).ok_or(Errno::INVAL)?;
        let stripes = stripes(bytes.get(offset..end).ok_or(Errno::INVAL)?, targets)?;
        if extent.is_empty() {
            return Err(Errno::INVAL);
        }
        components.push(LayoutComponent { id, flags: flags & !PLACED, extent, stripes, placed: None });
    }
    number(&mut components);
    Ok(StripeLayout { composite: Some((flags, mirrors)), components })
}

/// Numbers components without an ID, like the metadata server does.
fn number(components: &mut [LayoutComponent]) {
    for (component, id) in components.iter_mut().zip(1..) {
        if component.id == 0 {
            component.id = id;
        }
    }
}

fn stripes(bytes: &[u8], targets: u16) -> Result<Stripes, Errno> {
    let mut reader = LovReader(bytes);
    let magic = reader.u32()?;
    let pattern = reader.u32()?;
    reader.take(16)?;
    let stripe_bytes = reader.u32()?;
    let (count, first) = (reader.u16()?, reader.u16()?);
    let mut pool = [0; 16];
    match magic {
        PLAIN => {}
        WITH_POOL | SPECIFIC => pool.copy_from_slice(reader.take(16)?),
        _ => return Err(Errno::INVAL),
    }
    let mut asked = Vec::new();
    if magic == SPECIFIC {
        for _ in 0..count {
            reader.take(20)?;
            let target = u16::try_from(reader.u32()?).map_err(|_| Errno::INVAL)?;
            asked.push(target);
        }
    }
    let is_there = |target: &u16| *target < targets;
    let beyond = first != ALL_TARGETS && !is_there(&first) && asked.is_empty();
    if beyond || !stripe_bytes.is_multiple_of(STRIPE_BYTES_UNIT) || !asked.iter().all(is_there) {
        return Err(Errno::INVAL);
    }
    Ok(Stripes { pattern, stripe_bytes, count, first, pool, asked })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutOwner {
    /// A file with this inode number.
    File(u64),
    /// A directory: the default for its new files.
    Directory,
}

/// Formats a layout as clients read it.
pub(crate) fn encode(layout: &StripeLayout, owner: LayoutOwner) -> Vec<u8> {
    let Some((flags, mirrors)) = layout.composite else {
        return layout.components.first().map(|only| plain(only, owner)).unwrap_or_default();
    };
    let bodies: Vec<_> = layout.components.iter().map(|component| plain(component, owner)).collect();
    let begin = COMPOSITE_HEADER + ENTRY * bodies.len();
    let size = begin + bodies.iter().map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(size);
    out.extend(COMPOSITE.to_le_bytes());
    out.extend(narrow(size).to_le_bytes());
    out.extend(generation(owner).to_le_bytes());
    for word in [flags, bodies.len() as u16, mirrors] {
        out.extend(word.to_le_bytes());
    }
    out.resize(COMPOSITE_HEADER, 0);
    let mut offset = begin;
    for (component, body) in layout.components.iter().zip(&bodies) {
        let flags = component.flags | if component.placed.is_some() { PLACED } else { 0 };
        out.extend(component.id.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(component.extent.start.to_le_bytes());
        out.extend(component.extent.end.to_le_bytes());
        out.extend(narrow(offset).to_le_bytes());
        out.extend(narrow(body.len()).to_le_bytes());
        out.resize(out.len() + 16, 0);
        offset += body.len();
    }
    bodies.iter().for_each(|body| out.extend(body));
    out
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn generation(owner: LayoutOwner) -> u32 {
    match owner {
        LayoutOwner::File(_) => 1,
        LayoutOwner::Directory => 0,
    }
}

fn plain(component: &LayoutComponent, owner: LayoutOwner) -> Vec<u8> {
    let LayoutComponent { stripes, placed, .. } = component;
    let specific = placed.is_none() && !stripes.asked.is_empty();
    let magic = match (specific, stripes.has_pool()) {
        (true, _) => SPECIFIC,
        (false, true) => WITH_POOL,
        (false, false) => PLAIN,
    };
    let (count, first) = match placed {
        // When read back, the field of the first target holds the layout generation.
        Some(targets) => (targets.len() as u16, 0),
        None => (stripes.count, stripes.first),
    };
    let mut out = Vec::new();
    out.extend(magic.to_le_bytes());
    out.extend(stripes.pattern.to_le_bytes());
    out.extend(identity(owner));
    out.extend(stripes.stripe_bytes.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(first.to_le_bytes());
    if magic != PLAIN {
        out.extend(stripes.pool);
    }
    let targets = placed.as_deref().unwrap_or(if specific { &stripes.asked } else { &[] });
    for target in targets {
        out.extend(identity(owner));
        out.extend(0_u32.to_le_bytes());
        out.extend(u32::from(*target).to_le_bytes());
    }
    out
}

fn identity(owner: LayoutOwner) -> [u8; 16] {
    let mut identity = [0; 16];
    if let LayoutOwner::File(number) = owner {
        identity[..8].copy_from_slice(&number.to_le_bytes());
    }
    identity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ANY_TARGET, RAID0};

    /// Three stripes of 2 MiB from target 1, as requested by `lfs setstripe -c 3 -S 2M -i 1`.
    const ASKED: [u8; 32] = [
        0xd0, 0x0b, 0xd1, 0x0b, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 3,
        0, 1, 0,
    ];

    #[test]
    fn what_is_asked_for_is_read() {
        let layout = decode(&ASKED, 4).unwrap();
        let stripes = &layout.components[0].stripes;
        assert_eq!(
            (stripes.pattern, stripes.stripe_bytes, stripes.count, stripes.first),
            (RAID0, 2 << 20, 3, 1)
        );
        assert_eq!(encode(&layout, LayoutOwner::Directory), ASKED);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(decode(&ASKED, 1), Err(Errno::INVAL));
        assert_eq!(decode(&ASKED[..31], 4), Err(Errno::INVAL));
        let mut odd = ASKED;
        odd[24] = 1;
        assert_eq!(decode(&odd, 4), Err(Errno::INVAL));
        let mut foreign = ASKED;
        foreign[2] = 0xd7;
        assert_eq!(decode(&foreign, 4), Err(Errno::INVAL));
    }

    #[test]
    fn a_composite_layout_reads_back_as_it_was_written() {
        let mut pool = [0; 16];
        pool[..4].copy_from_slice(b"fast");
        let part = |id, extent, count, pool| LayoutComponent {
            id,
            flags: 0,
            extent,
            stripes: Stripes {
                stripe_bytes: 1 << 20,
                count,
                first: ANY_TARGET,
                pool,
                ..Stripes::unspecified()
            },
            placed: None,
        };
        let layout = StripeLayout {
            composite: Some((0, 0)),
            components: vec![part(1, 0..4 << 20, 1, [0; 16]), part(2, 4 << 20..u64::MAX, ALL_TARGETS, pool)],
        };
        let bytes = encode(&layout, LayoutOwner::Directory);
        assert_eq!(bytes.len(), 32 + 2 * 48 + 32 + 48);
        assert_eq!(decode(&bytes, 4), Ok(layout));
    }

    #[test]
    fn objects_follow_what_was_placed() {
        let mut layout = decode(&ASKED, 4).unwrap();
        layout.components[0].placed = Some(vec![1, 2, 3]);
        let bytes = encode(&layout, LayoutOwner::File(7));
        assert_eq!(bytes.len(), 32 + 3 * 24);
        assert_eq!(bytes[32 + 20..32 + 24], [1, 0, 0, 0]);
        assert_eq!(bytes[30..32], [0, 0]);
    }
}
