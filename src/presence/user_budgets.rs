//! The work of the store for one user, over all sockets of the user on this gateway: more sockets
//! buy no more work.
//!
//! There are two budgets at the same rate. The gateway refuses requests to the store (joins,
//! watches, opens, closes, moderation) beyond the first, over a socket or over HTTP. A read to find
//! friends is charged by its size after the read; the next read then waits, because that delays only
//! its own user. The gateway remembers only users who asked within the last seconds.

use crate::base::budgets::Budgets;
use crate::base::clock::{Millis, Moment};
use crate::base::gcra::Rate;
use crate::base::ids::UserId;

/// The burst of a user after a pause, in seconds at the rate: all tabs of a browser come back
/// together.
const BURST_SECONDS: u64 = 4;

/// The number of users read for one unit: one call to the store reads as many.
const USERS_PER_UNIT: usize = 1_000;

/// The cost of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Cost {
    /// The user joins, watches or looks up a live, or asks for friends.
    Visit = 1,
    /// The user closes or changes a live, or moderates it: the store reads and changes its record.
    Change = 2,
    /// The user opens a live, which takes many calls.
    Open = 5,
}

#[derive(Debug)]
pub struct UserBudgets {
    requests: Budgets<UserId>,
    reads: Budgets<UserId>,
}

impl UserBudgets {
    /// Budgets of `per_second` units for each user; 0 is no limit.
    pub fn new(per_second: u32) -> Self {
        let rate = Rate::per_second(per_second).with_burst(BURST_SECONDS);
        Self {
            requests: Budgets::new(rate),
            reads: Budgets::new(rate),
        }
    }

    /// Takes the cost of a request.
    ///
    /// # Errors
    /// The budget does not suffice, and nothing was taken; how long until it does, in ms.
    pub fn take(&self, user: &UserId, cost: Cost, now: Moment) -> Result<(), Millis> {
        self.requests.take(user, cost as u32, now)
    }

    /// When the gateway may read more for the user.
    pub fn may_read_at(&self, user: &UserId, now: Moment) -> Moment {
        now + self.reads.wait(user, now)
    }

    /// Charges a read of `users` users; it may overdraw the budget.
    pub fn note_read(&self, user: &UserId, users: usize, now: Moment) {
        let units = users.div_ceil(USERS_PER_UNIT) as u32;
        if units > 0 {
            self.reads.overdraw(user, units, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn a_user_has_one_budget_and_others_have_their_own() {
        let budgets = UserBudgets::new(10);
        let visits = |id: &str, now| {
            (0..1_000)
                .filter(|_| budgets.take(&user(id), Cost::Visit, now).is_ok())
                .count()
        };
        assert_eq!(
            [0, 0, 1_000, 60_000].map(|now| visits("u1", moment(now))),
            [40, 0, 10, 40]
        );
        assert_eq!(visits("u2", moment(60_000)), 40);
        assert!(
            UserBudgets::new(0)
                .take(&user("u1"), Cost::Open, moment(0))
                .is_ok()
        );
    }

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let budgets = UserBudgets::new(1);
        for _ in 0..3 {
            assert!(budgets.take(&user("u1"), Cost::Visit, moment(0)).is_ok());
        }
        assert_eq!(budgets.take(&user("u1"), Cost::Open, moment(0)), Err(4_000));
        assert!(budgets.take(&user("u1"), Cost::Visit, moment(0)).is_ok());
        assert_eq!(
            budgets.take(&user("u1"), Cost::Visit, moment(0)),
            Err(1_000)
        );
    }

    #[test]
    fn who_had_much_read_waits_until_it_is_paid_for() {
        let budgets = UserBudgets::new(10);
        assert_eq!(budgets.may_read_at(&user("u1"), moment(7)), moment(7));
        budgets.note_read(&user("u1"), 40_000, moment(7));
        assert_eq!(
            budgets.may_read_at(&user("u1"), moment(7)),
            moment(7),
            "a burst"
        );
        budgets.note_read(&user("u1"), 10_000, moment(7));
        assert_eq!(budgets.may_read_at(&user("u1"), moment(7)), moment(1_007));
        assert_eq!(budgets.may_read_at(&user("u2"), moment(7)), moment(7));
        assert!(
            budgets.take(&user("u1"), Cost::Visit, moment(7)).is_ok(),
            "requests have a budget of their own"
        );
    }
}
