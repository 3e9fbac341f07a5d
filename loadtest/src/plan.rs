//! The plan of a crowd: who watches which live, and who is a fan of its streamer.
//!
//! All of it follows from the settings and the seed, so every process works out the same roster by
//! itself and knows the truth that the gateway's counts are held against.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::target::Target;

/// How viewers are spread over the lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Spread {
    /// A few lives have most of the crowd
    Zipf,
    /// Every live has the same share
    Even,
}

/// How a viewer asks to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JoinBy {
    /// A `join` message after the welcome
    Message,
    /// `?live_id=` in the upgrade; join latency then counts from the connect
    Url,
}

/// How viewers reach the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ViewerTransport {
    /// A WebSocket for each
    Ws,
    /// Sessions without a WebSocket (POST /v1/presence), whose heartbeats are HTTP requests
    Http,
    /// Sessions without a WebSocket, whose heartbeats are datagrams (the gateway needs --udp)
    Udp,
}

/// The checked settings of one run, as every process of it gets them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CrowdPlan {
    pub(crate) target: Target,
    pub(crate) by: ViewerTransport,
    /// Connections that the viewers of all processes share, if they come by HTTP.
    pub(crate) connections: usize,
    /// How many source addresses the connections come from.
    pub(crate) sources: usize,
    pub(crate) viewers: usize,
    /// The first so many stay when the others are cut off.
    pub(crate) bystanders: usize,
    pub(crate) lives: usize,
    pub(crate) spread: Spread,
    pub(crate) zipf_exponent: f64,
    pub(crate) fans: f64,
    /// The share of viewers who are guests: the last ones.
    #[serde(default)]
    pub(crate) guests: f64,
    pub(crate) seed: u64,
    pub(crate) prefix: String,
    pub(crate) heartbeat: Duration,
    pub(crate) closed_loop: bool,
    /// Of the whole crowd; each worker takes its part.
    pub(crate) ramp_per_second: f64,
    pub(crate) in_flight: usize,
    pub(crate) join: JoinBy,
    pub(crate) connect_timeout: Duration,
    pub(crate) ack_timeout: Duration,
    pub(crate) processes: usize,
}

/// One viewer's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewerPart {
    pub(crate) live: u32,
    pub(crate) fan: bool,
    pub(crate) guest: bool,
}

/// As many connections as a gateway takes that has its default of `--max-handshakes`, without
/// closing them early because they are scarce.
pub(crate) const CONNECTIONS: usize = 512;

/// Larger plans come from nobody who means well.
const MOST_VIEWERS: usize = 10_000_000;
const MOST_LIVES: usize = 1_000_000;
const LONGEST: Duration = Duration::from_secs(3_600);
pub(crate) const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(10);
/// A rate below it would make waits that no clock can hold.
pub(crate) const SLOWEST: f64 = 0.001;

