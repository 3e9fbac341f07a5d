//! The relations between settings: which values are right alone and wrong together, and which are
//! allowed but probably not intended.

use std::net::SocketAddr;
use std::time::Duration;

use super::values::{AttendanceForm, AuthMode, Config, FanKey, FanSource, Jwks, SeenIds, SqlIds};
use crate::base::event_kind::EventKind;

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
            format!(
                "timeout must be {} or more, or the answer to a ping comes too late",
                show(answered)
            ),
        );
        require(
            self.lease_refresh * 5 <= self.lease,
            &["lease", "lease-refresh"],
            format!(
                "lease-refresh must be {} or less, a fifth of lease",
                show(self.lease / 5)
            ),
        );
        require(
            self.flush <= self.lease_refresh,
            &["flush", "lease-refresh"],
            format!(
                "flush must be {} or less, the lease-refresh",
                show(self.lease_refresh)
            ),
        );
        require(
            self.check_every >= self.lease_refresh,
            &["check-every", "lease-refresh"],
            format!(
                "check-every must be {} or more, the lease-refresh",
                show(self.lease_refresh)
            ),
        );
        for (name, addr) in [
            ("listen", Some(self.listen)),
            ("admin-listen", self.admin_listen),
        ] {
            let loopback = addr.is_none_or(|addr| addr.ip().to_canonical().is_loopback());
            require(
                self.auth != AuthMode::Off || loopback,
                if name == "listen" {
                    &["listen", "auth"]
                } else {
                    &["admin-listen", "auth"]
                },
                format!(
                    "with auth off a client may claim any user_id, so {name} must be a loopback address: \
                     127.0.0.1:{port} or [::1]:{port}",
                    port = addr.map_or(0, |addr| addr.port())
                ),
            );
        }
        require(
            self.admin_listen
                .is_none_or(|admin| !overlap(self.listen, admin)),
            &["listen", "admin-listen"],
            "the two addresses must differ".to_owned(),
        );
        require(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            &["tls-cert", "tls-key"],
            "tls-cert and tls-key go together".to_owned(),
        );
        let has_keys = self.jwt_hs256_secret_file.is_some()
            || self.jwt_public_key.is_some()
            || self.jwt_jwks.is_some();
        require(
            self.auth != AuthMode::Jwt || has_keys,
            &["auth"],
            "jwt needs a key that tokens are checked with: jwt-hs256-secret-file, jwt-public-key or jwt-jwks"
                .to_owned(),
        );
        require(
            self.auth != AuthMode::Off || !(has_keys || self.api_keys.is_some()),
            &["auth"],
            "with auth off no token and no API key is checked; use auth jwt, or leave the keys out"
                .to_owned(),
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
        self.require_fan_relations(&mut require);
        require(
            self.webhook_url.is_some() == self.webhook_secret_file.is_some(),
            &["webhook-url", "webhook-secret-file"],
            "webhook-url and webhook-secret-file go together".to_owned(),
        );
        let wants =
            |kinds: &[EventKind]| self.webhook_events.iter().any(|kind| kinds.contains(kind));
        require(
            self.count_events || !wants(&[EventKind::LiveCounts]),
            &["webhook-events", "count-events"],
            "live.counts needs count-events on".to_owned(),
        );
        require(
            self.fan_events || !wants(&[EventKind::FanJoined, EventKind::FanLeft]),
            &["webhook-events", "fan-events"],
            "fan.joined and fan.left need fan-events on".to_owned(),
        );
        require(
            self.otlp_endpoint.is_none() || cfg!(feature = "otlp"),
            &["otlp-endpoint"],
            "this build sends no spans; build with cargo build --release --features otlp"
                .to_owned(),
        );
        broken
    }

    fn require_fan_relations(
        &self,
        require: &mut impl FnMut(bool, &'static [&'static str], String),
    ) {
        let (source, sql) = (self.fan_source, self.fan_source == FanSource::Sql);
        let scheme = self
            .fan_url
            .as_ref()
            .and_then(|url| Some(url.reveal().split_once("://")?.0));
        let is_http = scheme.map(|scheme| scheme.starts_with("http"));
        let wanted = match source {
            FanSource::Http => is_http == Some(true),
            FanSource::Sql => is_http == Some(false),
            FanSource::Redis | FanSource::Token => is_http.is_none(),
        };
        let problem = match source {
            FanSource::Http => "fan-source http needs a fan-url of http or https",
            FanSource::Sql => "fan-source sql needs a fan-url of postgres or mysql",
            FanSource::Redis | FanSource::Token => "fan-url is for fan-source http or sql",
        };
        require(wanted, &["fan-source", "fan-url"], problem.to_owned());
        let elsewhere = source.is_elsewhere();
        require(
            elsewhere || self.fan_secret_file.is_none() && self.fan_ca.is_none(),
            &["fan-source", "fan-secret-file", "fan-ca"],
            "fan-secret-file and fan-ca are for fan-source http or sql".to_owned(),
        );
        require(
            source == FanSource::Redis || self.fan_key == FanKey::Followers,
            &["fan-source", "fan-key"],
            "fan-key is for fan-source redis".to_owned(),
        );
        require(
            sql || self.fan_sql.is_none() && self.fan_sql_ids == SqlIds::Text,
            &["fan-source", "fan-sql", "fan-sql-ids"],
            "fan-sql and fan-sql-ids are for fan-source sql".to_owned(),
        );
        if let (true, Some(statement), Some(scheme)) = (sql, &self.fan_sql, scheme) {
            let postgres = scheme.starts_with("postgres");
            let fits = match postgres {
                true => statement.contains("$1") && statement.contains("$2"),
                false => {
                    statement.matches('?').count() == 2 && statement.matches("(?)").count() == 1
                }
            };
            let problem = match postgres {
                true => "fan-sql needs $1, the streamer, and $2, the array of users",
                false => {
                    "fan-sql needs two question marks: ?, the streamer, and then (?), the list of users"
                }
            };
            require(fits, &["fan-sql", "fan-url"], problem.to_owned());
        }
    }

    /// The smallest useful `timeout`. A gateway pings a socket that is silent for a `heartbeat`;
    /// the client then has a second to answer, or another `heartbeat` if that is shorter.
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
        let plain_fans = self.fan_url.as_ref().filter(|url| url.reveal().starts_with("http://")).map(|_| {
            "fan-url is a URL of http: whoever can change the answer on its way decides who is a fan".to_owned()
        });
        short
            .into_iter()
            .chain(plain)
            .chain(plain_fans)
            .chain(self.open_secrets())
            .collect()
    }
}

/// Whether one process cannot listen on both addresses.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let (a_ip, b_ip) = (a.ip().to_canonical(), b.ip().to_canonical());
    a.port() != 0
        && a.port() == b.port()
        && (a_ip == b_ip || a_ip.is_unspecified() || b_ip.is_unspecified())
}
