//! Counters. The attribute `user.standin.statistics` of the root reports them as lines of a name
//! and a number.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pace::PacedDirection;

macro_rules! kinds {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RequestKind { $($variant),+ }

        impl RequestKind {
            pub(crate) const ALL: &'static [(RequestKind, &'static str)] = &[$((RequestKind::$variant, $name)),+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(RequestKind::$variant => $name),+ }
            }
        }
    };
}

kinds! {
    Lookup = "lookup",
    GetAttributes = "getattr",
    SetAttributes = "setattr",
    Create = "create",
    CreateUnnamed = "tmpfile",
    Open = "open",
    MakeNode = "mknod",
    MakeDirectory = "mkdir",
    Symlink = "symlink",
    Link = "link",
    Unlink = "unlink",
    RemoveDirectory = "rmdir",
    Rename = "rename",
    ReadLink = "readlink",
    List = "readdir",
    GetXattr = "getxattr",
    SetXattr = "setxattr",
    ListXattr = "listxattr",
    RemoveXattr = "removexattr",
    Synchronize = "fsync",
}

#[derive(Debug, Default)]
struct Moved {
    bytes: AtomicU64,
    requests: AtomicU64,
}

/// Traffic of a target or of a client.
#[derive(Debug, Default)]
struct Traffic {
    read: Moved,
    written: Moved,
}

impl Traffic {
    fn count(&self, way: PacedDirection, bytes: u64) {
        let moved = match way {
            PacedDirection::Read => &self.read,
            PacedDirection::Write => &self.written,
        };
        moved.bytes.fetch_add(bytes, Ordering::Relaxed);
        moved.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn describe(&self, what: &str, out: &mut String) {
        for (way, moved) in [("read", &self.read), ("written", &self.written)] {
            let (bytes, requests) =
                (moved.bytes.load(Ordering::Relaxed), moved.requests.load(Ordering::Relaxed));
            // Writing to a string cannot fail.
            writeln!(out, "{what}.{way} {bytes}").unwrap_or_default();
            writeln!(out, "{what}.{way}_requests {requests}").unwrap_or_default();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Statistics {
    targets: Vec<Traffic>,
    clients: Vec<Traffic>,
    metadata: Vec<AtomicU64>,
}

impl Statistics {
    pub(crate) fn new(targets: usize, clients: usize) -> Self {
        let traffic = |count| std::iter::repeat_with(Traffic::default).take(count).collect();
        let metadata = RequestKind::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self { targets: traffic(targets), clients: traffic(clients), metadata }
    }

    /// Counts a client's data request.
    pub(crate) fn count_request(&self, client: usize, way: PacedDirection, bytes: u64) {
        if let Some(client) = self.clients.get(client) {
            client.count(way, bytes);
        }
    }

    /// Counts a target's part of a data request.
    pub(crate) fn count_part(&self, target: u16, way: PacedDirection, bytes: u64) {
        if let Some(target) = self.targets.get(usize::from(target)) {
            target.count(way, bytes);
        }
    }

    pub(crate) fn count_operation(&self, kind: RequestKind) {
        self.metadata[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn describe(&self) -> String {
        let mut out = String::new();
        for (number, target) in self.targets.iter().enumerate() {
            target.describe(&format!("target.{number}"), &mut out);
        }
        for (number, client) in self.clients.iter().enumerate() {
            client.describe(&format!("client.{number}"), &mut out);
        }
        for ((_, name), count) in RequestKind::ALL.iter().zip(&self.metadata) {
            writeln!(out, "metadata.{name} {}", count.load(Ordering::Relaxed)).unwrap_or_default();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_reported_by_name() {
        let statistics = Statistics::new(2, 1);
        statistics.count_part(1, PacedDirection::Write, 7);
        statistics.count_operation(RequestKind::Create);
        let text = statistics.describe();
        assert!(text.contains("target.1.written 7\n") && text.contains("target.1.written_requests 1\n"));
        assert!(text.contains("target.0.written 0\n") && text.contains("metadata.create 1\n"));
    }
}
