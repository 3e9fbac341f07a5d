//! Whether a series of readings grows: the slope of a robust line through it, and how certain that
//! slope is.
//!
//! The readings are cut into blocks of equal length, and each block is represented by its median.
//! The slope is that of Theil and Sen: the median of the slopes between all pairs of blocks, which
//! a few outliers do not move. Its interval of 95 % is Sen's, from Kendall's variance, widened by
//! the lag-1 autocorrelation of what the line leaves over, because memory now is much like memory a
//! minute ago.

use serde::Serialize;

use crate::report::ValueSpread;

/// Blocks are as long as this, or longer if there would be too many of them.
const BLOCK_SECONDS: f64 = 60.0;
const MOST_BLOCKS: usize = 500;
/// From fewer blocks nothing follows.
const FEWEST_BLOCKS: usize = 30;
/// The standard deviations within which 95 % of a normal distribution lie.
const DEVIATIONS: f64 = 1.96;
/// With more autocorrelation the interval would have no end.
const MOST_CORRELATION: f64 = 0.95;

/// What follows from a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlopeVerdict {
    /// The whole interval is within the bound.
    Steady,
    /// The whole interval is above the bound.
    Grows,
    /// The series is short, or the bound lies within the interval.
    TooShortToTell,
}

/// Growth, in percent of the median per hour.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Slope {
    pub(super) blocks: usize,
    pub(super) median: f64,
    pub(super) percent_per_hour: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Slope {
    /// Of readings with their times in seconds, in order; `None` with fewer than three blocks.
    pub(super) fn of(readings: &[(f64, f64)]) -> Option<Self> {
        let blocks = blocks(readings);
        let middle = median(&blocks.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
        if blocks.len() < 3 || middle <= 0.0 {
            return None;
        }
        let mut slopes: Vec<f64> = (0..blocks.len())
            .flat_map(|late| (0..late).map(move |early| (early, late)))
            .map(|(early, late)| {
                (blocks[late].1 - blocks[early].1) / (blocks[late].0 - blocks[early].0)
            })
            .collect();
        slopes.sort_unstable_by(f64::total_cmp);
        let slope = median(&slopes)?;
        let reach = reach(&blocks, slope);
        let pairs = slopes.len() as f64;
        let low = at(&slopes, (pairs - reach) / 2.0 - 1.0);
        let high = at(&slopes, (pairs + reach) / 2.0);
        Some(Self {
            blocks: blocks.len(),
            median: middle,
            percent_per_hour: percent_per_hour(slope, middle),
            low: percent_per_hour(low, middle),
            high: percent_per_hour(high, middle),
        })
    }

    /// Judges the growth against a bound in percent per hour.
    pub(super) fn verdict(&self, bound: f64) -> SlopeVerdict {
        if self.blocks < FEWEST_BLOCKS {
            SlopeVerdict::TooShortToTell
        } else if self.high <= bound {
            SlopeVerdict::Steady
        } else if self.low > bound {
            SlopeVerdict::Grows
        } else {
            SlopeVerdict::TooShortToTell
        }
    }
}

/// The slope at a place of the sorted slopes, or at the nearest end.
fn at(slopes: &[f64], place: f64) -> f64 {
    slopes[(place.round().max(0.0) as usize).min(slopes.len() - 1)]
}

/// A slope per second, in percent of the median per hour.
fn percent_per_hour(slope: f64, median: f64) -> f64 {
    slope * 3_600.0 / median * 100.0
}

/// How many of the sorted slopes the interval has.
fn reach(blocks: &[(f64, f64)], slope: f64) -> f64 {
    let n = blocks.len() as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let r = correlation(blocks, slope);
    DEVIATIONS * (variance * (1.0 + r) / (1.0 - r)).sqrt()
}

/// The lag-1 autocorrelation of what a line of this slope leaves over; 0 if it is negative.
fn correlation(blocks: &[(f64, f64)], slope: f64) -> f64 {
    let left: Vec<f64> = blocks
        .iter()
        .map(|(at, value)| value - slope * at)
        .collect();
    let mean = left.iter().sum::<f64>() / left.len() as f64;
    let own: f64 = left.iter().map(|value| (value - mean).powi(2)).sum();
    let next: f64 = left
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    if own > 0.0 {
        (next / own).clamp(0.0, MOST_CORRELATION)
    } else {
        0.0
    }
}

/// The middle of each block's time, and the median of its values.
fn blocks(readings: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some((first, _)), Some((last, _))) = (readings.first(), readings.last()) else {
        return Vec::new();
    };
    let length = BLOCK_SECONDS.max((last - first) / MOST_BLOCKS as f64);
    let mut blocks = Vec::new();
    for readings in readings
        .chunk_by(|(a, _), (b, _)| block_of(*a, *first, length) == block_of(*b, *first, length))
    {
        let (began, _) = readings[0];
        let middle = (block_of(began, *first, length) as f64 + 0.5) * length;
        let values: Vec<f64> = readings.iter().map(|(_, value)| *value).collect();
        if let Some(median) = median(&values) {
            blocks.push((middle, median));
        }
    }
    blocks
}

