//! State shared by all clients (tree, target rates, counters), and the limits of each client.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::faults::Faults;
use crate::layout::{Placement, StripeLayout};
use crate::pace::{PacedDirection, PacedLink, RateLimit, UptimeClock, nanoseconds};
use crate::settings::{Directions, StandInSettings};
use crate::statistics::{RequestKind, Statistics};
use crate::timer::Timer;
use crate::tree::BackedTree;

/// State shared by all clients.
pub(crate) struct Model {
    /// Clock that all times refer to.
    pub(crate) clock: UptimeClock,
    pub(crate) timer: Arc<Timer>,
    pub(crate) statistics: Statistics,
    pub(crate) faults: Faults,
    pub(crate) settings: StandInSettings,
    /// False while pacing is off and nothing takes time.
    pub(crate) paced: AtomicBool,
    tree: Mutex<BackedTree>,
    targets: Vec<PacedLink>,
    metadata: RateLimit,
    latency: u64,
    metadata_latency: u64,
}

impl Model {
    pub(crate) fn new(settings: StandInSettings) -> io::Result<Self> {
        let clock = UptimeClock::start();
        let together = settings.directions == Directions::Together;
        let link = || PacedLink::new(settings.target_rate, settings.burst, together);
        let pools = settings.pools.iter().map(|pool| {
            let mut name = [0; 16];
            name.iter_mut().zip(pool.name.bytes()).for_each(|(to, letter)| *to = letter);
            let targets = pool.targets.iter().copied().filter(|target| *target < settings.targets).collect();
            (name, targets)
        });
        let placement = Placement {
            targets: settings.targets,
            stripe_bytes: u32::try_from(settings.stripe_bytes).unwrap_or(1 << 20),
            count: settings.stripe_count.max(1),
            pools: pools.filter(|(_, targets): &(_, Vec<u16>)| !targets.is_empty()).collect(),
            next: 0,
        };
        Ok(Self {
            clock,
            timer: Timer::start(clock, settings.timers)?,
            statistics: Statistics::new(usize::from(settings.targets), settings.clients),
            faults: Faults::default(),
            paced: AtomicBool::new(true),
            tree: Mutex::new(BackedTree::new(&settings.backing, placement)),
            targets: std::iter::repeat_with(link).take(usize::from(settings.targets)).collect(),
            metadata: RateLimit::new(settings.metadata_rate, settings.burst),
            latency: nanoseconds(settings.latency),
            metadata_latency: nanoseconds(settings.metadata_latency),
            settings,
        })
    }

    fn is_paced(&self) -> bool {
        self.paced.load(Ordering::Relaxed)
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, BackedTree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Budget {
    pub(crate) number: usize,
    link: PacedLink,
    metadata: RateLimit,
    behind: Mutex<Behind>,
}

/// Write-behind: data a client has written that is not on the targets yet.
#[derive(Debug, Default)]
struct Behind {
    /// Bytes by (completion time, sequence number); the number keeps equal times apart.
    under_way: BTreeMap<(u64, u64), u64>,
    bytes: u64,
    next: u64,
}

impl Behind {
    /// Adds bytes that complete at `done`; returns when at most `most` bytes will be in flight.
    fn add(&mut self, now: u64, done: u64, bytes: u64, most: u64) -> u64 {
        self.expire(now);
        self.under_way.insert((done, self.next), bytes);
        self.next += 1;
        self.bytes += bytes;
        let mut rest = self.bytes;
        for ((at, _), bytes) in &self.under_way {
            if rest <= most {
                break;
            }
            rest -= bytes;
            if rest <= most {
                return *at;
            }
        }
        now
    }

    fn expire(&mut self, now: u64) {
        while let Some(first) = self.under_way.first_entry()
            && first.key().0 <= now
        {
            self.bytes -= first.remove();
        }
    }

    fn drained(&self) -> u64 {
        self.under_way.last_key_value().map_or(0, |((at, _), _)| *at)
    }
}

impl Budget {
    pub(crate) fn new(number: usize, settings: &StandInSettings) -> Self {
        let together = settings.directions == Directions::Together;
        Self {
            number,
            link: PacedLink::new(settings.client_rate, settings.burst, together),
            metadata: RateLimit::new(settings.client_metadata_rate, settings.burst),
            behind: Mutex::default(),
        }
    }

    /// Counts a metadata operation and returns the time at which it completes.
    pub(crate) fn operate(&self, model: &Model, kind: RequestKind) -> u64 {
        let now = model.clock.now();
        model.statistics.count_operation(kind);
        if !model.is_paced() {
            return now;
        }
        let asked = self.metadata.reserve(now, 1);
        model.metadata.reserve(now, 1).max(asked).saturating_add(model.metadata_latency)
    }

    /// Counts a read and returns the time at which it completes.
    pub(crate) fn read(&self, model: &Model, layout: Option<&StripeLayout>, range: Range<u64>) -> u64 {
        self.transfer(model, PacedDirection::Read, layout, range)
    }

    /// Counts a write and returns the time of the reply, which write-behind may send before the
    /// data is on the targets.
    pub(crate) fn write(&self, model: &Model, layout: Option<&StripeLayout>, range: Range<u64>) -> u64 {
        let bytes = range.end - range.start;
        let done = self.transfer(model, PacedDirection::Write, layout, range);
        let most = model.settings.write_behind;
        if most == 0 {
            return done;
        }
        let now = model.clock.now();
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).add(now, done, bytes, most)
    }

    /// Returns the time at which everything this client wrote is on the targets.
    pub(crate) fn drained(&self, model: &Model) -> u64 {
        let drained = self.behind.lock().unwrap_or_else(PoisonError::into_inner).drained();
        drained.max(model.clock.now().saturating_add(model.latency))
    }

    fn transfer(
        &self,
        model: &Model,
        way: PacedDirection,
        layout: Option<&StripeLayout>,
        range: Range<u64>,
    ) -> u64 {
        let now = model.clock.now();
        let bytes = range.end - range.start;
        model.statistics.count_request(self.number, way, bytes);
        let paced = model.is_paced();
        let mut done = if paced { self.link.reserve(way, now, bytes) } else { now };
        for (target, bytes) in layout.map(|layout| layout.spread(range)).unwrap_or_default() {
            let Some(target) = target else { continue };
            model.statistics.count_part(target, way, bytes);
            if let Some(link) = model.targets.get(usize::from(target)).filter(|_| paced) {
                done = done.max(link.reserve(way, now, bytes));
            }
        }
        if paced { done.saturating_add(model.latency) } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wait_when_the_window_is_full() {
        let mut behind = Behind::default();
        assert_eq!(behind.add(0, 100, 10, 20), 0);
        assert_eq!(behind.add(0, 200, 10, 20), 0);
        assert_eq!(behind.add(0, 300, 10, 20), 100);
        assert_eq!(behind.add(0, 400, 20, 20), 300);
        assert_eq!(behind.drained(), 400);
        assert_eq!(behind.add(350, 500, 1, 21), 350);
    }
}
