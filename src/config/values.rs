//! The values of settings: their types, and how each is read from a text. An error says what would be
//! right, after the name of the setting. No error quotes a text that may hold a password.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ipnet::IpNet;
use reqwest::Url;

use crate::base::event_kind::EventKind;
use crate::base::ids::UserId;
use crate::base::redis_address::Address;
use crate::base::secret::Secret;
use crate::base::telemetry;
use crate::base::web_origin::{NO_ORIGIN, WebOrigin};

/// How users prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMode {
    /// Not at all: a client may claim any user id. Allowed on loopback addresses only.
    Off,
    /// By signed tokens.
    Jwt,
}

/// Where a JSON Web Key Set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jwks {
    /// In a file.
    File(PathBuf),
    /// At a URL of http or https, without a password.
    Url(Url),
}

/// The system in which a gateway looks up whether a viewer follows the streamer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FanSource {
    /// The store: `followers:<streamer_id>` in Redis, or the follow graph of the memory store.
    #[default]
    Redis,
    /// The viewer's own token: its `fan_of` lists the streamers whom the viewer follows.
    Token,
    /// The platform's own service, by HTTP.
    Http,
    /// A PostgreSQL or MySQL database.
    Sql,
}

impl FanSource {
    /// The word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Token => "token",
            Self::Http => "http",
            Self::Sql => "sql",
        }
    }

    /// Whether the gateway asks another system, which may be slow or away while the store is well.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Http | Self::Sql)
    }
}

/// Which end of a follow in the store the fan check reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FanKey {
    /// `followers:<streamer_id>`: one key and one command for all viewers of a live.
    #[default]
    Followers,
    /// `following:<user_id>`: a key and a command for each viewer, spread over the nodes of a
    /// cluster.
    Following,
}

/// How a database writes the ids of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SqlIds {
    /// In a column of text.
    #[default]
    Text,
    /// In a column of integers. A user whose id is no integer follows nobody.
    Integer,
}

/// How the store writes the ids of users in its record of when each was last seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SeenIds {
    /// As they are.
    #[default]
    Text,
    /// As numbers of four bytes. Every user id must be one.
    U32,
}

impl SeenIds {
    /// The word of the setting, which the store keeps too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::U32 => "u32",
        }
    }

    /// Whether a user id can be written in this form.
    pub fn fits(self, user: &UserId) -> bool {
        self == Self::Text || number_of(user).is_some()
    }
}

/// How the store keeps which fans came to a live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AttendanceForm {
    /// In sets of ids.
    #[default]
    Set,
    /// In bitmaps, a bit for each number. Every user id must be one.
    Bitmap,
}

impl AttendanceForm {
    /// The word of the setting, which the store keeps too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Bitmap => "bitmap",
        }
    }
}

/// The number that a user id is. The id must be written as numbers usually are, because `7` and
/// `007` are two users.
pub(crate) fn number_of(user: &UserId) -> Option<u32> {
    let id = user.as_str();
    let usual = id == "0" || (!id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()));
    if usual { id.parse().ok() } else { None }
}

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Reads a duration within bounds.
pub(super) fn duration(
    bounds: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text: &str| {
        let least = humantime::format_duration(*bounds.start());
        let most = humantime::format_duration(*bounds.end());
        match humantime::parse_duration(text) {
            Ok(duration) if bounds.contains(&duration) => Ok(duration),
            Ok(_) => Err(format!("must be from {least} to {most}")),
            Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => Err(format!(
                "has no unit; use {text}s or {text}ms, from {least} to {most}"
            )),
            Err(_) => Err(format!(
                "is not a duration; use one like 5s, 250ms or 1m30s, from {least} to {most}"
            )),
        }
    }
}

/// `None` is for ever.
pub type OrNever = Option<Duration>;

pub(super) fn duration_or_never(text: &str) -> Result<OrNever, String> {
    if humantime::parse_duration(text) == Ok(Duration::ZERO) {
        return Ok(None);
    }
    match duration(ms(200)..=s(86_400))(text) {
        Ok(duration) => Ok(Some(duration)),
        Err(right) => Err(format!("{right}, or 0 for never")),
    }
}

/// Reads a number within bounds.
pub(super) fn number<T>(bounds: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| match text.parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!(
            "must be a whole number from {} to {}",
            bounds.start(),
            bounds.end()
        )),
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // The example has the port of the text, if the text ends with one.
    let after_colon = text.rsplit(':').next().unwrap_or_default();
    let port: u16 = after_colon.parse().unwrap_or(8080);
    Err(format!(
        "is not an address; use an IP address with a port, such as 127.0.0.1:{port} or [::1]:{port}"
    ))
}