/// The number of the block in which a time lies.
fn block_of(at: f64, first: f64, length: f64) -> usize {
    ((at - first) / length) as usize
}

fn median(values: &[f64]) -> Option<f64> {
    ValueSpread::of(values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// So many minutes of a reading each 10 s around 50 MB, with this growth per hour and this
    /// noise, both in percent.
    fn series(minutes: usize, growth: f64, noise: f64) -> Vec<(f64, f64)> {
        let mut rng = StdRng::seed_from_u64(7);
        let value = |at: f64, rng: &mut StdRng| {
            5e7 * (1.0
                + growth / 100.0 * at / 3_600.0
                + noise / 100.0 * (rng.random::<f64>() - 0.5))
        };
        (0..minutes * 6)
            .map(|number| (number as f64 * 10.0, value(number as f64 * 10.0, &mut rng)))
            .collect()
    }

    #[test]
    fn growth_is_told_from_noise() {
        let verdict = |minutes, growth, noise| {
            Slope::of(&series(minutes, growth, noise))
                .unwrap()
                .verdict(1.0)
        };
        assert_eq!(verdict(60, 0.0, 1.0), SlopeVerdict::Steady);
        assert_eq!(verdict(60, -3.0, 1.0), SlopeVerdict::Steady);
        assert_eq!(verdict(60, 3.0, 1.0), SlopeVerdict::Grows);
        assert_eq!(verdict(60, 1.0, 1.0), SlopeVerdict::TooShortToTell);
        assert_eq!(verdict(60, 0.5, 20.0), SlopeVerdict::TooShortToTell);
    }

    #[test]
    fn a_short_series_tells_nothing_however_clear_it_looks() {
        for growth in [0.0, 50.0] {
            assert_eq!(
                Slope::of(&series(20, growth, 0.1)).unwrap().verdict(1.0),
                SlopeVerdict::TooShortToTell
            );
        }
        assert!(Slope::of(&series(2, 0.0, 0.1)).is_none() && Slope::of(&[]).is_none());
    }

    #[test]
    fn the_slope_lies_in_its_interval_and_outliers_do_not_move_it() {
        let mut grows = series(60, 3.0, 0.5);
        let clean = Slope::of(&grows).unwrap();
        assert!((2.8..3.2).contains(&clean.percent_per_hour), "{clean:?}");
        assert!(
            clean.low <= clean.percent_per_hour && clean.percent_per_hour <= clean.high,
            "{clean:?}"
        );
        grows
            .iter_mut()
            .step_by(40)
            .for_each(|(_, value)| *value *= 2.0);
        let disturbed = Slope::of(&grows).unwrap();
        assert!(
            (2.7..3.3).contains(&disturbed.percent_per_hour),
            "{disturbed:?}"
        );
    }

    #[test]
    fn what_lingers_widens_the_interval() {
        let mut rng = StdRng::seed_from_u64(3);
        let (mut calm, mut lingering, mut drift) = (Vec::new(), Vec::new(), 0.0);
        for minute in 0..60 {
            let noise = rng.random::<f64>() - 0.5;
            drift = 0.9 * drift + noise;
            calm.push((f64::from(minute) * 60.0, 100.0 + noise));
            lingering.push((f64::from(minute) * 60.0, 100.0 + drift));
        }
        let width = |series: &[(f64, f64)]| {
            Slope::of(series)
                .map(|slope| slope.high - slope.low)
                .unwrap()
        };
        assert!(width(&lingering) > 2.0 * width(&calm));
    }
}
