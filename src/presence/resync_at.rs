//! The time at which something large is sent or read again. State only: `sync` has the rate that gives out the times.

use crate::base::clock::Millis;

/// `None`: nobody has asked for a time.
#[derive(Debug, Default)]
pub struct ResyncAt(Option<Millis>);

impl ResyncAt {
    /// When so many users may be sent or read again; `None` is now. `book` reserves a time for that many users and
    /// returns how long it is until then. Who asks again keeps the time, until it has come.
    pub fn take(&mut self, users: usize, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let users = u32::try_from(users).unwrap_or(u32::MAX);
        let at = match self.0.take() {
            Some(at) => at,
            None if users == 0 => now,
            None => now + book(users),
        };
        (at > now).then(|| *self.0.insert(at))
    }
}
