//! The address of a gateway's HTTP API, as the command line gives it.

use axum::http::uri::Authority;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewayUrl(Authority);

impl std::fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

impl GatewayUrl {
    /// Reads `http://host:port`; the default port is 80. The error says what would be right.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        const RIGHT: &str = "is no address of a gateway; right would be http://host:port";
        let authority = url.strip_prefix("http://").ok_or(RIGHT)?.trim_end_matches('/');
        let authority: Authority = authority.parse().map_err(|_| RIGHT)?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(RIGHT);
        }
        Ok(Self(authority))
    }
}
