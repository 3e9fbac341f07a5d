//! The relations between settings: which values are right alone and wrong together, and which are allowed but probably
//! not intended.

use std::net::SocketAddr;
use std::time::Duration;

use super::values::{AttendanceForm, AuthMode, Config, FanSource, Jwks, SeenIds};

/// Settings that are right alone and wrong together.
pub(super) struct BrokenRelation {
    /// The names of the settings.
    pub between: &'static [&'static str],
    /// What would be right.
    pub problem: String,
}

impl Config {
    pub(super) fn broken_relations(&self) -> Vec<BrokenRelation> {
        let mut broken = Vec::new();
        let mut require = |holds: bool, between: &'static [&'static str], problem: String| {
            if !holds {
                broken.push(BrokenRelation { between, problem });
            }
        };
        let show = humantime::format_duration;

        let answered = self.answered_within();
        require(
            self.timeout >= answered,
            &["heartbeat", "timeout"],
            format!("timeout must be {} or more, or the answer to a ping comes too late", show(answered)),
        );
        require(
            self.lease_refresh * 5 <= self.lease,
            &["lease", "lease-refresh"],
            format!("lease-refresh must be {} or less, a fifth of lease", show(self.lease / 5)),
        );
        require(
            self.flush <= self.lease_refresh,
            &["flush", "lease-refresh"],
            format!("flush must be {} or less, the lease-refresh", show(self.lease_refresh)),
        );
        require(
            self.check_every >= self.lease_refresh,
            &["check-every", "lease-refresh"],
            format!("check-every must be {} or more, the lease-refresh", show(self.lease_refresh)),
        );
        for (name, addr) in [("listen", Some(self.listen)), ("admin-listen", self.admin_listen)] {
            let loopback = addr.is_none_or(|addr| addr.ip().to_canonical().is_loopback());
            require(
                self.auth != AuthMode::Off || loopback,
                if name == "listen" { &["listen", "auth"] } else { &["admin-listen", "auth"] },
                format!(
                    "with auth off a client may claim any user_id, so {name} must be a loopback address: \
                     127.0.0.1:{port} or [::1]:{port}",
                    port = addr.map_or(0, |addr| addr.port())
                ),
            );
        }
        require(
            self.admin_listen.is_none_or(|admin| !overlap(self.listen, admin)),
            &["listen", "admin-listen"],
            "the two addresses must differ".to_owned(),
        );
        require(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            &["tls-cert", "tls-key"],
            "tls-cert and tls-key go together".to_owned(),
        );
        let has_keys = self.jwt_hs256_secret_file.is_some() || self.jwt_public_key.is_some() || self.jwt_jwks.is_some();
        require(
            self.auth != AuthMode::Jwt || has_keys,
            &["auth"],
            "jwt needs a key that tokens are checked with: jwt-hs256-secret-file, jwt-public-key or jwt-jwks"
                .to_owned(),
        );
        require(
            self.auth != AuthMode::Off || !(has_keys || self.api_keys.is_some()),
            &["auth"],
            "with auth off no token and no API key is checked; use auth jwt, or leave the keys out".to_owned(),
        );
        require(
            self.fan_source != FanSource::Token || self.auth == AuthMode::Jwt,
            &["fan-source", "auth"],
            "fan-source token needs auth jwt".to_owned(),
        );
        require(
            self.attendance == AttendanceForm::Set || self.last_seen_ids == SeenIds::U32,
            &["attendance", "last-seen-ids"],
            "attendance bitmap needs last-seen-ids u32: every user id must be a number".to_owned(),
        );
        broken
    }

    /// The smallest useful `timeout`. A gateway pings a socket that is silent for a `heartbeat`; the client then has a
    /// second to answer, or another `heartbeat` if that is shorter.
    fn answered_within(&self) -> Duration {
        self.heartbeat + self.heartbeat.min(Duration::from_secs(1))
    }

    /// Warns of values that are allowed but probably not intended.
    pub fn warnings(&self) -> Vec<String> {
        let answered = self.answered_within();
        let short = self.streamer_timeout.filter(|timeout| *timeout < answered).map(|_| {
            let answered = humantime::format_duration(answered);
            format!("streamer-timeout is less than {answered}: a streamer who reconnects may find the live closed")
        });
        let plain = matches!(&self.jwt_jwks, Some(Jwks::Url(url)) if url.scheme() == "http")
            .then(|| "jwt-jwks is a URL of http: whoever can change the answer on its way can make tokens".to_owned());
        short.into_iter().chain(plain).collect()
    }
}

/// Whether one process cannot listen on both addresses.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let (a_ip, b_ip) = (a.ip().to_canonical(), b.ip().to_canonical());
    a.port() != 0 && a.port() == b.port() && (a_ip == b_ip || a_ip.is_unspecified() || b_ip.is_unspecified())
}
