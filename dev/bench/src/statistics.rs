//! Summary statistics over a handful of runs.
//!
//! Run times on a shared machine have long tails, so the figure quoted is the median, with the
//! whole range next to it. The mean and the sample deviation are kept in the JSON; `student` uses
//! them to test differences.

use serde::{Deserialize, Serialize};

/// Statistics of one quantity over the counted runs of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    /// The middle run, or the mean of the middle two.
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
    /// Sample standard deviation (divisor n - 1); `None` with fewer than two runs.
    pub(crate) deviation: Option<f64>,
}

impl Summary {
    /// Summarises `values`, or returns `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Summary { count, median, min, max, mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn one_run_is_its_own_median_and_has_no_deviation() {
        let summary = Summary::of([2.5]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max, summary.deviation), (2.5, 2.5, 2.5, None));
    }

    #[test]
    fn the_median_of_an_odd_count_is_a_run_and_of_an_even_count_lies_between_two() {
        assert_eq!(Summary::of([9.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of([9.0, 1.0, 2.0, 4.0]).unwrap().median, 3.0);
    }

    #[test]
    fn an_outlier_moves_the_mean_and_not_the_median() {
        let summary = Summary::of([1.0, 1.0, 100.0, 1.0, 1.0]).unwrap();
        assert_eq!(summary.median, 1.0);
        assert_eq!(summary.mean, 20.8);
        assert_eq!((summary.min, summary.max, summary.count), (1.0, 100.0, 5));
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let summary = Summary::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((summary.deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }
}
