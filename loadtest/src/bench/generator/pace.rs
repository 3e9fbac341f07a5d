//! What all kinds of clients do, and beats at an ordinary pace, whichever way they go.

use std::io;
use std::time::{Duration, Instant};

use crate::tally::Latencies;

/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long a turn waits for something to come.
pub(crate) const NAP: Duration = Duration::from_millis(1);

/// What clients have seen since the last order.
#[derive(Debug, Default)]
pub(crate) struct ClientsSeen {
    /// Beats sent.
    pub(crate) beats: u64,
    pub(crate) answered: u64,
    pub(crate) latency: Latencies,
    /// When each asked to join, in Unix microseconds.
    pub(super) asked_at: Vec<u64>,
    /// The first refusal or loss.
    pub(crate) trouble: Option<String>,
}

/// The clients of one generator.
pub(crate) trait Clients {
    /// How many there are, those that are gone among them.
    fn count(&self) -> usize;

    /// How many are in.
    fn entered(&self) -> usize {
        self.count()
    }

    /// Sends a beat of the client at this position.
    fn beat(&mut self, position: usize);

    /// From now on the server is to answer every n-th beat of a client, if the client can say so.
    fn ack_every(&mut self, _beats: u32) {}

    /// Waits at most so long for something to come, and deals with it.
    fn turn(&mut self, wait: Duration) -> io::Result<()>;

    /// How many questions are not answered yet.
    fn awaited(&self) -> u64;

    fn seen(&mut self) -> &mut ClientsSeen;

    /// Lets everybody leave. False if that takes too long.
    fn leave(&mut self) -> io::Result<bool>;
}

/// Each client sends a beat at this interval, spread evenly. False if answers are missing.
pub(super) fn pace(clients: &mut dyn Clients, every_s: f64, seconds: f64) -> io::Result<bool> {
    let mut pacer = Pacer::new(clients.count(), every_s);
    let before = clients.awaited();
    while pacer.elapsed() < seconds {
        pacer.turn(clients)?;
    }
    await_answers(clients, before, LAST_ANSWERS)
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
    pub(crate) fn turn(&mut self, clients: &mut dyn Clients) -> io::Result<()> {
        let due = (self.elapsed() * self.per_second) as usize;
        while self.beats < due {
            clients.beat(self.beats % self.clients);
            self.beats += 1;
        }
        clients.turn(NAP)
    }
}

/// Waits until no more answers are missing than `before`. False if they do not come in time.
pub(super) fn await_answers(
    clients: &mut dyn Clients,
    before: u64,
    within: Duration,
) -> io::Result<bool> {
    let began = Instant::now();
    while clients.awaited() > before && began.elapsed() < within {
        clients.turn(NAP)?;
    }
    Ok(clients.awaited() <= before)
}

/// Does something for each of `count` clients at this rate, and deals with what comes meanwhile.
pub(super) fn each_at<C: Clients>(
    clients: &mut C,
    count: usize,
    per_second: f64,
    mut act: impl FnMut(&mut C, usize),
) -> io::Result<()> {
    let began = Instant::now();
    let mut done = 0;
    while done < count {
        let due = (began.elapsed().as_secs_f64() * per_second) as usize + 1;
        while done < due.min(count) {
            act(clients, done);
            done += 1;
        }
        clients.turn(NAP)?;
    }
    Ok(())
}

/// Whether a client asks for an answer to its next beat, if it asks for one in every `ack_every`.
/// The clients do not ask at the same time.
pub(super) fn wants_answer(beats: &mut u32, position: usize, ack_every: u32) -> bool {
    let turn = beats.wrapping_add(position as u32);
    *beats = beats.wrapping_add(1);
    turn.is_multiple_of(ack_every)
}
