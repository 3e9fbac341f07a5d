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

/// The longest wait of a client that returns in time. `Retry-After` is in whole seconds, so all
/// clients of a second arrive at once.
pub(crate) const RETURN_WAIT: Duration = Duration::from_millis(2_000);

/// The longest `Retry-After`, in seconds.
pub(crate) const MAX_RETRY: u64 = 30;

/// After a quiet time, as many handshakes as the rate allows in this time are admitted at once.
const BURST: Duration = Duration::from_millis(100);

/// A client may return this much too early: clocks tick coarsely.
const EARLY: Duration = Duration::from_millis(100);

/// A client that returns later than this is a new arrival.
const LATE: Duration = Duration::from_secs(10);

/// How long a client that asked before it connects may take to connect. All clients that asked
/// within this time may connect at once.
pub(crate) const PLACE_KEPT: Duration = Duration::from_secs(5);

/// Maximum tickets, in some 2 MB. Users beyond it return as new arrivals.
const MAX_TICKETS: usize = 1 << 16;

/// The queue drops expired tickets at most this often, because that walks over all tickets.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Admit the handshake after this wait.
    Admit(Duration),
    /// Refuse it; the client may retry in so many seconds.
    RetryAfter(u64),
}

/// A promise to a user.
#[derive(Debug, Clone, Copy)]
enum Ticket {
    /// The user was refused, and may return at this time.
    Return(Instant),
    /// The user asked before connecting. A place is booked for this time.
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
pub(crate) struct HandshakeQueue {
    admitted: RateLimiter,
    promised: RateLimiter,
    /// The tickets by the hash of their user.
    tickets: HashMap<u64, Ticket>,
    swept: Option<Instant>,
}

impl HandshakeQueue {
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
        let mut longest_wait = FIRST_WAIT;
        let mut too_early_by = None;
        match self.tickets.get(&user).copied() {
            Some(ticket) if !ticket.is_good(now) => {}
            Some(Ticket::Place(due)) => {
                self.tickets.remove(&user);
                return Decision::Admit(due.saturating_duration_since(now));
            }
            Some(Ticket::Return(due)) => {
                let rest = due.saturating_duration_since(now);
                if rest > EARLY {
                    too_early_by = Some(rest);
                } else {
                    longest_wait = RETURN_WAIT;
                }
            }
            None => {}
        }
        if self.admitted.wait(now) <= longest_wait {
            self.tickets.remove(&user);
            return Decision::Admit(self.admitted.book(1, now));
        }
        let seconds = match too_early_by {
            Some(rest) => rest.as_secs_f64().ceil() as u64,
            None => self.refuse(user, now, chance),
        };
        Decision::RetryAfter(seconds)
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

    /// Refuses a user; returns the seconds until the retry.
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
        if self.tickets.capacity() == 0 {
            return;
        }
        if let Some(at) = self.swept
            && now < at + SWEEP_EVERY
        {
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
