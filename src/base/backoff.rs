//! How long a caller waits before it retries a failed call. The callers count the failures.

use super::clock::Millis;

/// The wait where a retry each second is cheap enough, however long the call fails, in ms.
pub(crate) const RETRY_DELAY_MS: Millis = 1_000;

/// Waits that double with each failure in a row, up to the longest, in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Millis,
    pub(crate) longest: Millis,
}

impl Backoff {
    /// The wait after a failure that followed `others` failures in a row.
    pub(crate) fn wait(self, others: u32) -> Millis {
        self.first
            .saturating_mul(1 << others.min(20))
            .min(self.longest)
    }

    /// At least half of [`Self::wait`], and all of it with a chance of 1, so that callers that
    /// failed together do not retry in step.
    pub(crate) fn jittered(self, others: u32, chance: f64) -> Millis {
        let half = self.wait(others) / 2;
        half + (half as f64 * chance.clamp(0.0, 1.0)) as Millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let backoff = Backoff {
            first: 500,
            longest: 3_000,
        };
        assert_eq!(
            [0, 1, 2, 3, 63, u32::MAX].map(|others| backoff.wait(others)),
            [500, 1_000, 2_000, 3_000, 3_000, 3_000]
        );
        assert_eq!(
            [0.0, 0.5, 1.0, 7.0].map(|chance| backoff.jittered(1, chance)),
            [500, 750, 1_000, 1_000]
        );
    }
}
