//! The highest figures of a room. A figure is *sure* once this gateway has renewed its lease after
//! it was noted: a store that lost its data, or came back with older data, shows that at the next
//! renewal. Until then a doubt takes it back.

use crate::store::Peaks;

#[derive(Debug, Clone, Copy)]
pub struct RoomPeaks {
    sure: Peaks,
    /// Figures that were noted after this many renewals.
    unsure: Option<(Peaks, u64)>,
}

impl RoomPeaks {
    pub fn new(sure: Peaks) -> Self {
        Self { sure, unsure: None }
    }

    /// Notes figures after so many renewals of the lease.
    pub fn note(&mut self, figures: Peaks, renewals: u64) {
        let sure = self.sure(renewals);
        if sure.max(figures) == sure {
            return;
        }
        self.unsure = match self.unsure {
            Some((unsure, since)) => Some((unsure.max(figures), since)),
            None => Some((figures, renewals)),
        };
    }

    /// The highest sure figures after so many renewals.
    pub fn sure(&mut self, renewals: u64) -> Peaks {
        if let Some((unsure, _)) = self.unsure.take_if(|(_, since)| *since < renewals) {
            self.sure = self.sure.max(unsure);
        }
        self.sure
    }

    /// The highest figures, sure or not.
    pub fn highest(&self) -> Peaks {
        self.unsure
            .map_or(self.sure, |(unsure, _)| self.sure.max(unsure))
    }

    /// Takes back what is not sure.
    pub fn forget_unsure(&mut self) {
        self.unsure = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewers(viewers: u64) -> Peaks {
        Peaks { viewers, fans: 0 }
    }

    #[test]
    fn a_figure_is_sure_after_the_next_renewal() {
        let mut peaks = RoomPeaks::new(viewers(3));
        peaks.note(viewers(5), 7);
        assert_eq!((peaks.sure(7), peaks.highest()), (viewers(3), viewers(5)));
        assert_eq!(peaks.sure(8), viewers(5));
    }

    #[test]
    fn a_doubt_takes_back_what_is_not_sure() {
        let mut peaks = RoomPeaks::new(viewers(3));
        peaks.note(viewers(5), 7);
        peaks.note(viewers(15), 8);
        peaks.forget_unsure();
        assert_eq!((peaks.sure(9), peaks.highest()), (viewers(5), viewers(5)));
    }

    #[test]
    fn figures_that_grow_all_the_time_become_sure_nevertheless() {
        let mut peaks = RoomPeaks::new(viewers(0));
        for n in 1..100 {
            peaks.note(viewers(n), n / 10);
        }
        assert_eq!(peaks.sure(9), viewers(89));
    }
}
