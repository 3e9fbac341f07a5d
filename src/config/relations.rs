//! The relations between settings: values that are right alone and wrong together, and values that
//! are allowed but probably not intended.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use humantime::format_duration;

use super::given::GivenMap;
use super::settings::{Config, SETTINGS};
use super::values::{AttendanceForm, AuthMode, FanKey, FanSource, Jwks, SeenIds, SqlIds};
use crate::base::event_kind::EventKind;

/// Notes the relations that do not hold. Leaves out those of settings with a wrong value, whose
/// mistakes are noted already.
pub(super) struct Relations<'a> {
    pub given: &'a GivenMap,
    pub wrong: &'a BTreeSet<&'static str>,
    pub mistakes: &'a mut Vec<String>,
}

impl Relations<'_> {
    fn require(&mut self, holds: bool, between: &[&str], problem: impl Display) {
        if holds || between.iter().any(|name| self.wrong.contains(name)) {
            return;
        }
        let mut subjects = Vec::new();
        for setting in SETTINGS.iter() {
            let name = setting.name.as_str();
            if between.contains(&name) {
                subjects.push(setting.subject(self.given.get(name)));
            }
        }
        let subjects = subjects.join(", ");
        self.mistakes.push(format!("{subjects}: {problem}"));
    }
}

impl Config {
    /// Checks how the settings fit together.
    pub(super) fn check_relations(&self, mut relations: Relations<'_>) {
        let answered = self.answered_within();
        relations.require(
            self.timeout >= answered,
            &["heartbeat", "timeout"],
            format!(
                "timeout must be {} or more, or the answer to a ping comes too late",
                format_duration(answered)
            ),
        );
        relations.require(
            self.lease_refresh * 5 <= self.lease,
            &["lease", "lease-refresh"],
            format!(
                "lease-refresh must be {} or less, a fifth of lease",
                format_duration(self.lease / 5)
            ),
        );
        relations.require(
            self.flush <= self.lease_refresh,
            &["flush", "lease-refresh"],
            format!(
                "flush must be {} or less, the lease-refresh",
                format_duration(self.lease_refresh)
            ),
        );
        relations.require(
            self.check_every >= self.lease_refresh,
            &["check-every", "lease-refresh"],
            format!(
                "check-every must be {} or more, the lease-refresh",
                format_duration(self.lease_refresh)
            ),
        );
        for (name, addr) in [
            ("listen", Some(self.listen)),
            ("admin-listen", self.admin_listen),
        ] {
            let Some(addr) = addr else {
                continue;
            };
            relations.require(
                self.auth != AuthMode::Off || addr.ip().to_canonical().is_loopback(),
                &[name, "auth"],
                format!(
                    "with auth off a client may claim any user_id, so {name} must be a loopback address: \
                     127.0.0.1:{port} or [::1]:{port}",
                    port = addr.port()
                ),
            );
        }
        if let Some(admin) = self.admin_listen {
            relations.require(
                !overlap(self.listen, admin),
                &["listen", "admin-listen"],
                "the two addresses must differ",
            );
        }
        relations.require(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            &["tls-cert", "tls-key"],
            "tls-cert and tls-key go together",
        );
        let has_keys = self.jwt_hs256_secret_file.is_some()
            || self.jwt_public_key.is_some()
            || self.jwt_jwks.is_some();
        relations.require(
            self.auth != AuthMode::Jwt || has_keys,
            &["auth"],
            "jwt needs a key that tokens are checked with: jwt-hs256-secret-file, jwt-public-key or jwt-jwks",
        );
        relations.require(
            self.auth != AuthMode::Off || !(has_keys || self.api_keys.is_some()),
            &["auth"],
            "with auth off no token and no API key is checked; use auth jwt, or leave the keys out",
        );
        relations.require(
            self.fan_source != FanSource::Token || self.auth == AuthMode::Jwt,
            &["fan-source", "auth"],
            "fan-source token needs auth jwt",
        );
        relations.require(
            self.attendance == AttendanceForm::Set || self.last_seen_ids == SeenIds::U32,
            &["attendance", "last-seen-ids"],
            "attendance bitmap needs last-seen-ids u32: every user id must be a number",
        );
        self.require_fan_relations(&mut relations);
        relations.require(
            self.udp.is_some() || self.udp_advertise.is_empty(),
            &["udp", "udp-advertise"],
            "udp-advertise needs udp",
        );
        relations.require(
            self.webhook_url.is_some() == self.webhook_secret_file.is_some(),
            &["webhook-url", "webhook-secret-file"],
            "webhook-url and webhook-secret-file go together",
        );
        relations.require(
            self.webhook_patience <= self.events_max_age,
            &["webhook-patience", "events-max-age"],
            format!(
                "events-max-age must be {} or more, the webhook-patience",
                format_duration(self.webhook_patience)
            ),
        );
        for event in &self.webhook_events {
            if let Some(setting) = self.switched_off(*event) {
                let problem = format!("{event} needs {setting} on");
                relations.require(false, &["webhook-events", setting], problem);
            }
        }
        relations.require(
            self.otlp_endpoint.is_none() || cfg!(feature = "otlp"),
            &["otlp-endpoint"],
            "this build sends no spans; build with cargo build --release --features otlp",
        );
        if !relations.wrong.contains("auth") {
            relations.mistakes.extend(self.media_mistakes());
        }
        relations.mistakes.extend(self.webhook_mistakes());
    }

