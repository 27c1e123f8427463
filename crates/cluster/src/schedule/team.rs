//! Performance model that chooses the number of clients for one file.
//!
//! The time for `t` clients to copy a file together is predicted as
//!
//! ```text
//!   t × JOIN_SECONDS  +  max( rounds(t) × range ÷ client rate ,  bytes ÷ (stripes × stripe rate) )
//!                             └ limit of the clients ┘           └ limit of the storage targets ┘
//! ```
//!
//! where `rounds(t)` is the number of ranges of the busiest client. Both rates are measured: the
//! client rate is that of the latest completed ranges together, the stripe rate the best seen for
//! one stripe. The choice is the smallest team whose time is within [`TOLERANCE`] of the best,
//! because further clients are better spent on another file. Before anything is measured it is one
//! client per stripe, which keeps every storage target busy.
//!
//! Waiting files share the clients evenly. The choice limits a team only while there is other work,
//! so a wrong choice affects the order of files, not the total time. It is made anew when the rates
//! or the share change, for the bytes that are left.

/// Tolerated slowdown of a smaller team over the best, as a fraction.
pub const TOLERANCE: f64 = 0.03;

/// Cost of each further client, in seconds: a message from rank 0, and opening two files. Assumed;
/// it makes the time rise again where more clients don't help.
const JOIN_SECONDS: f64 = 0.000_2;

/// Decay of the earlier ranges' weight with each further range, in the client rate.
const CLIENT_FORGETS: f64 = 0.1;

/// Weights of the newest range in the stripe rate: the best seen counts, and is forgotten slowly.
const STRIPE_WEIGHT_BETTER: f64 = 0.3;
const STRIPE_WEIGHT_WORSE: f64 = 0.01;

/// Inputs of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamInputs {
    /// Bytes left to copy.
    pub bytes: u64,
    /// Number of storage targets the file lies on.
    pub stripes: u32,
    /// Size of its ranges, in bytes.
    pub range_bytes: u64,
    /// Number of clients to share out.
    pub clients: usize,
    /// Number of other files waiting for clients.
    pub waiting: usize,
}

/// Measured rates, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Recent rate of one client.
    pub client: Option<f64>,
    /// Best rate of one stripe.
    pub stripe: Option<f64>,
    /// Bytes and seconds of recent ranges. Their times vary widely, so the rate is computed from
    /// the sums.
    recent: (f64, f64),
}

/// The team chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TeamChoice {
    /// Number of clients to use, at least one.
    pub clients: usize,
    /// Predicted time, if anything was measured.
    pub seconds: Option<f64>,
    /// Best time of any number of clients, and that number.
    pub best: Option<(f64, usize)>,
}

impl TeamInputs {
    /// Returns an even share of `clients` for a file while `waiting` others wait.
    #[must_use]
    pub fn share(clients: usize, waiting: usize) -> usize {
        (clients / (waiting + 1)).max(1)
    }

    /// Returns the maximum number of useful clients.
    fn useful(&self) -> usize {
        let ranges = self.bytes.div_ceil(self.range_bytes.max(1)).max(1);
        Self::share(self.clients, self.waiting).min(usize::try_from(ranges).unwrap_or(usize::MAX))
    }
}

impl Rates {
    /// Records a range: `bytes` that kept one of `members` clients busy for `seconds`, of a file on
    /// `stripes` targets.
    pub fn observe(&mut self, bytes: u64, seconds: f64, members: usize, stripes: u32) {
        let (moved, busy) = self.recent;
        let keeps = 1.0 - CLIENT_FORGETS;
        self.recent = (moved * keeps + bytes as f64, busy * keeps + seconds);
        let rate = self.recent.0 / self.recent.1;
        if bytes == 0 || !rate.is_finite() {
            return;
        }
        self.client = Some(rate);
        // The other members are taken to be as fast as this one.
        let stripe = rate * members.max(1) as f64 / f64::from(stripes.max(1));
        let better = self.stripe.is_some_and(|known| stripe > known);
        blend(&mut self.stripe, stripe, if better { STRIPE_WEIGHT_BETTER } else { STRIPE_WEIGHT_WORSE });
    }

