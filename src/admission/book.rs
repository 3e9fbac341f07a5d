//! Owns the line at the door: who goes in when, who is told to come back when. Pure: time and chance come in.
//!
//! Two paces: one of those let in, one of the returns that were promised. The second runs ahead of the first while a
//! herd is refused, and both run at the same rate, so the herd comes back as fast as it can be let in.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::pace::Pace;

/// How long a newcomer waits in place at most.
pub const FIRST_WAIT: Duration = Duration::from_millis(500);

/// How long one who was told to come back now waits in place at most: whole seconds bring everybody of a second at once.
pub const RETURN_WAIT: Duration = Duration::from_millis(2_000);

/// The longest wait that a client is told, in s.
pub const MAX_RETRY: u64 = 30;

/// What goes in at once after a quiet time, as a time at the rate.
const BURST: Duration = Duration::from_millis(100);

/// How much too early, by clocks that tick coarsely, is in time.
const EARLY: Duration = Duration::from_millis(100);

/// How long after the time told a return is still taken for one.
const LATE: Duration = Duration::from_secs(10);

/// How many refused users are remembered; the rest come back as newcomers. Some 2 MB, until they have come back or were
/// forgotten.
const MAX_TICKETS: usize = 1 << 16;

/// How often who did not come back is forgotten, at most: it walks over all tickets.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a user is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// In, after so long.
    In(Duration),
    /// Not now; after so many seconds.
    Later(u64),
}

/// The line.
#[derive(Debug)]
pub struct Book {
    served: Pace,
    promised: Pace,
    /// When the refused may come back, by user.
    tickets: HashMap<u64, Instant>,
    /// When who did not come back was last forgotten.
    swept: Option<Instant>,
}

impl Book {
    /// A line that lets in so many a second.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self {
            served: Pace::new(per_second, BURST),
            promised: Pace::new(per_second, Duration::ZERO),
            tickets: HashMap::new(),
            swept: None,
        }
    }

    /// A user asks to come in. `chance` is from 0 to 1 and rounds the seconds told.
    pub fn ask(&mut self, user: u64, now: Instant, chance: f64) -> Answer {
        self.forget(now);
        let ticket = self.tickets.get(&user).copied().filter(|due| now < *due + LATE);
        let early = ticket.map(|due| due.saturating_duration_since(now)).filter(|rest| *rest > EARLY);
        let returns = ticket.is_some() && early.is_none();
        if self.served.wait(now) <= if returns { RETURN_WAIT } else { FIRST_WAIT } {
            self.tickets.remove(&user);
            return Answer::In(self.served.book(1, now));
        }
        let told = match early {
            Some(rest) => rest.as_secs_f64().ceil() as u64,
            None => self.promise(now, chance),
        };
        if early.is_none() {
            self.remember(user, now, told);
        }
        Answer::Later(told)
    }

    /// Tells a user to come back who was let in, but there is no room.
    pub fn refuse(&mut self, user: u64, now: Instant, chance: f64) -> u64 {
        let told = self.promise(now, chance);
        self.remember(user, now, told);
        told
    }

    /// The next place among those who were told to come back.
    fn promise(&mut self, now: Instant, chance: f64) -> u64 {
        let longest = MAX_RETRY as f64;
        let wait = self.promised.wait(now).max(self.served.wait(now)).as_secs_f64();
        if wait + 1.0 > longest {
            // The line is as long as it gets: somewhere in its second half.
            return (longest * (0.5 + chance / 2.0)).round() as u64;
        }
        self.promised.not_before(now + self.served.wait(now));
        self.promised.book(1, now);
        ((wait + chance) as u64).max(1)
    }

    /// Forgets who did not come back, and gives back the memory that a herd took.
    fn forget(&mut self, now: Instant) {
        if self.tickets.capacity() == 0 || self.swept.is_some_and(|at| now < at + SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.tickets.retain(|_, due| now < *due + LATE);
        if self.tickets.capacity() > 4 * self.tickets.len() {
            self.tickets.shrink_to(2 * self.tickets.len());
        }
    }

    fn remember(&mut self, user: u64, now: Instant, told: u64) {
        self.forget(now);
        if self.tickets.len() < MAX_TICKETS {
            self.tickets.insert(user, now + Duration::from_secs(told));
        }
    }
}

#[cfg(test)]
mod tests;
