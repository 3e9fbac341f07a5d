//! Whose totals of those who came and left may be folded, as the gateway that walks judges. State only.
//!
//! A gateway that was cut off or frozen was buried, and comes back under another id. Until its former totals are folded
//! it can still tell what it had counted before, and did not get told; so they are folded long after.

use std::collections::HashMap;
use std::time::Duration;

use crate::base::clock::{Millis, millis};
use crate::base::ids::GatewayId;
use crate::store::Arrivals;

/// A gateway must have been gone for so long, as the gateway that walks has seen.
const FOLD_AFTER: Duration = Duration::from_secs(3_600);

/// The gateways that records name and that do not live, and since when.
#[derive(Debug, Default)]
pub(super) struct GoneOrigins(HashMap<GatewayId, Millis>);

impl GoneOrigins {
    /// Those of these gateways whose totals are to be folded.
    pub(super) fn due(
        &mut self,
        arrivals: &Arrivals,
        lives: impl Fn(&GatewayId) -> bool,
        now: Millis,
    ) -> Vec<GatewayId> {
        let gone = arrivals.origins().filter(|gateway| !lives(gateway));
        let mut is_due = |gateway: &GatewayId| {
            now.saturating_sub(*self.0.entry(gateway.clone()).or_insert(now)) >= millis(FOLD_AFTER)
        };
        gone.filter(|gateway| is_due(gateway)).cloned().collect()
    }

    /// Forgets those who live after all, and those whom no record can name any more: if one does, its time begins anew.
    pub(super) fn forget(&mut self, lives: impl Fn(&GatewayId) -> bool, now: Millis) {
        self.0.retain(|gateway, since| !lives(gateway) && now.saturating_sub(*since) < 2 * millis(FOLD_AFTER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_due_once_their_gateway_has_been_gone_for_long() {
        let (mut gone, arrivals) = (GoneOrigins::default(), Arrivals::parse("a:1:0 b:2:0 c:3:0"));
        let ids = |names: &[&str]| names.iter().map(|name| GatewayId::parse(name).unwrap()).collect::<Vec<_>>();
        let mut due = |living: &[&str], now: Millis| {
            let lives = |gateway: &GatewayId| living.contains(&gateway.as_str());
            gone.forget(lives, now);
            gone.due(&arrivals, lives, now)
        };
        let hour = millis(FOLD_AFTER);
        assert_eq!(due(&["a", "b", "c"], 0), []);
        assert_eq!(due(&["c"], 1), []);
        assert_eq!(due(&["b", "c"], 2), [], "its lease had vanished");
        assert_eq!(due(&["c"], hour), []);
        assert_eq!(due(&["c"], hour + 1), ids(&["a"]));
        assert_eq!(due(&["c"], 2 * hour), ids(&["a", "b"]));
        assert_eq!(due(&["c"], 9 * hour), [], "too long ago to know whether it was gone all the time");
    }
}