    /// Returns the rates and the share in steps. A new choice is made only when this changes.
    pub(crate) fn key(&self, share: usize) -> (usize, u64, u64) {
        // The exponent and three bits of the mantissa: eight steps for each doubling.
        let step = |rate: Option<f64>| rate.map_or(0, |rate| rate.max(1.0).to_bits() >> 49);
        (share, step(self.client), step(self.stripe))
    }
}

fn blend(average: &mut Option<f64>, value: f64, weight: f64) {
    *average = Some(average.map_or(value, |known| known + weight * (value - known)));
}

/// Chooses the size of a team.
#[must_use]
pub fn choose(inputs: &TeamInputs, rates: &Rates) -> TeamChoice {
    let useful = inputs.useful();
    let (Some(client), Some(stripe)) = (rates.client, rates.stripe) else {
        let clients = useful.min(inputs.stripes.max(1) as usize);
        return TeamChoice { clients, seconds: None, best: None };
    };
    let time = |clients| seconds(inputs, clients, client, stripe);
    let best = (1..=useful).map(|clients| (time(clients), clients)).min_by(|a, b| a.0.total_cmp(&b.0));
    let (fastest, _) = best.unwrap_or((0.0, 1));
    let enough = (1..=useful).find(|&clients| time(clients) <= fastest * (1.0 + TOLERANCE)).unwrap_or(1);
    TeamChoice { clients: enough, seconds: Some(time(enough)), best }
}

/// Predicts the seconds that `clients` clients need, if the rates were measured.
pub(crate) fn predict(inputs: &TeamInputs, rates: &Rates, clients: usize) -> Option<f64> {
    Some(seconds(inputs, clients, rates.client?, rates.stripe?))
}

/// Predicts the time with `clients` clients, in seconds.
fn seconds(inputs: &TeamInputs, clients: usize, client: f64, stripe: f64) -> f64 {
    let range = inputs.range_bytes.clamp(1, inputs.bytes.max(1));
    let rounds = inputs.bytes.div_ceil(range).div_ceil(clients as u64);
    let moving = rounds as f64 * range as f64 / client;
    let storing = inputs.bytes as f64 / (f64::from(inputs.stripes.max(1)) * stripe);
    moving.max(storing) + clients as f64 * JOIN_SECONDS
}

impl TeamChoice {
    /// Returns the inputs and the choice as one line.
    #[must_use]
    pub fn remark(&self, inputs: &TeamInputs, rates: &Rates) -> String {
        let TeamInputs { bytes, stripes, clients, waiting, .. } = inputs;
        let of = format!(
            "a team of {} for {} MB on {stripes} stripes, of {clients} clients, {waiting} other files waiting",
            self.clients,
            megabytes(*bytes)
        );
        match (rates.client, rates.stripe, self.seconds, self.best) {
            (Some(client), Some(stripe), Some(seconds), Some((best, of_best))) => format!(
                "{of}; measured {:.1} MB/s a client, {:.1} a stripe; predicted {seconds:.2} s, at best {best:.2} s with {of_best}",
                client / 1e6,
                stripe / 1e6
            ),
            _ => format!("{of}; nothing measured yet: a client for each stripe"),
        }
    }
}