/// Whether ids that begin so are taken by a gateway.
pub(crate) fn is_prefix(text: &str) -> bool {
    (1..=24).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

impl CrowdPlan {
    /// Refuses what a plan from another process must not ask for: it may have come from a stranger.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self {
            viewers,
            lives,
            processes,
            sources,
            in_flight,
            connections,
            ..
        } = *self;
        ensure!((1..=MOST_VIEWERS).contains(&viewers), "{viewers} viewers");
        ensure!((1..=MOST_LIVES).contains(&lives), "{lives} lives");
        ensure!((1..=viewers).contains(&processes), "{processes} processes");
        ensure!(
            (1..=viewers).contains(&sources)
                && (1..=MOST_VIEWERS).contains(&in_flight)
                && (1..=MOST_VIEWERS).contains(&connections),
            "sources, in flight or connections"
        );
        ensure!(
            (0.0..=1.0).contains(&self.fans),
            "{} of them fans",
            self.fans
        );
        ensure!(
            (0.0..=1.0 - self.fans).contains(&self.guests),
            "{} of them guests",
            self.guests
        );
        ensure!(
            (0.0..=100.0).contains(&self.zipf_exponent),
            "an exponent of {}",
            self.zipf_exponent
        );
        ensure!(
            self.ramp_per_second.is_finite() && self.ramp_per_second >= SLOWEST,
            "{} per second",
            self.ramp_per_second
        );
        ensure!(
            (SHORTEST_HEARTBEAT..=LONGEST).contains(&self.heartbeat),
            "a heartbeat of {:?}",
            self.heartbeat
        );
        ensure!(
            self.connect_timeout <= LONGEST && self.ack_timeout <= LONGEST,
            "timeouts above {LONGEST:?}"
        );
        ensure!(is_prefix(&self.prefix), "a prefix of {:?}", self.prefix);
        Ok(())
    }

    /// A crowd that stays, with a heartbeat a second each; three of ten are fans.
    pub(crate) fn steady(target: Target, prefix: &str, viewers: usize, lives: usize) -> Self {
        Self {
            target,
            by: ViewerTransport::Ws,
            connections: CONNECTIONS,
            sources: 1,
            viewers,
            bystanders: viewers,
            lives,
            spread: Spread::Even,
            zipf_exponent: 0.0,
            fans: 0.3,
            guests: 0.0,
            seed: 1,
            prefix: prefix.to_owned(),
            heartbeat: Duration::from_secs(1),
            closed_loop: false,
            ramp_per_second: 500.0,
            in_flight: 64,
            join: JoinBy::Message,
            connect_timeout: Duration::from_secs(10),
            ack_timeout: Duration::from_secs(5),
            processes: 1,
        }
    }

    /// The ids of the fans of each live.
    pub(crate) fn fan_ids(&self) -> Vec<HashSet<String>> {
        let mut fans = vec![HashSet::new(); self.lives];
        for (number, role) in self
            .roster()
            .iter()
            .enumerate()
            .filter(|(_, role)| role.fan)
        {
            fans[role.live as usize].insert(self.user_id(number));
        }
        fans
    }

    pub(crate) fn live_id(&self, live: u32) -> String {
        format!("{}{}-l{live}", self.prefix, self.seed)
    }

    pub(crate) fn streamer_id(&self, live: u32) -> String {
        format!("{}{}-s{live}", self.prefix, self.seed)
    }

    /// The user, or the guest.
    pub(crate) fn user_id(&self, viewer: usize) -> String {
        let mark = if viewer < self.users() { "" } else { "~" };
        format!("{mark}{}{}-u{viewer}", self.prefix, self.seed)
    }

    /// How many viewers are no guests.
    fn users(&self) -> usize {
        self.viewers - (self.guests * self.viewers as f64).round() as usize
    }

    pub(crate) fn dashboard_id(&self, live: u32) -> String {
        format!("{}{}-d{live}", self.prefix, self.seed)
    }

    pub(crate) fn stays(&self, viewer: usize) -> bool {
        viewer < self.bystanders
    }

    /// Everybody's part, by viewer number.
    pub(crate) fn roster(&self) -> Vec<ViewerPart> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        // Exactly the asked share are fans, whichever lives they land in.
        let fans = (self.fans * self.viewers as f64).round() as usize;
        let mut fan: Vec<bool> = (0..self.viewers).map(|viewer| viewer < fans).collect();
        let users = self.users();
        fan[..users].shuffle(&mut rng);

        let cumulative = self.cumulative_weights();
        let total = cumulative.last().copied().unwrap_or_default();
        let mut roster = Vec::with_capacity(fan.len());
        for (viewer, fan) in fan.into_iter().enumerate() {
            let live = match self.spread {
                Spread::Even => (viewer % self.lives) as u32,
                Spread::Zipf => {
                    let point = rng.random::<f64>() * total;
                    cumulative
                        .partition_point(|&edge| edge <= point)
                        .min(self.lives - 1) as u32
                }
            };
            let guest = viewer >= users;
            roster.push(ViewerPart { live, fan, guest });
        }
        roster
    }

    /// The viewers of one process: every K-th, so that each share is spread over the heartbeat
    /// interval too.
    pub(crate) fn share(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        (process..self.viewers).step_by(self.processes)
    }

    /// How many sockets a process needs for its share of the viewers.
    pub(crate) fn sockets_of_a_process(&self) -> usize {
        let all = match self.by {
            ViewerTransport::Ws => self.viewers,
            ViewerTransport::Http => self.connections,
            // Few sockets for datagrams, and few connections to join over.
            ViewerTransport::Udp => 0,
        };
        all.div_ceil(self.processes)
    }

    fn cumulative_weights(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums = Vec::new();
        for rank in 1..=self.lives {
            sum += (rank as f64).powf(-self.zipf_exponent);
            sums.push(sum);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(spread: Spread) -> CrowdPlan {
        CrowdPlan {
            target: Target::websocket("ws://127.0.0.1:1").unwrap(),
            by: ViewerTransport::Ws,
            connections: CONNECTIONS,
            sources: 1,
            viewers: 10_000,
            bystanders: 10_000,
            lives: 10,
            spread,
            zipf_exponent: 1.0,
            fans: 0.3,
            guests: 0.0,
            seed: 7,
            prefix: "lt".to_owned(),
            heartbeat: Duration::from_secs(5),
            closed_loop: false,
            ramp_per_second: 1.0,
            in_flight: 1,
            join: JoinBy::Message,
            connect_timeout: Duration::from_secs(1),
            ack_timeout: Duration::from_secs(1),
            processes: 3,
        }
    }

    #[test]
    fn a_plan_that_asks_for_too_much_is_refused() {
        plan(Spread::Zipf).check().unwrap();
        let bad: [fn(&mut CrowdPlan); 9] = [
            |plan| plan.connections = 0,
            |plan| plan.viewers = usize::MAX,
            |plan| plan.lives = 0,
            |plan| plan.processes = 0,
            |plan| plan.zipf_exponent = f64::NAN,
            |plan| plan.fans = -1.0,
            |plan| plan.ramp_per_second = 0.0,
            |plan| plan.heartbeat = Duration::MAX,
            |plan| plan.prefix = "x\r\n".to_owned(),
        ];
        for change in bad {
            let mut plan = plan(Spread::Zipf);
            change(&mut plan);
            assert!(plan.check().is_err(), "{plan:?}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_crowd() {
        assert_eq!(plan(Spread::Zipf).roster(), plan(Spread::Zipf).roster());
        let other = CrowdPlan {
            seed: 8,
            ..plan(Spread::Zipf)
        };
        assert_ne!(plan(Spread::Zipf).roster(), other.roster());
    }

    #[test]
    fn spreads_and_fans_are_as_asked() {
        let in_live =
            |roster: &[ViewerPart], live| roster.iter().filter(|role| role.live == live).count();
        let even = plan(Spread::Even).roster();
        assert!((0..10).all(|live| in_live(&even, live) == 1000));
        assert_eq!(even.iter().filter(|role| role.fan).count(), 3000);

        let with_guests = CrowdPlan {
            guests: 0.5,
            ..plan(Spread::Even)
        };
        let roster = with_guests.roster();
        assert_eq!(roster.iter().filter(|role| role.fan).count(), 3000);
        assert_eq!(roster.iter().filter(|role| role.guest).count(), 5000);
        assert!(roster.iter().all(|role| !(role.fan && role.guest)));
        for (viewer, role) in roster.iter().enumerate() {
            assert_eq!(with_guests.user_id(viewer).starts_with('~'), role.guest);
        }

        // 1 / H(10) = 0.3414 of the crowd is in the first live, a tenth of that in the last.
        let zipf = plan(Spread::Zipf).roster();
        assert!((3200..3650).contains(&in_live(&zipf, 0)));
        assert!((250..450).contains(&in_live(&zipf, 9)));
    }

    #[test]
    fn shares_cover_everybody_once() {
        let plan = plan(Spread::Even);
        let mut all: Vec<usize> = (0..3).flat_map(|process| plan.share(process)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..10_000));
    }
}
