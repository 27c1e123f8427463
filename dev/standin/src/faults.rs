//! Fault injection: makes an operation of a client on certain names fail.
//!
//! Configured by the attribute `user.standin.faults` of the root, as lines of
//! `CLIENT OPERATION NAME ERRNO`. `*` means any client or any name. NAME is a part of the file's
//! name at creation. OPERATION is `read`, `write`, or the name of a
//! [`Kind`](crate::statistics::Kind). A new value replaces the old one.

use std::borrow::Cow;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

#[derive(Debug)]
struct Fault {
    client: Option<usize>,
    operation: String,
    name: Option<Vec<u8>>,
    errno: Errno,
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
        let strikes = |fault: &&Fault| {
            fault.client.is_none_or(|wanted| wanted == client)
                && fault.operation == operation
                && fault.name.as_ref().is_none_or(|part| contains(&name, part))
        };
        list.iter().find(strikes).map_or(Ok(()), |fault| Err(fault.errno))
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
    let errno = match errno {
        "EIO" => Errno::IO,
        "ENOSPC" => Errno::NOSPC,
        "EDQUOT" => Errno::DQUOT,
        "EACCES" => Errno::ACCESS,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "ESTALE" => Errno::STALE,
        _ => return None,
    };
    let name = (name != "*").then(|| name.as_bytes().to_vec());
    Some(Fault { client, operation: operation.to_owned(), name, errno })
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
}
