//! Fault injection: makes an operation of a client on certain names fail, or store wrong bytes.
//!
//! Configured by the attribute `user.standin.faults` of the root, as lines of
//! `CLIENT OPERATION NAME ERRNO`. `*` means any client or any name. NAME is a part of the file's
//! name at creation. OPERATION is `read`, `write`, or the name of a
//! [`RequestKind`](crate::statistics::RequestKind). For `write`, ERRNO may also be `FLIP`, or
//! `FLIP_ONCE` for the first write only: one bit is stored inverted, and the client gets no error.
//! For `open`, ERRNO may be `NO_OFFSETS`: the file can then only be read sequentially. A new value
//! replaces the old one.

use std::borrow::Cow;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

#[derive(Debug)]
struct Fault {
    client: Option<usize>,
    operation: String,
    name: Option<Vec<u8>>,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    Fails(Errno),
    Flips,
    /// True if it may still strike.
    FlipsOnce(AtomicBool),
    RefusesOffsets,
}

impl Effect {
    fn error(&self) -> Option<Errno> {
        match self {
            Self::Fails(errno) => Some(*errno),
            Self::Flips | Self::FlipsOnce(_) | Self::RefusesOffsets => None,
        }
    }

    fn flips(&self) -> bool {
        match self {
            Self::Fails(_) | Self::RefusesOffsets => false,
            Self::Flips => true,
            Self::FlipsOnce(is_left) => is_left.swap(false, Ordering::AcqRel),
        }
    }
}

impl Fault {
    fn strikes(&self, client: usize, operation: &str, name: &[u8]) -> bool {
        self.client.is_none_or(|wanted| wanted == client)
            && self.operation == operation
            && self.name.as_ref().is_none_or(|part| contains(name, part))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    any: AtomicBool,
    list: RwLock<Vec<Fault>>,
}

impl Faults {
    pub(crate) fn set(&self, text: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::INVAL)?;
        let list = text.lines().map(parse).collect::<Option<Vec<_>>>().ok_or(Errno::INVAL)?;
        self.any.store(!list.is_empty(), Ordering::Release);
        *self.list.write().map_err(|_| Errno::IO)? = list;
        Ok(())
    }

    /// Fails if a fault matches the operation. `name` is only called if any faults are set.
    pub(crate) fn check<'a>(
        &self,
        client: usize,
        operation: &str,
        name: impl FnOnce() -> Cow<'a, [u8]>,
    ) -> Result<(), Errno> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let list = self.list.read().map_err(|_| Errno::IO)?;
        let name = name();
        let mut errors = list.iter().filter_map(|fault| Some((fault, fault.effect.error()?)));
        let error = errors.find(|(fault, _)| fault.strikes(client, operation, &name));
        error.map_or(Ok(()), |(_, errno)| Err(errno))
    }

    /// True if a byte of a write is to be stored wrong. `name` is only called if any faults are
    /// set.
    pub(crate) fn flips<'a>(&self, client: usize, name: impl FnOnce() -> Cow<'a, [u8]>) -> bool {
        self.has(client, "write", name, Effect::flips)
    }

    /// True if a file is to be opened without offsets. `name` is only called if any faults are set.
    pub(crate) fn refuses_offsets<'a>(&self, client: usize, name: impl FnOnce() -> Cow<'a, [u8]>) -> bool {
        self.has(client, "open", name, |effect| matches!(effect, Effect::RefusesOffsets))
    }

    fn has<'a>(
        &self,
        client: usize,
        operation: &str,
        name: impl FnOnce() -> Cow<'a, [u8]>,
        is_it: fn(&Effect) -> bool,
    ) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let Ok(list) = self.list.read() else { return false };
        let name = name();
        list.iter().any(|fault| fault.strikes(client, operation, &name) && is_it(&fault.effect))
    }
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    part.is_empty() || name.windows(part.len()).any(|window| window == part)
}

fn parse(line: &str) -> Option<Fault> {
    let mut words = line.split_whitespace();
    let (client, operation, name, errno) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let client = match client {
        "*" => None,
        number => Some(number.parse().ok()?),
    };
    let effect = match errno {
        "EIO" => Effect::Fails(Errno::IO),
        "ENOSPC" => Effect::Fails(Errno::NOSPC),
        "EDQUOT" => Effect::Fails(Errno::DQUOT),
        "EACCES" => Effect::Fails(Errno::ACCESS),
        "EOPNOTSUPP" => Effect::Fails(Errno::OPNOTSUPP),
        "ESTALE" => Effect::Fails(Errno::STALE),
        "FLIP" if operation == "write" => Effect::Flips,
        "FLIP_ONCE" if operation == "write" => Effect::FlipsOnce(AtomicBool::new(true)),
        "NO_OFFSETS" if operation == "open" => Effect::RefusesOffsets,
        _ => return None,
    };
    let name = (name != "*").then(|| name.as_bytes().to_vec());
    Some(Fault { client, operation: operation.to_owned(), name, effect })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_its_client_operation_and_name() {
        let faults = Faults::default();
        let check = |client, operation, name: &str| {
            faults.check(client, operation, || Cow::Borrowed(name.as_bytes()))
        };
        assert_eq!(check(1, "write", "big"), Ok(()));
        faults.set(b"1 write big EIO\n").unwrap();
        assert_eq!(check(1, "write", "a-big-one"), Err(Errno::IO));
        assert_eq!(check(0, "write", "big"), Ok(()));
        assert_eq!(check(1, "read", "big"), Ok(()));
        assert_eq!(check(1, "write", "small"), Ok(()));
        assert_eq!(faults.set(b"1 write"), Err(Errno::INVAL));
        faults.set(b"").unwrap();
        assert_eq!(check(1, "write", "big"), Ok(()));
    }

    #[test]
    fn a_write_is_stored_wrong_always_or_once() {
        let faults = Faults::default();
        let flips = |name: &str| faults.flips(0, || Cow::Borrowed(name.as_bytes()));
        assert!(!flips("big"));
        faults.set(b"* write big FLIP\n* write small FLIP_ONCE\n").unwrap();
        assert_eq!(["big", "big", "small", "small"].map(flips), [true, true, true, false]);
        assert_eq!(faults.check(0, "write", || Cow::Borrowed(b"big")), Ok(()));
        assert_eq!(faults.set(b"* read big FLIP"), Err(Errno::INVAL));
    }
}
