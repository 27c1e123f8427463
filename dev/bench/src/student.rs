//! Student's t distribution, as far as a one-tailed test needs it, and the two t-tests.
//!
//! The tail is a regularised incomplete beta function, `P(T > t) = I_x(n/2, 1/2) / 2` with
//! `x = n / (n + t²)` for `t >= 0` (Abramowitz and Stegun, *Handbook of Mathematical Functions*,
//! 26.7.1 and 26.5.8). It is computed by its continued fraction with the modified Lentz method
//! (Press et al., *Numerical Recipes*, 6.4), accurate to about 14 digits.
//!
//! Promises: samples that cannot be tested (fewer than two runs, no spread at all) give no result,
//! never a made-up one.

use serde::{Deserialize, Serialize};

use crate::statistics::Summary;

/// Result of a t-test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TTest {
    /// Difference of the means, in standard errors; positive if it is in the expected direction.
    pub(crate) t: f64,
    /// Degrees of freedom.
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
        Some(TTest { t, degrees, p: upper_tail(t, degrees) })
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

/// Returns the probability of a value greater than `t`, with `degrees` degrees of freedom.
fn upper_tail(t: f64, degrees: f64) -> f64 {
    let tail = incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5) / 2.0;
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// Returns the regularised incomplete beta function `I_x(a, b)`.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on this side of the mean; the other side is its mirror image.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// Maximum number of terms of the fraction; a handful is usual.
const TERMS_MAX: u32 = 500;

/// Evaluates the continued fraction of the incomplete beta function.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for term in 1..=TERMS_MAX {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Coefficients of the Lanczos approximation with g = 7 (Godfrey, 2001).
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// Returns the logarithm of the gamma function for x > 0.
fn ln_gamma(x: f64) -> f64 {
    if x < 0.5 {
        // The reflection formula.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let series = LANCZOS
        .iter()
        .enumerate()
        .skip(1)
        .fold(LANCZOS[0], |sum, (index, coefficient)| sum + coefficient / (x + index as f64));
    let base = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * base.ln() - base + series.ln()
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
            assert_near(upper_tail(t, degrees), p, p * 0.002);
        }
    }

    #[test]
    fn the_tail_agrees_with_the_closed_forms() {
        for t in [-8.0_f64, -1.0, -0.1, 0.0, 0.3, 1.0, 2.5, 40.0] {
            // With one degree of freedom it is the Cauchy distribution; two have a closed form.
            let cauchy = 0.5 - t.atan() / std::f64::consts::PI;
            assert_near(upper_tail(t, 1.0), cauchy, 1e-12);
            assert_near(upper_tail(t, 2.0), 0.5 * (1.0 - t / (2.0 + t * t).sqrt()), 1e-12);
        }
        // With many degrees it approaches the normal distribution.
        assert_near(upper_tail(1.959_963_985, 1e9), 0.025, 1e-6);
    }

    #[test]
    fn the_gamma_function_is_the_factorial() {
        assert_near(ln_gamma(1.0), 0.0, 1e-13);
        assert_near(ln_gamma(6.0), 120.0_f64.ln(), 1e-12);
        assert_near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        assert_near(ln_gamma(0.25), 3.625_609_908_221_908_f64.ln(), 1e-12);
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
