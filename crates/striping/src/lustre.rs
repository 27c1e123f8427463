//! Lustre layouts as bytes: `lov_user_md`, the value of the attribute `lustre.lov`.
//!
//! A plain layout is a header, with or without the name of a pool. In a layout that was read back,
//! the file's objects follow, with the targets they are on. A composite layout is a table of
//! components, each with an extent and a plain layout. All numbers are little-endian. The format is
//! that of `lustre_user.h`; its constants are part of Lustre's interface and do not change.
//!
//! Decoding trusts nothing. Bytes that don't fit, or are of an unknown kind, are [`Unknown`]
//! (property tests with arbitrary bytes).

use std::fmt;
use std::ops::Range;

/// `LOV_USER_MAGIC_V1`.
const PLAIN: u32 = 0x0bd1_0bd0;
/// `LOV_USER_MAGIC_V3`: with a pool.
const WITH_POOL: u32 = 0x0bd3_0bd0;
/// `LOV_USER_MAGIC_SPECIFIC`: with a list of targets.
const SPECIFIC: u32 = 0x0bd5_0bd0;
/// `LOV_USER_MAGIC_COMP_V1`.
const COMPOSITE: u32 = 0x0bd6_0bd0;
/// `LOV_USER_MAGIC_FOREIGN`.
const FOREIGN: u32 = 0x0bd7_0bd0;
/// `LOV_USER_MAGIC_SEL`: a component that grows.
const SELF_EXTENDING: u32 = 0x0bd8_0bd0;

const PLAIN_BYTES: usize = 32;
const WITH_POOL_BYTES: usize = 48;
const OBJECT_BYTES: usize = 24;
const COMPOSITE_BYTES: usize = 32;
const ENTRY_BYTES: usize = 48;

/// `LOV_PATTERN_MDT`: the data is stored with the metadata.
const WITH_METADATA: u32 = 0x100;
/// `LOV_PATTERN_F_MASK`: flags for the state of the file, not for its striping.
const PATTERN_STATE: u32 = 0xffff_0000;
/// `LCME_FL_INIT` and `LCME_FL_STALE`: flags for the state of a component.
const ENTRY_STATE: u32 = 0x10 | 0x1;
/// `LCME_FL_EXTENSION`: a component that another one grows into.
const EXTENSION: u32 = 0x40;
/// `LCM_FL_RDONLY`: the state of a layout whose mirrors agree.
const MIRRORS_AGREE: u16 = 1;
/// Stripe count that means all targets.
const ALL: u16 = 0xffff;
/// First target that means any target.
const ANY: u16 = 0xffff;

/// Reason why a layout was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(&'static str);

impl Unknown {
    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

/// Striping over targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// The pattern, without state flags.
    pub pattern: u32,
    /// Stripe size, in bytes; 0 for the default.
    pub stripe_bytes: u32,
    /// Stripe count; 0 for the default, 0xffff for one stripe on each target.
    pub count: u16,
    /// The first target; 0xffff for any.
    pub first: u16,
    /// The pool's name, padded with zeros; all zeros for none.
    pub pool: [u8; 16],
    /// The targets, if they were chosen individually.
    pub targets: Vec<u32>,
}

/// An extent of a file that is striped in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LustreComponent {
    /// Its number in the layout.
    pub id: u32,
    /// Its flags, without state flags.
    pub flags: u32,
    /// The bytes it covers.
    pub extent: Range<u64>,
    /// Its striping.
    pub stripes: Stripes,
}

/// A Lustre layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LustreLayout {
    /// Number of mirrors beyond the first, if the layout is composite.
    pub mirrors: Option<u16>,
    /// The components; exactly one in a plain layout.
    pub components: Vec<LustreComponent>,
}

/// The bytes not read yet.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unknown> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unknown("its layout is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Unknown> {
        self.take(N)?.try_into().map_err(|_| Unknown("its layout is cut short"))
    }

    fn u16(&mut self) -> Result<u16, Unknown> {
        self.number().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Unknown> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unknown> {
        self.number().map(u64::from_le_bytes)
    }
}