    /// The setting that keeps events of this kind from being made, if one does.
    fn switched_off(&self, event: EventKind) -> Option<&'static str> {
        match event {
            EventKind::LiveCounts if !self.count_events => Some("count-events"),
            EventKind::FanJoined | EventKind::FanLeft if !self.fan_events => Some("fan-events"),
            EventKind::UserFollowed | EventKind::UserUnfollowed if !self.follow_events => {
                Some("follow-events")
            }
            EventKind::AuditRecorded if !self.audit_events => Some("audit-events"),
            _ => None,
        }
    }

    /// What is wrong with the media servers beside the other settings, or within one table.
    fn media_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for server in &self.media {
            for (key, mistake) in server.mistakes(self.auth) {
                mistakes.push(format!("media.{}.{key}: {mistake}", server.name));
            }
        }
        mistakes
    }

    /// What is wrong with the further webhooks beside the other settings.
    fn webhook_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for webhook in &self.webhooks {
            let name = &webhook.name;
            if name.is_default() {
                mistakes.push(format!(
                    "webhooks.{name}: this is the name of the webhook of webhook-url; use another one"
                ));
            }
            for event in &webhook.events {
                if let Some(setting) = self.switched_off(*event) {
                    mistakes.push(format!(
                        "webhooks.{name}.events: {event} needs {setting} on"
                    ));
                }
            }
        }
        mistakes
    }

    /// The scheme of `fan-url`.
    fn fan_scheme(&self) -> Option<&str> {
        let (scheme, _) = self.fan_url.as_ref()?.reveal().split_once("://")?;
        Some(scheme)
    }

    fn require_fan_relations(&self, relations: &mut Relations<'_>) {
        let source = self.fan_source;
        let sql = source == FanSource::Sql;
        let scheme = self.fan_scheme();
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
        relations.require(wanted, &["fan-source", "fan-url"], problem);
        let elsewhere = source.is_elsewhere();
        relations.require(
            elsewhere || self.fan_secret_file.is_none() && self.fan_ca.is_none(),
            &["fan-source", "fan-secret-file", "fan-ca"],
            "fan-secret-file and fan-ca are for fan-source http or sql",
        );
        relations.require(
            source == FanSource::Redis || self.fan_key == FanKey::Followers,
            &["fan-source", "fan-key"],
            "fan-key is for fan-source redis",
        );
        relations.require(
            sql || self.fan_sql.is_none() && self.fan_sql_ids == SqlIds::Text,
            &["fan-source", "fan-sql", "fan-sql-ids"],
            "fan-sql and fan-sql-ids are for fan-source sql",
        );
        if sql
            && let Some(statement) = &self.fan_sql
            && let Some(scheme) = scheme
        {
            let (fits, problem) = if scheme.starts_with("postgres") {
                (
                    statement.contains("$1") && statement.contains("$2"),
                    "fan-sql needs $1, the streamer, and $2, the array of users",
                )
            } else {
                (
                    statement.matches('?').count() == 2 && statement.matches("(?)").count() == 1,
                    "fan-sql needs two question marks: ?, the streamer, and then (?), the list of users",
                )
            };
            relations.require(fits, &["fan-sql", "fan-url"], problem);
        }
    }

    /// The smallest useful `timeout`. A gateway pings a socket that is silent for a `heartbeat`.
    /// The client then has a second to answer, or another `heartbeat` if that is shorter.
    fn answered_within(&self) -> Duration {
        self.heartbeat + self.heartbeat.min(Duration::from_secs(1))
    }

    /// Warns of values that are allowed but probably not intended.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let answered = self.answered_within();
        if let Some(timeout) = self.streamer_timeout
            && timeout < answered
        {
            warnings.push(format!(
                "streamer-timeout is less than {}: a streamer who reconnects may find the live closed",
                format_duration(answered)
            ));
        }
        if let Some(Jwks::Url(url)) = &self.jwt_jwks
            && url.scheme() == "http"
        {
            let warning = "jwt-jwks is a URL of http: whoever can change the answer on its way can make tokens";
            warnings.push(warning.to_owned());
        }
        if let Some(url) = &self.fan_url
            && url.reveal().starts_with("http://")
        {
            let warning = "fan-url is a URL of http: whoever can change the answer on its way decides who is a fan";
            warnings.push(warning.to_owned());
        }
        warnings.extend(self.open_secrets());
        warnings
    }
}

/// Whether one process cannot listen on both addresses.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let a_ip = a.ip().to_canonical();
    let b_ip = b.ip().to_canonical();
    a.port() != 0
        && a.port() == b.port()
        && (a_ip == b_ip || a_ip.is_unspecified() || b_ip.is_unspecified())
}
