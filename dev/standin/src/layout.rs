//! Layouts: which target each byte of a file belongs to.
//!
//! A layout has one component, or several that each cover a part of the file (a composite layout).
//! The stripes of a component are distributed round-robin over its targets. Components are placed
//! on targets when they are first needed: the first when the file is created, the others when they
//! are written to.

use std::ops::Range;

/// Stripe count that means all targets.
pub(crate) const ALL_TARGETS: u16 = 0xffff;
/// First target that means any.
pub(crate) const ANY_TARGET: u16 = 0xffff;
/// Unit of stripe sizes, in bytes.
pub(crate) const STRIPE_BYTES_UNIT: u32 = 64 << 10;
/// Pattern: striped over targets.
pub(crate) const RAID0: u32 = 1;
/// Pattern: stored with the metadata.
pub(crate) const WITH_METADATA: u32 = 0x100;
/// Pattern bit: several stripes may be on one target.
pub(crate) const OVERSTRIPING: u32 = 0x200;

/// Requested striping of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripes {
    pub(crate) pattern: u32,
    /// Stripe size in bytes; 0 for the default.
    pub(crate) stripe_bytes: u32,
    /// Number of targets; 0 for the default.
    pub(crate) count: u16,
    pub(crate) first: u16,
    /// Name of the pool, zero-padded; all zeros for none.
    pub(crate) pool: [u8; 16],
    pub(crate) asked: Vec<u16>,
}

impl Stripes {
    pub(crate) fn unspecified() -> Self {
        let (first, pool) = (ANY_TARGET, [0; 16]);
        Self { pattern: RAID0, stripe_bytes: 0, count: 0, first, pool, asked: Vec::new() }
    }

    pub(crate) fn has_pool(&self) -> bool {
        self.pool[0] != 0
    }
}

/// A part of a file with one kind of striping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutComponent {
    pub(crate) id: u32,
    pub(crate) flags: u32,
    pub(crate) extent: Range<u64>,
    pub(crate) stripes: Stripes,
    /// Targets it was placed on, in order; `None` before placement.
    pub(crate) placed: Option<Vec<u16>>,
}

/// Layout of a file, or default layout of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripeLayout {
    /// Flags and number of mirrors of a composite layout; `None` for a plain one.
    pub(crate) composite: Option<(u16, u16)>,
    /// Components, in order; a plain layout has one.
    pub(crate) components: Vec<LayoutComponent>,
}

impl StripeLayout {
    pub(crate) fn plain(stripes: Stripes) -> Self {
        let component = LayoutComponent { id: 0, flags: 0, extent: 0..u64::MAX, stripes, placed: None };
        Self { composite: None, components: vec![component] }
    }

    /// True if it requests nothing; setting it removes a directory's layout.
    pub(crate) fn is_unspecified(&self) -> bool {
        self.composite.is_none()
            && self.components.first().is_some_and(|only| only.stripes == Stripes::unspecified())
    }

