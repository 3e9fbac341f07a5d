//! The lines that the program prints once the gateway listens: its address, and first steps for a
//! newcomer. `main` calls it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::base::exit;
use crate::config::{AuthMode, Config};

/// Prints the address of the gateway to standard output, in one line, and logs the first steps.
pub fn announce(config: &Config, public: SocketAddr, admin: Option<SocketAddr>) {
    let line = format!("listening on http{}://{public}", with_tls(config));
    // The parent process may not read the pipe, or may have closed it; that is no reason not to
    // serve.
    tokio::task::spawn_blocking(move || {
        if let Err(err) = exit::write(line) {
            tracing::warn!("cannot write the address to standard output: {err}");
        }
    });
    for step in first_steps(config, public, admin) {
        tracing::info!("{step}");
    }
}

/// The first steps for a newcomer, one line each. `admin` is the address of the HTTP API, if it is
/// not the public one.
fn first_steps(config: &Config, public: SocketAddr, admin: Option<SocketAddr>) -> Vec<String> {
    let s = with_tls(config);
    let (api, api_s) = match admin {
        Some(admin) => (admin, ""),
        None => (public, s),
    };
    let public = reachable(public);
    let api = reachable(api);
    let key = if config.auth == AuthMode::Off {
        ""
    } else {
        "-H 'authorization: Bearer KEY-OR-TOKEN' "
    };
    let mut steps = vec![
        format!("open http{s}://{public}/ to see the dashboard"),
        format!(
            "open a live: curl -X PUT http{api_s}://{api}/v1/lives/42 {key}-H 'content-type: application/json' \
             -d '{{\"streamer_id\":\"s1\"}}'"
        ),
    ];
    if config.auth == AuthMode::Off {
        steps.push(format!(
            "join it: ws{s}://{public}/ws?user_id=u1&live_id=42"
        ));
        steps.push(
            "auth is off: a client may claim any user_id, so only loopback addresses are served"
                .to_owned(),
        );
    }
    if config.redis.is_none() {
        steps.push(
            "the memory store belongs to this process alone and ends with it; gateways share lives only through --redis"
                .to_owned(),
        );
    }
    steps
}

/// The letter that TLS adds to the scheme of the public address.
fn with_tls(config: &Config) -> &'static str {
    if config.tls_cert.is_some() { "s" } else { "" }
}

/// An address that a browser can open: `0.0.0.0` includes the loopback address.
fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    #[test]
    fn the_steps_name_the_address_that_serves_them() {
        let public = SocketAddr::from(([127, 0, 0, 1], 8080));
        let admin = SocketAddr::from(([0, 0, 0, 0], 9090));
        let steps = first_steps(&Config::default(), public, Some(admin)).join("\n");
        assert!(
            steps.contains("http://127.0.0.1:9090/v1/lives/42"),
            "{steps}"
        );
        assert!(steps.contains("ws://127.0.0.1:8080/ws"), "{steps}");
        assert!(steps.contains("memory store"), "{steps}");

        let shared = Config {
            redis: Some(Secret::new("redis://:hunter2@localhost")),
            ..Config::default()
        };
        let steps = first_steps(&shared, public, None).join("\n");
        assert!(
            !steps.contains("memory store") && !steps.contains("hunter2"),
            "{steps}"
        );
    }
}
