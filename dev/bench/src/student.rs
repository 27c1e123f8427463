//! Welch's and the pooled t-test, one-tailed.
//!
//! Promises: samples that cannot be tested (fewer than two runs, no spread at all) give no result,
//! never a made-up one.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::statistics::Summary;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TTest {
    /// Difference of the means, in standard errors; positive if it is in the expected direction.
    pub(crate) t: f64,
    pub(crate) degrees: f64,
    /// Probability of a difference this large or larger if there is none.
    pub(crate) p: f64,
}

/// Two samples, one of which is expected to have the smaller mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Samples<'a> {
    /// The sample expected to be smaller.
    pub(crate) smaller: &'a Summary,
    /// The sample expected to be larger.
    pub(crate) larger: &'a Summary,
}

impl Samples<'_> {
    /// Performs Welch's test, which assumes unequal variances: the one to trust.
    pub(crate) fn welch(self) -> Option<TTest> {
        let (one, other) = (variance_of_mean(self.smaller)?, variance_of_mean(self.larger)?);
        let squared = one.variance + other.variance;
        let degrees = squared.powi(2)
            / (one.variance.powi(2) / (one.count - 1.0) + other.variance.powi(2) / (other.count - 1.0));
        self.test(squared, degrees)
    }

    /// Performs the pooled test, which assumes equal variances: the one in the textbooks.
    pub(crate) fn pooled(self) -> Option<TTest> {
        let (one, other) = (variance_of_mean(self.smaller)?, variance_of_mean(self.larger)?);
        let degrees = one.count + other.count - 2.0;
        // From the variances of the means back to the sums of squares.
        let squares =
            one.variance * one.count * (one.count - 1.0) + other.variance * other.count * (other.count - 1.0);
        self.test(squares / degrees * (1.0 / one.count + 1.0 / other.count), degrees)
    }

    fn test(self, squared_error: f64, degrees: f64) -> Option<TTest> {
        if !(squared_error > 0.0 && degrees.is_finite()) {
            return None;
        }
        let t = (self.larger.mean - self.smaller.mean) / squared_error.sqrt();
        Some(TTest { t, degrees, p: upper_tail(t, degrees)? })
    }
}

struct MeanVariance {
    variance: f64,
    count: f64,
}

fn variance_of_mean(sample: &Summary) -> Option<MeanVariance> {
    let count = sample.count as f64;
    sample.deviation.map(|deviation| MeanVariance { variance: deviation.powi(2) / count, count })
}

/// Returns the probability of a value greater than `t`.
fn upper_tail(t: f64, degrees: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, degrees).ok().map(|distribution| distribution.sf(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    #[test]
    fn the_tail_is_that_of_the_printed_tables() {
        // Critical values from the usual textbook tables: degrees, t, one-tailed probability.
        for (degrees, t, p) in [
            (1.0, 6.314, 0.05),
            (1.0, 31.821, 0.01),
            (2.0, 2.920, 0.05),
            (4.0, 2.132, 0.05),
            (5.0, 2.015, 0.05),
            (8.0, 1.860, 0.05),
            (8.0, 2.896, 0.01),
            (8.0, 3.355, 0.005),
            (10.0, 1.812, 0.05),
            (20.0, 2.528, 0.01),
            (30.0, 2.750, 0.005),
            (120.0, 1.658, 0.05),
        ] {
            assert_near(upper_tail(t, degrees).unwrap(), p, p * 0.002);
        }
    }

    #[test]
    fn the_tail_agrees_with_the_closed_forms() {
        for t in [-8.0_f64, -1.0, -0.1, 0.0, 0.3, 1.0, 2.5, 40.0] {
            // With one degree of freedom it is the Cauchy distribution; two have a closed form.
            let cauchy = 0.5 - t.atan() / std::f64::consts::PI;
            assert_near(upper_tail(t, 1.0).unwrap(), cauchy, 1e-12);
            assert_near(upper_tail(t, 2.0).unwrap(), 0.5 * (1.0 - t / (2.0 + t * t).sqrt()), 1e-12);
        }
        // With many degrees it approaches the normal distribution.
        assert_near(upper_tail(1.959_963_985, 1e9).unwrap(), 0.025, 1e-6);
    }

    /// Student's own data of 1908: extra hours of sleep from two drugs.
    const SLEEP: [[f64; 10]; 2] = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ];

    #[test]
    fn both_tests_agree_with_the_textbook_on_students_sleep() {
        let [one, two] = SLEEP.map(|values| Summary::of(values).unwrap());
        let samples = Samples { smaller: &one, larger: &two };
        // R's output for the two-sided test: t = 1.8608, df = 17.776, p = 0.07939; pooled 0.07919.
        let welch = samples.welch().unwrap();
        assert_near(welch.t, 1.8608, 5e-5);
        assert_near(welch.degrees, 17.776, 5e-4);
        assert_near(welch.p, 0.07939 / 2.0, 5e-6);
        let pooled = samples.pooled().unwrap();
        assert_eq!(pooled.degrees, 18.0);
        assert_near(pooled.p, 0.07919 / 2.0, 5e-6);
        // With the expectation reversed, p is the other tail.
        let other = Samples { smaller: &two, larger: &one }.welch().unwrap();
        assert_near(other.p, 1.0 - welch.p, 1e-12);
    }

    #[test]
    fn samples_of_different_spread_and_size_differ_in_their_tests() {
        let even = Summary::of([10.0, 10.1, 9.9, 10.0, 10.05, 9.95]).unwrap();
        let wild = Summary::of([9.0, 14.0, 11.0]).unwrap();
        let samples = Samples { smaller: &even, larger: &wild };
        let (welch, pooled) = (samples.welch().unwrap(), samples.pooled().unwrap());
        assert_eq!(pooled.degrees, 7.0);
        assert!(welch.degrees > 2.0 && welch.degrees < 2.01, "{welch:?}");
        assert!(welch.p > pooled.p, "{welch:?} {pooled:?}");
    }

    #[test]
    fn what_cannot_be_tested_has_no_result() {
        let some = Summary::of([1.0, 2.0]).unwrap();
        let single = Summary::of([3.0]).unwrap();
        assert_eq!(Samples { smaller: &some, larger: &single }.welch(), None);
        let flat = Summary::of([1.0, 1.0]).unwrap();
        assert_eq!(Samples { smaller: &flat, larger: &flat }.pooled(), None);
        assert_eq!(Samples { smaller: &flat, larger: &flat }.welch(), None);
    }
}
