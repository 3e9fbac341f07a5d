//! The time settings of the gateways, and how long each promise may take to hold with them.

use std::time::Duration;

use rollcall::store::REBUILD;

/// A flush may take this much longer, because the crowd and the gateways share the cores of the
/// machine.
const SLACK: Duration = Duration::from_millis(750);
const SECOND: Duration = Duration::from_secs(1);

/// Counts are exact again within this time after Redis lost writes: gateways find that out, the
/// slices are rebuilt, and the look that ends a rebuild may come some seconds later.
pub const EXACT_AGAIN: Duration = REBUILD.saturating_add(Duration::from_secs(10));

/// Every gateway of a run gets these settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a client sends a heartbeat.
    pub heartbeat: Duration,
    /// A client that is silent for so long is gone.
    pub timeout: Duration,
    /// How often a gateway writes.
    pub flush: Duration,
    /// A gateway that renews nothing for so long is buried.
    pub lease: Duration,
    /// How often a gateway renews its lease.
    pub refresh: Duration,
    /// How often a gateway checks a live.
    pub check_every: Duration,
    /// A live closes when its streamer has been away for so long.
    pub streamer_timeout: Duration,
    /// How long a gateway takes to stop.
    pub drain: Duration,
}

impl Timing {
    /// The gateway's defaults, except for the drain and the streamer timeout, which would make
    /// every run longer.
    pub const NORMAL: Self = Self {
        heartbeat: Duration::from_secs(5),
        timeout: Duration::from_secs(15),
        flush: Duration::from_millis(250),
        lease: Duration::from_secs(15),
        refresh: Duration::from_secs(2),
        check_every: Duration::from_secs(60),
        streamer_timeout: Duration::from_secs(30),
        drain: Duration::from_secs(9),
    };

    /// The normal times, with a drain in which a client that only sends beats learns of the stop
    /// and has gone on elsewhere.
    pub const SIMULATED: Self = Self {
        drain: Duration::from_secs(18),
        ..Self::NORMAL
    };

    /// At most a third of the normal times, for quick runs.
    pub const FAST: Self = Self {
        heartbeat: Duration::from_secs(1),
        timeout: Duration::from_secs(3),
        flush: Duration::from_millis(100),
        lease: Duration::from_secs(3),
        refresh: Duration::from_millis(600),
        check_every: Duration::from_secs(4),
        streamer_timeout: Duration::from_secs(10),
        drain: Duration::from_secs(6),
    };

    /// The settings of a gateway, as its command line has them.
    pub fn flags(&self) -> Vec<String> {
        let named = [
            ("--heartbeat", self.heartbeat),
            ("--timeout", self.timeout),
            ("--flush", self.flush),
            ("--lease", self.lease),
            ("--lease-refresh", self.refresh),
            ("--check-every", self.check_every),
            ("--streamer-timeout", self.streamer_timeout),
            ("--drain", self.drain),
        ];
        named
            .iter()
            .flat_map(|(name, time)| [(*name).to_owned(), format!("{}ms", time.as_millis())])
            .collect()
    }

    /// Redis has a join or a clean leave within this time.
    pub fn settled(&self) -> Duration {
        self.flush + SLACK
    }

    /// A viewer who vanished without a message is out of Redis within this time.
    pub fn vanished(&self) -> Duration {
        self.timeout + SECOND
    }

    /// The viewers of a killed gateway are out of Redis within this time.
    pub fn killed(&self) -> Duration {
        self.lease + 2 * SECOND
    }

    /// A gateway that is asked to stop keeps the seats of sessions without a socket for this time
    /// at least, if it stops that slowly: one beat is told that the connection ends, and the next
    /// one goes to another gateway.
    pub fn kept_while_stopping(&self) -> Duration {
        (2 * self.heartbeat + SECOND).min(self.drain * 3 / 5)
    }

    /// A viewer whom a draining gateway sent away keeps the seat for this time: the longest
    /// reconnect delay that a gateway names, and a flush.
    pub fn moved(&self) -> Duration {
        Duration::from_millis(2_500) + self.settled()
    }

    /// Everything is right within this time after Redis, its data or the link to it is back. A
    /// shorter refresh does not help below six seconds, because no setting speeds up the pings by
    /// which a gateway notices.
    pub fn healed(&self) -> Duration {
        (self.refresh + SECOND).max(6 * SECOND)
    }

    /// Everything is right within this time after Redis is back and has lost writes: nobody leaves a
    /// slice until it is rebuilt.
    pub fn rebuilt(&self) -> Duration {
        self.healed() + REBUILD
    }

    /// A state that has been right for this time stays right.
    pub fn steady(&self) -> Duration {
        self.refresh + SECOND
    }

    /// A dashboard shows the right figures of other gateways within this time: two refreshes and
    /// the throttle.
    pub fn told(&self) -> Duration {
        2 * self.refresh + SECOND
    }

    /// Counts are right within this time after a gateway was killed: its viewers count for one
    /// lease, and the counts are partial for another.
    pub fn forgotten(&self) -> Duration {
        2 * self.lease + 2 * SECOND
    }

    /// What another program wrote is repaired within this time: gateways look once per
    /// `check-every`, each at its own time.
    pub fn repaired(&self) -> Duration {
        self.check_every + 15 * SECOND
    }

    /// All is right within this time after Redis is back with older data. A gateway that was living
    /// then and has gone since is buried once more, after a lease.
    pub fn returned(&self) -> Duration {
        self.forgotten().max(self.rebuilt())
    }

    /// A time from `from` to `to` leases; `at`, from 0 to 1, says where in between.
    pub fn leases(&self, from: f64, to: f64, at: f64) -> Duration {
        self.lease.mul_f64(from + (to - from) * at)
    }
}
