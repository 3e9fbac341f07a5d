//! Owns the asking of gateways: what they say over HTTP of what they hold.

/// Where a gateway's HTTP API is: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl(String);

impl GatewayUrl {
    /// Takes `http://host:port`; without a port it is 80.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        const RIGHT: &str = "is no address of a gateway; right would be http://host:port";
        let authority = url.strip_prefix("http://").ok_or(RIGHT)?.trim_end_matches('/');
        let authority: axum::http::uri::Authority = authority.parse().map_err(|_| RIGHT)?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(RIGHT);
        }
        Ok(Self(authority.to_string()))
    }
}