impl LustreLayout {
    /// Decodes a layout as the file system returns it.
    ///
    /// # Errors
    /// If it is of an unknown kind, or malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unknown> {
        if FieldReader(bytes).u32()? != COMPOSITE {
            let stripes = Stripes::decode(bytes)?;
            let only = LustreComponent { id: 0, flags: 0, extent: 0..u64::MAX, stripes };
            return Ok(Self { mirrors: None, components: vec![only] });
        }
        let mut table = FieldReader(bytes);
        // Magic, size and generation don't matter here.
        table.take(12)?;
        let (_state, count, mirrors) = (table.u16()?, table.u16()?, table.u16()?);
        table.take(COMPOSITE_BYTES - 18)?;
        let mut components = Vec::new();
        for _ in 0..count {
            let mut entry = FieldReader(table.take(ENTRY_BYTES)?);
            let (id, flags, extent) = (entry.u32()?, entry.u32()?, entry.u64()?..entry.u64()?);
            let (begin, length) = (entry.u32()? as usize, entry.u32()? as usize);
            let body = begin.checked_add(length).and_then(|end| bytes.get(begin..end));
            let stripes = Stripes::decode(body.ok_or(Unknown("its layout is cut short"))?)?;
            if flags & EXTENSION != 0 {
                return Err(Unknown("its layout extends itself"));
            }
            if extent.is_empty() {
                return Err(Unknown("its layout has an empty component"));
            }
            components.push(LustreComponent { id, flags: flags & !ENTRY_STATE, extent, stripes });
        }
        if components.is_empty() {
            return Err(Unknown("its layout has no component"));
        }
        Ok(Self { mirrors: Some(mirrors), components })
    }

    /// Encodes the layout as the file system accepts it for a new file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Some(mirrors) = self.mirrors else {
            return self.components.first().map(|only| only.stripes.encode()).unwrap_or_default();
        };
        let bodies: Vec<_> = self.components.iter().map(|component| component.stripes.encode()).collect();
        let begin = COMPOSITE_BYTES + ENTRY_BYTES * bodies.len();
        let size = begin + bodies.iter().map(Vec::len).sum::<usize>();
        let state = if mirrors > 0 { MIRRORS_AGREE } else { 0 };
        let count = u16::try_from(bodies.len()).unwrap_or(u16::MAX);
        let mut out = Vec::with_capacity(size);
        out.extend(COMPOSITE.to_le_bytes());
        out.extend(narrow(size).to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        [state, count, mirrors].iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.resize(COMPOSITE_BYTES, 0);
        let mut offset = begin;
        for (component, body) in self.components.iter().zip(&bodies) {
            out.extend(component.id.to_le_bytes());
            out.extend(component.flags.to_le_bytes());
            out.extend(component.extent.start.to_le_bytes());
            out.extend(component.extent.end.to_le_bytes());
            out.extend(narrow(offset).to_le_bytes());
            out.extend(narrow(body.len()).to_le_bytes());
            out.resize(out.len() + ENTRY_BYTES - 32, 0);
            offset += body.len();
        }
        bodies.iter().for_each(|body| out.extend_from_slice(body));
        out
    }

    /// Reduces the stripe count of each component to the number that `size` bytes use, at least
    /// one.
    #[must_use]
    pub fn reduced(mut self, size: u64) -> Self {
        for component in &mut self.components {
            let used = component.extent.end.min(size).saturating_sub(component.extent.start);
            component.stripes.reduce(used);
        }
        self
    }

    /// Leaves the first target of each component to the file system.
    #[must_use]
    pub fn with_any_first_target(mut self) -> Self {
        for component in &mut self.components {
            component.stripes.first = ANY;
            component.stripes.targets.clear();
        }
        self
    }

    /// Returns stripe size and stripe count of the component that has most of a file of
    /// `size` bytes.
    #[must_use]
    pub fn main_stripes(&self, size: u64) -> Option<(u64, u32)> {
        // An empty file counts as its first byte.
        let covers = |component: &&LustreComponent| {
            component.extent.end.min(size.max(1)).saturating_sub(component.extent.start)
        };
        let striped = |component: &&LustreComponent| component.stripes.pattern & WITH_METADATA == 0;
        let main = self.components.iter().filter(striped).max_by_key(covers)?;
        let Stripes { stripe_bytes, count, .. } = main.stripes;
        (stripe_bytes > 0).then(|| (u64::from(stripe_bytes), u32::from(count.max(1))))
    }

    /// Describes how a layout that was read back differs from this one, which was requested.
    #[must_use]
    pub fn differences(&self, given: &Self) -> Vec<String> {
        if (self.mirrors, self.components.len()) != (given.mirrors, given.components.len()) {
            return vec![format!(
                "{} components instead of {}",
                given.components.len(),
                self.components.len()
            )];
        }
        let pairs = self.components.iter().zip(&given.components);
        pairs.flat_map(|(asked, given)| asked.differences(given)).collect()
    }
}

