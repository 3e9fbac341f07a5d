//! The checks of the embedded store. There is one gateway, so this serves as the model.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::GatewayId;
use crate::store::{
    CheckLive, Checked, Checks, ExpectedSlice, Finding, FoundSlice, LiveState, SliceReading,
    StoreResult,
};

impl MemoryStore {
    fn check_live(&self, gateway: &GatewayId, expected: &CheckLive) -> Vec<Finding> {
        let CheckLive {
            live,
            epoch,
            listed,
            removals,
            info,
            counted,
            slices,
        } = expected;
        let mut findings = Vec::new();
        {
            let lives = self.lives.lock();
            let kept = lives.kept.get(live);
            let same = kept.is_some_and(|kept| {
                let record = &kept.record;
                (record.state, record.epoch) == (LiveState::Open, *epoch)
                    && (record.removals, record.info.version) == (*removals, *info)
            });
            if !same {
                findings.push(Finding::Record);
            }
            let there = kept
                .and_then(|kept| kept.record.counted)
                .map(|counted| counted.figures)
                .unwrap_or_default();
            if counted.is_some_and(|figures| figures != there) {
                findings.push(Finding::Counted);
            }
            if *listed && !lives.listed.contains(live.as_str()) {
                findings.push(Finding::Unlisted);
            }
        }
        for (place, expected) in slices.iter().enumerate() {
            findings.extend(
                self.check_slice(gateway, expected)
                    .map(|reading| Finding::Slice(place, reading)),
            );
        }
        findings
    }

    fn check_slice(&self, gateway: &GatewayId, expected: &ExpectedSlice) -> Option<SliceReading> {
        let reading = self.reading(&expected.slice, gateway);
        (!expected.is_met(&FoundSlice::from(&reading))).then_some(reading)
    }
}

#[async_trait]
impl Checks for MemoryStore {
    async fn check(&self, gateway: &GatewayId, lives: &[CheckLive]) -> Vec<Checked> {
        let check = |expected| Checked {
            findings: self.check_live(gateway, expected),
            complete: Ok(()),
        };
        lives.iter().map(check).collect()
    }

    async fn check_slices(
        &self,
        gateway: &GatewayId,
        slices: &[ExpectedSlice],
    ) -> Vec<StoreResult<Option<SliceReading>>> {
        slices
            .iter()
            .map(|expected| Ok(self.check_slice(gateway, expected)))
            .collect()
    }
}
