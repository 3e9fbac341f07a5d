//! The address of a gateway's HTTP API, as the command line gives it.

use axum::http::uri::Authority;

/// Where a gateway's HTTP API is: `http://host:port` or `https://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl {
    scheme: &'static str,
    authority: Authority,
}

impl std::fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.scheme, self.authority)
    }
}

impl GatewayUrl {
    /// Reads `http://host:port` or `https://host:port`; the port may be left out.
    ///
    /// # Errors
    /// Describes a valid address.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        const RIGHT: &str =
            "is no address of a gateway; right would be http://host:port or https://host:port";
        let (scheme, rest) = split_scheme(url).ok_or(RIGHT)?;
        let authority: Authority = rest.trim_end_matches('/').parse().map_err(|_| RIGHT)?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(RIGHT);
        }
        Ok(Self { scheme, authority })
    }
}

/// The scheme of a URL, and what follows it; `None` if it is neither HTTP nor HTTPS.
fn split_scheme(url: &str) -> Option<(&'static str, &str)> {
    for scheme in ["http://", "https://"] {
        if let Some(rest) = url.strip_prefix(scheme) {
            return Some((scheme, rest));
        }
    }
    None
}
