//! The gateways' times, and the bounds that the promises put on them.

use std::time::Duration;

/// What a busy machine may add to a flush: the crowd and the gateways share its cores.
const SLACK: Duration = Duration::from_millis(750);
const SECOND: Duration = Duration::from_secs(1);

/// The settings that every gateway of a run is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) heartbeat: Duration,
    pub(crate) timeout: Duration,
    pub(crate) flush: Duration,
    pub(crate) lease: Duration,
    pub(crate) refresh: Duration,
    pub(crate) streamer_timeout: Duration,
    pub(crate) drain: Duration,
}

impl Timing {
    /// The gateway's defaults, save the drain and the streamer's timeout: they would make every run longer.
    pub(crate) const NORMAL: Self = Self {
        heartbeat: Duration::from_secs(5),
        timeout: Duration::from_secs(15),
        flush: Duration::from_millis(250),
        lease: Duration::from_secs(15),
        refresh: Duration::from_secs(2),
        streamer_timeout: Duration::from_secs(30),
        drain: Duration::from_secs(9),
    };

    /// A third and less of that, for a quick observation.
    pub(crate) const FAST: Self = Self {
        heartbeat: Duration::from_secs(1),
        timeout: Duration::from_secs(3),
        flush: Duration::from_millis(100),
        lease: Duration::from_secs(3),
        refresh: Duration::from_millis(600),
        streamer_timeout: Duration::from_secs(10),
        drain: Duration::from_secs(6),
    };

    /// The gateway's flags.
    pub(crate) fn flags(&self) -> Vec<String> {
        let named = [
            ("--heartbeat", self.heartbeat),
            ("--timeout", self.timeout),
            ("--flush", self.flush),
            ("--lease", self.lease),
            ("--lease-refresh", self.refresh),
            ("--streamer-timeout", self.streamer_timeout),
            ("--drain", self.drain),
        ];
        named.iter().flat_map(|(name, time)| [(*name).to_owned(), format!("{}ms", time.as_millis())]).collect()
    }

    /// A join, or a clean leave, is in Redis by then.
    pub(crate) fn settled(&self) -> Duration {
        self.flush + SLACK
    }

    /// Who vanished without a word is out by then.
    pub(crate) fn vanished(&self) -> Duration {
        self.timeout + SECOND
    }

    /// Who was on a gateway that was killed is out by then.
    pub(crate) fn killed(&self) -> Duration {
        self.lease + 2 * SECOND
    }

    /// Who was sent elsewhere keeps the seat until then: the longest delay that is told, and the hold beyond it.
    pub(crate) fn moved(&self) -> Duration {
        Duration::from_millis(2_500) + self.settled()
    }

    /// Whole again, after Redis, its data or the way to it was away. Not less with a shorter refresh: a gateway finds
    /// its way back by pings that no setting makes faster.
    pub(crate) fn healed(&self) -> Duration {
        (self.refresh + SECOND).max(6 * SECOND)
    }

    /// What has been right for so long stays so.
    pub(crate) fn steady(&self) -> Duration {
        self.refresh + SECOND
    }

    /// Figures that other gateways tell are right after two refreshes, and a throttled dashboard shows them.
    pub(crate) fn told(&self) -> Duration {
        2 * self.refresh + SECOND
    }

    /// A gateway that was killed counts for nothing after a lease; for another one figures are partial.
    pub(crate) fn forgotten(&self) -> Duration {
        2 * self.lease + 2 * SECOND
    }

    /// A stretch of time between two leases' shares, such as `between(1.4, 2.0, x)` for x in 0..1.
    pub(crate) fn leases(&self, from: f64, to: f64, at: f64) -> Duration {
        self.lease.mul_f64(from + (to - from) * at)
    }
}
