//! The checks of the embedded store. There is one gateway, so this serves as the model.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::GatewayId;
use crate::store::{
    CheckLive, Checked, Checks, Entries, ExpectedSlice, Figures, Finding, SliceLook,
};

impl MemoryStore {
    fn check_live(&self, gateway: &GatewayId, expected: &CheckLive) -> Vec<Finding> {
        let CheckLive {
            live,
            epoch,
            listed,
            removals,
            version,
            counted,
            slices,
        } = expected;
        let mut findings = Vec::new();
        {
            let lives = self.lives.lock();
            let mut is_same = false;
            let mut there = Figures::default();
            if let Some(kept) = lives.kept.get(live) {
                let record = &kept.record;
                is_same = record.is_open_in(*epoch)
                    && record.removals == *removals
                    && record.version == *version;
                there = record.figures();
            }
            if !is_same {
                findings.push(Finding::Record);
            }
            if counted.is_some_and(|figures| figures != there) {
                findings.push(Finding::Counted);
            }
            if *listed && !lives.listed.contains(live.as_str()) {
                findings.push(Finding::Unlisted);
            }
        }
        for (place, expected) in slices.iter().enumerate() {
            if let Some(look) = self.check_slice(gateway, expected) {
                findings.push(Finding::Slice(place, look));
            }
        }
        findings
    }

    /// The slice as it is, if it is not as expected.
    fn check_slice(&self, gateway: &GatewayId, expected: &ExpectedSlice) -> Option<SliceLook> {
        let look = self.read(&expected.slice, |slice| slice.look(gateway, Entries::Own));
        if expected.is_met(&look) {
            None
        } else {
            Some(look)
        }
    }
}

#[async_trait]
impl Checks for MemoryStore {
    async fn check(&self, gateway: &GatewayId, lives: &[CheckLive]) -> Vec<Checked> {
        let mut checked = Vec::with_capacity(lives.len());
        for expected in lives {
            checked.push(Checked {
                findings: self.check_live(gateway, expected),
                complete: Ok(()),
            });
        }
        checked
    }
}
