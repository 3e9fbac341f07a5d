//! Which time settings the gateways of a run have.

use clap::ValueEnum;

use simulation::timing::Timing;

/// The gateways' times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// The gateway's defaults
    Normal,
    /// Short ones, for a quick look
    Fast,
}

impl Pace {
    pub fn timing(self) -> Timing {
        match self {
            Self::Normal => Timing::NORMAL,
            Self::Fast => Timing::FAST,
        }
    }
}
