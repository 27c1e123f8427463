//! Ways: how another process finds a directory that this one holds, and makes sure that it is the same.
//!
//! A way is the path to an operand's place and the names of the directories below it. It is walked component by component,
//! without following links where this process did not, and at its end must be the directory with the same inode number.
//! Numbers of devices mean nothing on another host, so each process notes which of its devices stands for which of the
//! sender's, and holds it to that.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haul_sys::{Errno, Error, Identity, Open, Operation, open, stat};
use serde::{Deserialize, Serialize};

use crate::{Held, HeldCache};

/// Directories that stay known although no part is in them now: a few per directory being visited, as its parents are
/// needed for its neighbours.
const KNOWN: usize = 1024;

/// How to find a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    steps: Vec<WayStep>,
    device: u64,
    inode: u64,
}

/// One directory on a way: the first by its path, each further one by its name in the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct WayStep {
    name: CString,
    how: u32,
    display: Option<Vec<u8>>,
}

impl Way {
    /// Describes the way to a directory.
    #[must_use]
    pub fn to(held: &Held) -> Self {
        let mut steps = Vec::new();
        let mut directory = Some(held);
        while let Some(here) = directory {
            steps.push(WayStep {
                name: here.name().to_owned(),
                how: here.how().bits(),
                display: here.display().map(<[u8]>::to_vec),
            });
            directory = here.parent();
        }
        steps.reverse();
        let Identity { device, inode } = held.identity();
        Self { steps, device, inode }
    }

    /// Returns the directory's inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the path, as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let shown = self.steps.iter().rposition(|step| step.display.is_some()).unwrap_or_default();
        let mut path = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(shown) {
            let name = step.name.to_bytes();
            let part = if index == shown { step.display.as_deref().unwrap_or(name) } else { name };
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        path
    }
}

/// The directories that were found by ways.
#[derive(Debug, Default)]
pub struct Ways {
    known: Mutex<HashMap<Vec<WayStep>, Weak<Held>>>,
    recent: Mutex<VecDeque<Arc<Held>>>,
    devices: Mutex<HashMap<u64, u64>>,
}

impl Ways {
    /// Holds the directory at the end of a way.
    ///
    /// # Errors
    /// When it cannot be opened; `ESTALE` when it is another directory than the one the way was described to.
    pub fn hold(&self, cache: &HeldCache, way: &Way) -> Result<Arc<Held>, Error> {
        let held = match self.known(&way.steps) {
            Some(held) => held,
            None => self.walk(cache, &way.steps)?,
        };
        self.recognise(way, held.identity())?;
        Ok(held)
    }

    fn known(&self, steps: &[WayStep]) -> Option<Arc<Held>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(steps).and_then(Weak::upgrade)
    }

    /// Walks from the last directory on the way that is known already.
    fn walk(&self, cache: &HeldCache, steps: &[WayStep]) -> Result<Arc<Held>, Error> {
        let start = (1..steps.len()).rev().find_map(|length| Some((length, self.known(&steps[..length])?)));
        let (mut length, mut held) = match start {
            Some((length, held)) => (length, Some(held)),
            None => (0, None),
        };
        while let Some(step) = steps.get(length) {
            let how = Open::of_bits(step.how);
            let next = match &held {
                None => cache.hold_operand(&step.name, how, step.display.clone().unwrap_or_default())?,
                Some(parent) => {
                    let fd = open(&*cache.open(parent)?, &step.name, how)?;
                    let identity = stat(&fd)?.identity;
                    let place = (parent, step.name.as_c_str());
                    cache.hold_shown(place, how, identity, Some(Arc::new(fd)), step.display.clone())
                }
            };
            length += 1;
            self.remember(&steps[..length], &next);
            held = Some(next);
        }
        held.ok_or_else(|| Error::new(Operation::Openat, "a way of no steps".to_owned(), Errno::NOENT))
    }

    fn remember(&self, steps: &[WayStep], held: &Arc<Held>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(steps.to_vec(), Arc::downgrade(held));
        if known.len() > 4 * KNOWN {
            known.retain(|_, held| held.strong_count() > 0);
        }
        drop(known);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(Arc::clone(held));
        if recent.len() > KNOWN {
            recent.pop_front();
        }
    }

    /// Checks that what was found is what the way was described to.
    fn recognise(&self, way: &Way, found: Identity) -> Result<(), Error> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match devices.entry(way.device) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(found.device),
        };
        if device == found.device && way.inode == found.inode {
            return Ok(());
        }
        let path = String::from_utf8_lossy(&way.path()).into_owned();
        Err(Error::new(
            Operation::Openat,
            format!("{path:?}, another directory than the one sent"),
            Errno::STALE,
        ))
    }
}
