//! The addresses to which clients are told to send datagrams.

use std::net::SocketAddr;

use crate::config::Config;

/// What clients are told: the setting, or the address of this gateway. `None` if it takes no
/// datagrams. The address in `config` has its real port.
pub(crate) fn advertised(config: &Config) -> Option<Vec<String>> {
    let bound = config.udp?;
    if config.udp_advertise.is_empty() {
        Some(vec![own(bound)])
    } else {
        Some(config.udp_advertise.clone())
    }
}

/// A gateway that listens on every address of its machine does not know which of them clients
/// reach. The client does: it has just joined over HTTP.
fn own(bound: SocketAddr) -> String {
    if bound.ip().is_unspecified() {
        format!(":{}", bound.port())
    } else {
        bound.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(udp: Option<&str>, advertise: &[&str]) -> Option<Vec<String>> {
        let config = Config {
            udp: udp.map(|address| address.parse().unwrap()),
            udp_advertise: advertise.iter().map(|&text| text.to_owned()).collect(),
            ..Config::default()
        };
        advertised(&config)
    }

    #[test]
    fn clients_are_told_the_setting_or_the_address_of_the_gateway() {
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(told(None, &[]), None);
        assert_eq!(told(Some("192.0.2.7:81"), &[]), one("192.0.2.7:81"));
        assert_eq!(told(Some("[2001:db8::7]:81"), &[]), one("[2001:db8::7]:81"));
        assert_eq!(told(Some("0.0.0.0:81"), &[]), one(":81"));
        assert_eq!(told(Some("[::]:81"), &[]), one(":81"));
        assert_eq!(told(Some("0.0.0.0:81"), &["gw:9"]), one("gw:9"));
    }
}
