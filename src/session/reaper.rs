//! Finds silent sockets: pings them, and later tells them to judge themselves. Finds the sockets
//! whose token has expired, too.
//!
//! The reaper files sockets in a timer wheel and looks at each about once every heartbeat interval;
//! a heartbeat itself moves nothing. The reaper does not close a socket that is silent for
//! `timeout`: one look suspects it, and the next tells its task to judge itself, after the task has
//! read what has arrived. A look that comes late (the whole process stood still) suspects no
//! socket: its task must first read the frames that arrived meanwhile, and a client that only
//! answers Pings must be pinged once more.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis, Moment, millis};
use crate::base::timer_wheel::TimerWheel;
use crate::config::Config;
use crate::presence::conn::{Conn, Signals};

/// How long a living client may take to answer a Ping, in ms.
pub(crate) const ANSWER: Millis = 1_000;

/// Maximum late looks in a row that count as stalls. More of them mean a machine that is too slow,
/// on which clients vanish all the same.
const MAX_STALLS: u32 = 3;

#[derive(Debug)]
struct Filed {
    conn: Arc<Conn>,
    pinged: Moment,
    suspected: bool,
}

/// The outcome of a look at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextLook {
    /// Nothing is due; look again at this time.
    Wait(Moment),
    /// Send a Ping; look again at this time.
    Ping(Moment),
    /// Silent for too long: look once more before it is judged.
    Suspect,
    /// Still silent: let it judge itself.
    Judge,
}

/// Times of the reaper, in ms.
#[derive(Debug, Clone, Copy)]
struct Times {
    ping_after: Millis,
    timeout: Millis,
    tick: Millis,
}

impl Times {
    fn new(heartbeat: Duration, timeout: Duration) -> Self {
        let heartbeat = millis(heartbeat);
        let timeout = millis(timeout);
        // The Ping comes a little after the interval, so that a client that keeps the interval
        // exactly gets none. Most of the time until the timeout is left for the answer.
        let late = (heartbeat / 10).min(timeout.saturating_sub(heartbeat) / 4);
        Self {
            ping_after: heartbeat + late,
            timeout,
            tick: (heartbeat / 20).clamp(10, 100),
        }
    }

    fn next(&self, last_heard: Moment, pinged: Moment, suspected: bool, now: Moment) -> NextLook {
        let silent = now.since(last_heard);
        if silent >= self.timeout {
            return if suspected {
                NextLook::Judge
            } else {
                NextLook::Suspect
            };
        }
        let end = last_heard + self.timeout;
        let ping_due = last_heard.max(pinged) + self.ping_after;
        if now < ping_due {
            return NextLook::Wait(ping_due.min(end));
        }
        NextLook::Ping((now + self.ping_after).min(end))
    }