    /// Splits a range of the file by target; `None` if stored with the metadata or not placed yet.
    pub(crate) fn spread(&self, range: Range<u64>) -> Vec<(Option<u16>, u64)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (target, end) = self.locate(at);
            let end = end.min(range.end);
            parts.push((target, end - at));
            at = end;
        }
        parts
    }

    /// Returns the target of the byte at `at`, and the end of the contiguous bytes there.
    fn locate(&self, at: u64) -> (Option<u16>, u64) {
        let Some(component) = self.components.iter().find(|component| component.extent.contains(&at)) else {
            let next = self.components.iter().map(|component| component.extent.start);
            return (None, next.filter(|start| *start > at).min().unwrap_or(u64::MAX));
        };
        let stripe_bytes = u64::from(component.stripes.stripe_bytes.max(STRIPE_BYTES_UNIT));
        match component.placed.as_deref() {
            None | Some([]) => (None, component.extent.end),
            Some(targets) => {
                let stripe = at / stripe_bytes;
                let end = (stripe + 1).saturating_mul(stripe_bytes).min(component.extent.end);
                let count = targets.len() as u64;
                (usize::try_from(stripe % count).ok().map(|index| targets[index]), end)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) targets: u16,
    pub(crate) stripe_bytes: u32,
    pub(crate) count: u16,
    /// Pools: zero-padded names, and their targets.
    pub(crate) pools: Vec<([u8; 16], Vec<u16>)>,
    /// Start of the next component that may start anywhere.
    pub(crate) next: usize,
}

impl Placement {
    /// Places the components of a layout that overlap `range`.
    pub(crate) fn place(&mut self, layout: &mut StripeLayout, range: Range<u64>) {
        for component in &mut layout.components {
            let touches = component.extent.start < range.end && range.start < component.extent.end;
            if touches && component.placed.is_none() {
                self.place_component(component);
            }
        }
    }

    fn place_component(&mut self, component: &mut LayoutComponent) {
        let stripes = &mut component.stripes;
        if stripes.stripe_bytes == 0 {
            stripes.stripe_bytes = self.stripe_bytes;
        }
        if stripes.pattern & WITH_METADATA != 0 {
            component.placed = Some(Vec::new());
            return;
        }
        if !stripes.asked.is_empty() {
            component.placed = Some(stripes.asked.clone());
            return;
        }
        let pool =
            self.pools.iter().find(|(name, _)| *name == stripes.pool).map(|(_, targets)| targets.clone());
        let targets = pool.unwrap_or_else(|| (0..self.targets).collect());
        let asked = match stripes.count {
            0 => self.count,
            ALL_TARGETS => u16::MAX,
            count => count,
        };
        let spread = stripes.pattern & OVERSTRIPING != 0 && stripes.count != ALL_TARGETS;
        let count = if spread { usize::from(asked) } else { usize::from(asked).min(targets.len()) };
        let first = targets.iter().position(|target| *target == stripes.first).unwrap_or_else(|| {
            let first = self.next % targets.len();
            self.next = self.next.wrapping_add(count);
            first
        });
        component.placed = Some((0..count).map(|index| targets[(first + index) % targets.len()]).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"fast");
        Placement { targets: 4, stripe_bytes: 1 << 20, count: 1, pools: vec![(name, vec![1, 3])], next: 0 }
    }

    #[test]
    fn bytes_go_round_the_targets() {
        let mut layout = StripeLayout::plain(Stripes {
            stripe_bytes: 1 << 16,
            count: 3,
            first: 2,
            ..Stripes::unspecified()
        });
        placement().place(&mut layout, 0..1);
        assert_eq!(layout.components[0].placed, Some(vec![2, 3, 0]));
        let parts = layout.spread((1 << 16) - 1..(3 << 16) + 5);
        assert_eq!(parts, [(Some(2), 1), (Some(3), 1 << 16), (Some(0), 1 << 16), (Some(2), 5)]);
    }

    #[test]
    fn files_that_may_begin_anywhere_take_turns() {
        let mut placement = placement();
        let mut first = || {
            let mut layout = StripeLayout::plain(Stripes { count: 1, ..Stripes::unspecified() });
            placement.place(&mut layout, 0..1);
            layout.components[0].placed.clone().unwrap()
        };
        assert_eq!((0..5).map(|_| first()[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn counts_are_cut_to_the_targets_and_pools_kept() {
        let mut pool = [0; 16];
        pool[..4].copy_from_slice(b"fast");
        for (asked, pool, placed) in
            [(9, [0; 16], 4), (ALL_TARGETS, [0; 16], 4), (0, [0; 16], 1), (7, pool, 2)]
        {
            let mut layout = StripeLayout::plain(Stripes { count: asked, pool, ..Stripes::unspecified() });
            placement().place(&mut layout, 0..1);
            assert_eq!(layout.components[0].placed.as_ref().unwrap().len(), placed);
        }
    }

    #[test]
    fn later_components_are_placed_when_written_to() {
        let stripes = Stripes { count: 1, stripe_bytes: 1 << 16, ..Stripes::unspecified() };
        let part =
            |id, extent| LayoutComponent { id, flags: 0, extent, stripes: stripes.clone(), placed: None };
        let mut layout = StripeLayout {
            composite: Some((0, 0)),
            components: vec![part(1, 0..1 << 20), part(2, 1 << 20..u64::MAX)],
        };
        let mut placement = placement();
        placement.place(&mut layout, 0..1);
        assert!(layout.components[1].placed.is_none());
        assert_eq!(layout.spread((1 << 20) - 1..(1 << 20) + 1), [(Some(0), 1), (None, 1)]);
        placement.place(&mut layout, 1 << 20..(1 << 20) + 1);
        assert!(layout.components[1].placed.is_some());
    }
}