/// Converts bytes to megabytes (10⁶).
pub(crate) fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn inputs() -> impl Strategy<Value = TeamInputs> {
        (0u64..1 << 40, 1u32..200, MIB..256 * MIB, 1usize..600, 0usize..20).prop_map(
            |(bytes, stripes, range_bytes, clients, waiting)| TeamInputs {
                bytes,
                stripes,
                range_bytes,
                clients,
                waiting,
            },
        )
    }

    fn rates(client: f64, stripe: f64) -> Rates {
        Rates { client: Some(client), stripe: Some(stripe), ..Rates::default() }
    }

    fn rate() -> impl Strategy<Value = f64> {
        (0.0f64..4.0).prop_map(|power| 1e6 * 10f64.powf(power))
    }

    proptest! {
        #[test]
        fn a_team_has_somebody_and_no_more_than_there_are(inputs in inputs(), client in rate(), stripe in rate()) {
            for rates in [Rates::default(), rates(client, stripe)] {
                let choice = choose(&inputs, &rates);
                prop_assert!(choice.clients >= 1 && choice.clients <= inputs.clients);
                let ranges = inputs.bytes.div_ceil(inputs.range_bytes).max(1);
                prop_assert!(choice.clients as u64 <= ranges);
            }
        }

        #[test]
        fn no_smaller_team_is_nearly_as_good(inputs in inputs(), client in rate(), stripe in rate()) {
            let choice = choose(&inputs, &rates(client, stripe));
            let (best, _) = choice.best.unwrap();
            prop_assert!(choice.seconds.unwrap() <= best * (1.0 + TOLERANCE));
            for fewer in 1..choice.clients {
                prop_assert!(seconds(&inputs, fewer, client, stripe) > best * (1.0 + TOLERANCE));
            }
        }

        #[test]
        fn a_slower_client_needs_no_fewer_of_them(stripes in 1u32..64, client in rate(), stripe in rate()) {
            let inputs = TeamInputs { bytes: 1 << 40, stripes, range_bytes: 32 * MIB, clients: 512, waiting: 0 };
            let of = |client| choose(&inputs, &rates(client, stripe)).clients;
            prop_assert!(of(client / 2.0) >= of(client));
        }

        #[test]
        fn rates_stay_within_what_was_seen(seen in proptest::collection::vec(1u64..1 << 30, 1..50)) {
            let mut rates = Rates::default();
            seen.iter().for_each(|&bytes| rates.observe(bytes, 1.0, 4, 4));
            let (least, most) = (*seen.iter().min().unwrap() as f64, *seen.iter().max().unwrap() as f64);
            for rate in [rates.client.unwrap(), rates.stripe.unwrap()] {
                prop_assert!(rate >= least * 0.999_999 && rate <= most * 1.000_001, "{rate} of {least}..{most}");
            }
        }
    }

    #[test]
    fn the_rate_of_a_client_is_that_of_its_ranges_together() {
        let mut rates = Rates::default();
        for _ in 0..50 {
            rates.observe(8 << 20, 2.0, 1, 1);
            rates.observe(8 << 20, 0.0, 1, 1);
        }
        let rate = rates.client.unwrap() / f64::from(8 << 20);
        assert!((0.9..=1.15).contains(&rate), "{rate}");
    }

    #[test]
    fn one_client_a_stripe_until_something_is_measured() {
        let inputs =
            TeamInputs { bytes: 1 << 34, stripes: 8, range_bytes: 32 * MIB, clients: 100, waiting: 0 };
        assert_eq!(choose(&inputs, &Rates::default()).clients, 8);
        assert_eq!(choose(&TeamInputs { waiting: 19, ..inputs }, &Rates::default()).clients, 5);
    }

    #[test]
    fn fast_targets_want_several_clients_a_stripe_and_slow_ones_fewer() {
        let inputs =
            TeamInputs { bytes: 24_000_000_000, stripes: 4, range_bytes: 32 * MIB, clients: 100, waiting: 0 };
        let fast = choose(&inputs, &rates(100e6, 500e6));
        assert!((18..=22).contains(&fast.clients), "{fast:?}");
        let slow = choose(&inputs, &rates(100e6, 25e6));
        assert_eq!(slow.clients, 1, "{slow:?}");
        let remark = fast.remark(&inputs, &rates(100e6, 500e6));
        assert!(
            remark.contains("24000 MB on 4 stripes") && remark.contains("100.0 MB/s a client"),
            "{remark}"
        );
        assert!(!remark.contains('\n'));
    }
}
