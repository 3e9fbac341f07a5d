//! The queue of handshakes: decides how long each waits, or when its client should retry. It is
//! pure: time and chance come in as arguments.
//!
//! Two rate limiters run at the same rate: one for admitted handshakes, one for promised returns.
//! The second runs ahead of the first while a herd is refused, so the herd returns exactly as fast
//! as it can be admitted.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::rate_limiter::RateLimiter;

/// The longest wait of a new arrival.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The longest wait of a client that returns in time: `Retry-After` is in whole seconds, so all of
/// a second arrive at once.
pub(crate) const RETURN_WAIT: Duration = Duration::from_millis(2_000);

/// The longest `Retry-After`, in seconds.
pub(crate) const MAX_RETRY: u64 = 30;

/// After a quiet time, as many handshakes as the rate allows in this time are admitted at once.
const BURST: Duration = Duration::from_millis(100);

/// A client may return this much too early: clocks tick coarsely.
const EARLY: Duration = Duration::from_millis(100);

/// A client that returns later than this is a new arrival.
const LATE: Duration = Duration::from_secs(10);

/// How long a client that asked first may take to connect. In this time, all who asked may connect
/// at once.
pub(crate) const PLACE_KEPT: Duration = Duration::from_secs(5);

/// How many users with tickets are remembered, in some 2 MB; the others return as new arrivals.
const MAX_TICKETS: usize = 1 << 16;

/// Expired tickets are dropped at most this often, because that walks over all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// After this wait.
    Admit(Duration),
    /// In so many seconds.
    RetryAfter(u64),
}

/// What a user was promised.
#[derive(Debug, Clone, Copy)]
enum Ticket {
    /// The user was refused, and may return then.
    Return(Instant),
    /// The user asked first. A place is booked for then.
    Place(Instant),
}

impl Ticket {
    fn is_good(self, now: Instant) -> bool {
        match self {
            Self::Return(due) => now < due + LATE,
            Self::Place(due) => now < due + PLACE_KEPT,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    admitted: RateLimiter,
    promised: RateLimiter,
    /// By the hash of the user.
    tickets: HashMap<u64, Ticket>,
    swept: Option<Instant>,
}

impl Queue {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            admitted: RateLimiter::new(per_second, BURST),
            promised: RateLimiter::new(per_second, Duration::ZERO),
            tickets: HashMap::new(),
            swept: None,
        }
    }

    /// Decides on a handshake. `chance` is from 0 to 1 and rounds the seconds.
    pub(crate) fn decide(&mut self, user: u64, now: Instant, chance: f64) -> Decision {
        self.drop_expired(now);
        let due = match self.tickets.get(&user).filter(|ticket| ticket.is_good(now)) {
            Some(Ticket::Place(due)) => {
                let wait = due.saturating_duration_since(now);
                self.tickets.remove(&user);
                return Decision::Admit(wait);
            }
            Some(Ticket::Return(due)) => Some(*due),
            None => None,
        };
        let early = due
            .map(|due| due.saturating_duration_since(now))
            .filter(|rest| *rest > EARLY);
        let returns = due.is_some() && early.is_none();
        if self.admitted.wait(now) <= if returns { RETURN_WAIT } else { FIRST_WAIT } {
            self.tickets.remove(&user);
            return Decision::Admit(self.admitted.book(1, now));
        }
        Decision::RetryAfter(match early {
            Some(rest) => rest.as_secs_f64().ceil() as u64,
            None => self.refuse(user, now, chance),
        })
    }

    /// Decides as [`Self::decide`] does, and keeps the place that it books for the user's
    /// handshake. A user has one place at most, and does not keep it longer by asking again.
    pub(crate) fn reserve(&mut self, user: u64, now: Instant, chance: f64) -> Decision {
        if let Some(ticket @ Ticket::Place(due)) = self.tickets.get(&user)
            && ticket.is_good(now)
        {
            return Decision::Admit(due.saturating_duration_since(now));
        }
        let decision = self.decide(user, now, chance);
        if let Decision::Admit(wait) = decision {
            self.remember(user, Ticket::Place(now + wait));
        }
        decision
    }

    /// Refuses a user; answers after how many seconds to retry.
    pub(crate) fn refuse(&mut self, user: u64, now: Instant, chance: f64) -> u64 {
        let seconds = self.promise(now, chance);
        self.drop_expired(now);
        self.remember(user, Ticket::Return(now + Duration::from_secs(seconds)));
        seconds
    }

    fn remember(&mut self, user: u64, ticket: Ticket) {
        if self.tickets.len() < MAX_TICKETS || self.tickets.contains_key(&user) {
            self.tickets.insert(user, ticket);
        }
    }

    /// Reserves the next place among the promised returns.
    fn promise(&mut self, now: Instant, chance: f64) -> u64 {
        let longest = MAX_RETRY as f64;
        let wait = self
            .promised
            .wait(now)
            .max(self.admitted.wait(now))
            .as_secs_f64();
        if wait + 1.0 > longest {
            // The queue has its greatest length: the client returns somewhere in its second half.
            return (longest * (0.5 + chance / 2.0)).round() as u64;
        }
        self.promised.not_before(now + self.admitted.wait(now));
        self.promised.book(1, now);
        ((wait + chance) as u64).max(1)
    }

    /// Drops expired tickets, and gives back the memory that a herd took.
    fn drop_expired(&mut self, now: Instant) {
        if self.tickets.capacity() == 0 || self.swept.is_some_and(|at| now < at + SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.tickets.retain(|_, ticket| ticket.is_good(now));
        if self.tickets.capacity() > 4 * self.tickets.len() {
            self.tickets.shrink_to(2 * self.tickets.len());
        }
    }
}

#[cfg(test)]
mod tests;
