//! A rate limit per key, such as a user or an address. The map holds only keys that took something
//! lately.

use std::hash::Hash;

use dashmap::DashMap;

use super::clock::{AtomicMoment, Millis, Moment};
use super::gcra::Rate;

/// Tells one of many callers, once a second, that it is time to forget the keys whose budgets are
/// full again.
#[derive(Debug, Default)]
pub(crate) struct TimeToForget(AtomicMoment);

impl TimeToForget {
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let last = self.0.load();
        now >= last + 1_000 && self.0.replace(last, now)
    }
}

#[derive(Debug)]
pub(crate) struct Budgets<K: Eq + Hash> {
    rate: Rate,
    spent: DashMap<K, u64>,
    time_to_forget: TimeToForget,
}

impl<K: Eq + Hash + Clone> Budgets<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            spent: DashMap::new(),
            time_to_forget: TimeToForget::default(),
        }
    }

    /// Takes `units` if the budget has them, else nothing.
    ///
    /// # Errors
    /// How long until the budget has them, in ms.
    pub(crate) fn take(&self, whose: &K, units: u32, now: Moment) -> Result<(), Millis> {
        if self.rate.is_unlimited() {
            return Ok(());
        }
        self.forget(now);
        let mut spent = self.spent.entry(whose.clone()).or_default();
        self.rate.take(&mut spent, units, now)
    }

    /// Takes `units`, even if that overdraws the budget.
    pub(crate) fn overdraw(&self, whose: &K, units: u32, now: Moment) {
        if self.rate.is_unlimited() {
            return;
        }
        self.forget(now);
        let mut spent = self.spent.entry(whose.clone()).or_default();
        self.rate.count(&mut spent, units, now);
    }

    /// How long until the budget is no longer overdrawn, in ms.
    pub(crate) fn wait(&self, whose: &K, now: Moment) -> Millis {
        match self.spent.get(whose) {
            Some(spent) => self.rate.wait(*spent, now),
            None => 0,
        }
    }

    fn forget(&self, now: Moment) {
        if self.time_to_forget.is_due(now) {
            self.spent
                .retain(|_, spent| self.rate.is_spent(*spent, now));
            self.spent.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    #[test]
    fn budgets_that_are_full_again_take_no_memory() {
        let budgets = Budgets::new(Rate::per_second(10));
        for n in 0..10_000 {
            budgets.take(&n, 1, moment(5)).unwrap();
            budgets.overdraw(&n, 1, moment(5));
        }
        budgets.take(&0, 1, moment(5_000)).unwrap();
        assert_eq!(budgets.spent.len(), 1);
    }
}
