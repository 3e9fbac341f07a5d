//! Beats at an ordinary pace, whichever way they go.

use std::io;
use std::time::{Duration, Instant};

/// How long the last answers may take.
pub(super) const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long a turn waits for something to come.
pub(crate) const NAP: Duration = Duration::from_millis(1);

/// The clients of one generator.
pub(crate) trait Clients {
    /// How many there are, those that are gone among them.
    fn count(&self) -> usize;

    /// Sends a beat of the client at this position.
    fn beat(&mut self, position: usize);

    /// Waits at most so long for something to come, and deals with it.
    fn turn(&mut self, wait: Duration) -> io::Result<()>;

    /// How many questions are not answered yet.
    fn awaited(&self) -> u64;
}

/// Each client sends a beat at this interval, spread evenly. False if answers are missing.
pub(crate) fn pace(clients: &mut impl Clients, every_s: f64, seconds: f64) -> io::Result<bool> {
    let mut pacer = Pacer::new(clients.count(), every_s);
    let before = clients.awaited();
    while pacer.elapsed() < seconds {
        pacer.turn(clients)?;
    }
    await_answers(clients, before)
}

/// Knows when each client's next beat is due.
pub(crate) struct Pacer {
    began: Instant,
    clients: usize,
    per_second: f64,
    beats: usize,
}

impl Pacer {
    pub(crate) fn new(clients: usize, every_s: f64) -> Self {
        Self {
            began: Instant::now(),
            clients,
            per_second: clients as f64 / every_s,
            beats: 0,
        }
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Sends the beats that are due, and deals with what comes.
    pub(crate) fn turn(&mut self, clients: &mut impl Clients) -> io::Result<()> {
        let due = (self.elapsed() * self.per_second) as usize;
        while self.beats < due {
            clients.beat(self.beats % self.clients);
            self.beats += 1;
        }
        clients.turn(NAP)
    }
}

/// Waits until no more answers are missing than `before`. False if they do not come in time.
pub(super) fn await_answers(clients: &mut impl Clients, before: u64) -> io::Result<bool> {
    let began = Instant::now();
    while clients.awaited() > before && began.elapsed() < LAST_ANSWERS {
        clients.turn(NAP)?;
    }
    Ok(clients.awaited() <= before)
}