impl LustreComponent {
    fn differences(&self, given: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.extent != given.extent {
            let ([a, b], [c, d]) =
                ([given.extent.start, given.extent.end], [self.extent.start, self.extent.end]);
            found.push(format!("a component of bytes {a} to {b} instead of {c} to {d}"));
        }
        let (asked, given) = (&self.stripes, &given.stripes);
        let mut compare = |what: &str, asked: u32, given: u32| {
            if asked != given {
                found.push(format!("{what} {given} instead of {asked}"));
            }
        };
        compare("pattern", asked.pattern, given.pattern);
        if asked.stripe_bytes != 0 {
            compare("stripe size", asked.stripe_bytes, given.stripe_bytes);
        }
        if asked.pattern & WITH_METADATA == 0 {
            if asked.count != 0 && asked.count != ALL {
                compare("stripe count", asked.count.into(), given.count.into());
            }
            // Before anything is written, the file system has not chosen.
            if asked.first != ANY && given.first != ANY {
                compare("first target", asked.first.into(), given.first.into());
            }
        }
        if asked.pool != given.pool {
            found.push(format!("pool '{}' instead of '{}'", shown(&given.pool), shown(&asked.pool)));
        }
        found
    }
}

fn shown(pool: &[u8; 16]) -> String {
    let end = pool.iter().position(|byte| *byte == 0).unwrap_or(pool.len());
    pool[..end].escape_ascii().to_string()
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl Stripes {
    fn decode(bytes: &[u8]) -> Result<Self, Unknown> {
        let mut reader = FieldReader(bytes);
        let magic = reader.u32()?;
        match magic {
            PLAIN | WITH_POOL | SPECIFIC => {}
            FOREIGN => return Err(Unknown("its layout is of another system")),
            SELF_EXTENDING => return Err(Unknown("its layout extends itself")),
            _ => return Err(Unknown("its layout is of an unknown kind")),
        }
        let pattern = reader.u32()? & !PATTERN_STATE;
        // Identity of the file that the layout was read from.
        reader.take(16)?;
        let (stripe_bytes, count, first) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let pool = if magic == PLAIN { [0; 16] } else { reader.number()? };
        // If there are objects, the layout was read from a file. Then the generation replaces the
        // first target, and the first object is where the file begins.
        let objects: Vec<u32> = reader
            .0
            .chunks_exact(OBJECT_BYTES)
            .take(usize::from(count))
            .map(|object| FieldReader(&object[20..]).u32())
            .collect::<Result<_, _>>()?;
        let target = |number: u32| u16::try_from(number).map_err(|_| Unknown("its layout names no target"));
        let first = objects.first().map_or(Ok(first), |number| target(*number))?;
        let targets = if magic == SPECIFIC { objects } else { Vec::new() };
        if magic == SPECIFIC && targets.len() != usize::from(count) {
            return Err(Unknown("its layout is cut short"));
        }
        Ok(Self { pattern, stripe_bytes, count, first, pool, targets })
    }

    fn encode(&self) -> Vec<u8> {
        let (magic, length) = match (self.targets.is_empty(), self.pool[0] != 0) {
            (false, _) => (SPECIFIC, WITH_POOL_BYTES),
            (true, true) => (WITH_POOL, WITH_POOL_BYTES),
            (true, false) => (PLAIN, PLAIN_BYTES),
        };
        let mut out = Vec::with_capacity(length + OBJECT_BYTES * self.targets.len());
        out.extend(magic.to_le_bytes());
        out.extend(self.pattern.to_le_bytes());
        out.extend([0; 16]);
        out.extend(self.stripe_bytes.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.first.to_le_bytes());
        if magic != PLAIN {
            out.extend(self.pool);
        }
        for target in &self.targets {
            out.extend([0; OBJECT_BYTES - 4]);
            out.extend(target.to_le_bytes());
        }
        out
    }

    fn reduce(&mut self, used: u64) {
        if self.stripe_bytes == 0 || self.pattern & WITH_METADATA != 0 {
            return;
        }
        let stripes = used.div_ceil(u64::from(self.stripe_bytes)).max(1);
        self.count = u16::try_from(stripes).map_or(self.count, |stripes| self.count.min(stripes));
        self.targets.truncate(usize::from(self.count));
    }
}

#[cfg(test)]
#[path = "lustre_tests.rs"]
mod tests;
