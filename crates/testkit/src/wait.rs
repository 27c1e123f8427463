//! Waiting for something to become true, with an end.
//!
//! Tests that need "the copy has begun" look for a fact that only a begun copy makes true, and give up after a time limit.
//! The pause between two looks is only there to leave the processor to the program under test: no test depends on its length.

use std::time::{Duration, Instant};

/// Two looks are no further apart than this, unless all stood still.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Waits until `fact` holds, and says whether it did within `limit`.
#[must_use]
pub fn until(limit: Duration, mut fact: impl FnMut() -> bool) -> bool {
    let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
    loop {
        if fact() {
            return true;
        }
        let now = Instant::now();
        // Where this and what is waited for stood still, as on a machine that was suspended, nobody was slow.
        waited += (now - looked).min(STANDSTILL);
        looked = now;
        if waited >= limit {
            return false;
        }
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_ends_the_wait_and_a_lie_meets_the_limit() {
        let mut looks = 0;
        assert!(until(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        assert!(!until(Duration::from_millis(5), || false));
    }
}