    /// What to do instead of `next` when the process stood still from `since` until now. The tasks
    /// have yet to read what clients sent meanwhile. If the client was pinged before the stall,
    /// with time to answer, the reaper looks again one tick later. The silence of any other client
    /// means nothing yet: the reaper pings it and gives it time to answer.
    fn after_stall(&self, next: NextLook, filed: &Filed, since: Moment, now: Moment) -> NextLook {
        let was_pinged = filed.pinged > filed.conn.last_heard() && filed.pinged + ANSWER <= since;
        match next {
            NextLook::Wait(at) => NextLook::Wait(at),
            NextLook::Ping(_) | NextLook::Suspect | NextLook::Judge if was_pinged => {
                NextLook::Wait(now + self.tick)
            }
            NextLook::Ping(_) | NextLook::Suspect | NextLook::Judge => {
                NextLook::Ping(now + self.ping_after)
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reaper {
    clock: Clock,
    times: Times,
    wheel: Mutex<TimerWheel<Filed>>,
}

impl Reaper {
    pub(crate) fn new(config: &Config, clock: Clock) -> Self {
        let times = Times::new(config.heartbeat, config.timeout);
        Self {
            clock,
            times,
            wheel: Mutex::new(TimerWheel::new(times.tick, times.timeout, clock.now())),
        }
    }

    /// Watches a new socket until it is closed.
    pub(crate) fn admit(&self, conn: &Arc<Conn>) {
        let at = (conn.last_heard() + self.times.ping_after).min(conn.expires_at());
        self.wheel.lock().file(
            at,
            Filed {
                conn: conn.clone(),
                pinged: Moment::START,
                suspected: false,
            },
        );
    }

    pub(crate) fn signal_all(&self, signals: Signals) {
        for filed in self.wheel.lock().iter() {
            filed.conn.signal(signals);
        }
    }

    /// Every socket whose task has not ended.
    pub(crate) fn open_conns(&self) -> Vec<Arc<Conn>> {
        let wheel = self.wheel.lock();
        wheel
            .iter()
            .map(|filed| &filed.conn)
            .filter(|conn| !conn.is_closed())
            .cloned()
            .collect()
    }

    fn look(&self, now: Moment, stalled_since: Option<Moment>) {
        // The lock is held all through: `signal_all` must also find the sockets that this loop has
        // taken out of the wheel.
        let mut wheel = self.wheel.lock();
        for mut filed in wheel.due(now) {
            if filed.conn.is_closed() {
                continue;
            }
            let next = self
                .times
                .next(filed.conn.last_heard(), filed.pinged, filed.suspected, now);
            let next = match stalled_since {
                Some(since) => self.times.after_stall(next, &filed, since, now),
                None => next,
            };
            filed.suspected = matches!(next, NextLook::Suspect | NextLook::Judge);
            let at = match next {
                NextLook::Wait(at) => at,
                NextLook::Ping(at) => {
                    filed.pinged = now;
                    filed.conn.signal(Signals::PING);
                    at
                }
                NextLook::Suspect => now + self.times.tick,
                NextLook::Judge => {
                    filed.conn.signal(Signals::JUDGE);
                    now + self.times.tick
                }
            };
            let expires_at = filed.conn.expires_at();
            if expires_at <= now {
                filed.conn.signal(Signals::EXPIRED);
            }
            // If the client refreshes with a shorter token meanwhile, the reaper notices at the
            // next look.
            let next_look = if expires_at > now {
                at.min(expires_at)
            } else {
                at
            };
            wheel.file(next_look, filed);
        }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let tick = self.times.tick;
        let mut expected = self.clock.now() + tick;
        let mut late_in_a_row = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep_until(expected) => {}
            }
            let now = self.clock.now();
            let late = now > expected + tick + 250;
            late_in_a_row = if late { late_in_a_row + 1 } else { 0 };
            let stalled = late && late_in_a_row <= MAX_STALLS;
            if stalled {
                tracing::warn!(
                    late_ms = now.since(expected),
                    "the process stood still; no socket is judged yet"
                );
            }
            let stalled_since = if stalled { Some(expected - tick) } else { None };
            self.look(now, stalled_since);
            expected = now + tick;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::testing;

    #[test]
    fn a_silent_socket_is_pinged_once_per_interval_then_suspected_then_judged() {
        let times = Times::new(Duration::from_secs(5), Duration::from_secs(15));
        let next = |heard, pinged, suspected, now| {
            times.next(moment(heard), moment(pinged), suspected, moment(now))
        };
        assert_eq!(next(0, 0, false, 5_000), NextLook::Wait(moment(5_500)));
        assert_eq!(next(0, 0, false, 5_500), NextLook::Ping(moment(11_000)));
        assert_eq!(
            next(0, 5_500, false, 11_000),
            NextLook::Ping(moment(15_000))
        );
        assert_eq!(
            next(0, 11_000, false, 14_999),
            NextLook::Wait(moment(15_000))
        );
        assert_eq!(next(0, 11_000, false, 15_000), NextLook::Suspect);
        assert_eq!(next(0, 11_000, true, 15_250), NextLook::Judge);
        assert_eq!(
            next(15_100, 11_000, true, 15_250),
            NextLook::Wait(moment(20_600))
        );
    }

    #[test]
    fn after_a_stall_only_a_socket_that_was_pinged_in_time_is_judged() {
        let times = Times::new(Duration::from_secs(5), Duration::from_secs(15));
        // Last heard at 0.
        let conn = testing::conn("u1");
        let after_stall = |pinged, suspected, since, now| {
            let [pinged, since, now] = [pinged, since, now].map(moment);
            let filed = Filed {
                conn: conn.clone(),
                pinged,
                suspected,
            };
            times.after_stall(
                times.next(moment(0), pinged, suspected, now),
                &filed,
                since,
                now,
            )
        };
        assert_eq!(
            after_stall(0, false, 3_000, 40_000),
            NextLook::Ping(moment(45_500)),
            "not pinged since it was heard"
        );
        assert_eq!(
            after_stall(5_500, true, 6_000, 40_000),
            NextLook::Ping(moment(45_500)),
            "no time for its answer"
        );
        assert_eq!(
            after_stall(11_000, false, 14_700, 15_200),
            NextLook::Wait(moment(15_300)),
            "silent before that"
        );
        assert_eq!(
            after_stall(11_000, true, 14_700, 15_200),
            NextLook::Wait(moment(15_300))
        );
        assert_eq!(
            after_stall(5_500, false, 9_000, 10_000),
            NextLook::Wait(moment(11_000)),
            "nothing is due"
        );
    }
}
