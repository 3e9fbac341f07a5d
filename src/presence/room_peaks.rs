//! The highest figures of a room. A figure is *sure* once this gateway has renewed its lease after
//! the figure was noted: a store that lost its data, or came back with older data, shows that at
//! the next renewal. Until then a doubt takes the figure back.

use crate::store::Peaks;

#[derive(Debug, Clone, Copy)]
pub struct RoomPeaks {
    sure: Peaks,
    unsure: Option<Unsure>,
    /// The peaks in the record, as far as this gateway knows.
    written: Peaks,
}

/// Figures that may still be taken back.
#[derive(Debug, Clone, Copy)]
struct Unsure {
    peaks: Peaks,
    /// The number of renewals of the lease when the first of these figures was noted.
    renewals: u64,
}

impl RoomPeaks {
    /// With the peaks in the record.
    pub fn new(written: Peaks) -> Self {
        Self {
            sure: written,
            unsure: None,
            written,
        }
    }

    /// Notes figures after this number of renewals of the lease.
    pub fn note(&mut self, figures: Peaks, renewals: u64) {
        let sure = self.sure(renewals);
        if sure.max(figures) == sure {
            return;
        }
        match &mut self.unsure {
            Some(unsure) => unsure.peaks = unsure.peaks.max(figures),
            None => {
                self.unsure = Some(Unsure {
                    peaks: figures,
                    renewals,
                });
            }
        }
    }

    /// The highest sure figures after this number of renewals.
    pub fn sure(&mut self, renewals: u64) -> Peaks {
        if let Some(unsure) = self.unsure
            && unsure.renewals < renewals
        {
            self.sure = self.sure.max(unsure.peaks);
            self.unsure = None;
        }
        self.sure
    }

    /// The highest figures, sure or not.
    pub fn highest(&self) -> Peaks {
        match self.unsure {
            Some(unsure) => self.sure.max(unsure.peaks),
            None => self.sure,
        }
    }

    /// Takes back the figures that are not sure.
    pub fn forget_unsure(&mut self) {
        self.unsure = None;
    }

    /// Notes that the record has these peaks.
    pub fn note_written(&mut self, peaks: Peaks) {
        self.written = peaks;
    }

    /// Whether the record may lack peaks that are sure after this number of renewals.
    pub fn has_unwritten(&mut self, renewals: u64) -> bool {
        let sure = self.sure(renewals);
        self.written.max(sure) != self.written
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