/// What clients are told: the host is a name or an address, or empty.
pub(super) fn host_and_port(text: &str) -> Result<String, String> {
    let text = text.trim();
    let wrong = "is not a list of host:port, such as gw1.example.org:8081,gw2.example.org:8081";
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(wrong.to_owned());
    };
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_ipv6 = in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_name = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if has_port && (is_ipv6 || is_name) {
        Ok(text.to_owned())
    } else {
        Err(wrong.to_owned())
    }
}

/// Reads `on` or `off`, which may be `true` or `false` too.
pub(super) fn switch() -> impl TypedValueParser<Value = bool> {
    let off = PossibleValue::new("off").alias("false");
    let on = PossibleValue::new("on").alias("true");
    PossibleValuesParser::new([off, on]).map(|word| word == "on" || word == "true")
}

/// A network, or an address as a network of its own.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    if let Ok(network) = text.parse::<IpNet>() {
        return Ok(network);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    Err("is not a list of networks; use addresses such as 10.0.0.0/8,192.0.2.7,::1".to_owned())
}

/// An origin, as browsers write it; or a word for all, or for none.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let text = text.trim();
    if ["*", NO_ORIGIN].contains(&text) || WebOrigin::parse(text).is_some() {
        return Ok(text.to_ascii_lowercase());
    }
    let problem = "is not a list of origins; use ones like https://example.org, http://localhost:3000 or \
                   capacitor://localhost, with no path and no slash at the end";
    Err(problem.to_owned())
}

/// A file, or a URL of http or https. Everybody may read such a set, so a URL with a password is a
/// mistake.
pub(super) fn jwks(text: &str) -> Result<Jwks, String> {
    if !text.contains("://") {
        return Ok(Jwks::File(PathBuf::from(text)));
    }
    match Url::parse(text) {
        Ok(url) if !["http", "https"].contains(&url.scheme()) => {
            Err("must be a file, or a URL of https".to_owned())
        }
        Ok(url) if has_login(&url) => Err("must have no password".to_owned()),
        Ok(url) => Ok(Jwks::Url(url)),
        Err(_) => {
            Err("is not a URL; use one like https://example.org/.well-known/jwks.json".to_owned())
        }
    }
}

pub(super) fn event_kind(text: &str) -> Result<EventKind, String> {
    let text = text.trim();
    if let Some(kind) = EventKind::from_name(text) {
        return Ok(kind);
    }
    let names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(format!(
        "is not a list of events; use ones of {}",
        names.join(",")
    ))
}

/// Whether a URL has a user or a password.
pub(super) fn has_login(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Whether this is the URL of a service of HTTP.
fn is_http(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme()) && url.has_host()
}

fn no_http_url(example: &str) -> String {
    format!("is not a URL of https or http; use one like {example}")
}

/// Reads the URL of a service of HTTP. The error gives an example.
pub(super) fn http_url(text: &str, example: &str) -> Result<Secret, String> {
    match Url::parse(text) {
        Ok(url) if is_http(&url) => Ok(Secret::new(text)),
        _ => Err(no_http_url(example)),
    }
}

pub(super) fn webhook_url(text: &str) -> Result<Secret, String> {
    http_url(text, "https://example.org/hooks")
}

pub(super) fn collector(text: &str) -> Result<Secret, String> {
    match Url::parse(text) {
        Ok(url) if is_http(&url) && has_login(&url) => {
            let problem = "has a user or password, which would not be sent; set OTEL_EXPORTER_OTLP_HEADERS instead";
            Err(problem.to_owned())
        }
        Ok(url) if is_http(&url) && url.query().is_none() => Ok(Secret::new(text)),
        _ => Err(no_http_url("http://127.0.0.1:4318")),
    }
}

pub(super) fn fan_url(text: &str) -> Result<Secret, String> {
    let known = [
        "http",
        "https",
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
    ];
    match Url::parse(text) {
        Ok(url) if known.contains(&url.scheme()) && text.contains("://") => Ok(Secret::new(text)),
        _ => {
            let problem = "is not a URL; use one like https://example.org/fans, \
                           postgres://rollcall@db.example.org/platform or mysql://rollcall@db.example.org/platform";
            Err(problem.to_owned())
        }
    }
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    telemetry::filter(text).map(|_| text.to_owned())
}

pub(super) fn redis_url(text: &str) -> Result<Secret, String> {
    Address::parse(text).map(|_| Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_two_to_the_32_written_in_the_usual_way_fits_four_bytes() {
        let fits = |id: &str| SeenIds::U32.fits(&UserId::parse(id).unwrap());
        for id in ["0", "7", "4294967295"] {
            assert!(fits(id), "{id}");
        }
        for id in [
            "007",
            "00",
            "4294967296",
            "u1",
            "-1",
            "1.5",
            "99999999999999999999",
        ] {
            assert!(
                !fits(id) && SeenIds::Text.fits(&UserId::parse(id).unwrap()),
                "{id}"
            );
        }
    }
}
