//! Starts a CephFS, prints its mount points, one per line, and removes it at EOF on standard input:
//! `ceph [CLIENTS]`.

use std::io::{self, Read, Write};

use haul_testkit::Ceph;
use haul_testkit::ceph::{Cluster, needed};

fn main() -> io::Result<()> {
    if let Some(reason) = needed() {
        return Err(io::Error::other(reason));
    }
    let clients = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let ceph = Ceph::start(Cluster { clients, ..Cluster::default() })?;
    for mount in ceph.mounts() {
        writeln!(io::stdout(), "{}", mount.display())?;
    }
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
