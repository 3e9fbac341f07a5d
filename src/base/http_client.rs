//! The one way to make a client of another HTTP service, so that none tells more than it must or
//! goes elsewhere: no referer, no redirects, and no proxy that the environment names unless a
//! setting asks for it. `tests/tidy.rs` checks that no code makes a client in another way.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder};

/// Whether requests go through the proxy that the environment names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// They do not: somebody who can set a variable must not see them.
    Never,
    /// They do, because the operator asked for it.
    OfEnvironment,
}

/// A client whose requests must end within `timeout`, from the connection to the last byte. The
/// caller adds further options.
pub(crate) fn builder(timeout: Duration, proxy: Proxy) -> ClientBuilder {
    let client = Client::builder()
        .timeout(timeout)
        .connect_timeout(timeout)
        .referer(false)
        .redirect(Policy::none())
        .user_agent(concat!("rollcall/", env!("CARGO_PKG_VERSION")));
    match proxy {
        Proxy::Never => client.no_proxy(),
        Proxy::OfEnvironment => client,
    }
}

/// Follows up to `most` redirects, as long as they keep to this scheme.
pub(crate) fn redirects_within(scheme: &str, most: usize) -> Policy {
    let scheme = scheme.to_owned();
    Policy::custom(move |attempt: Attempt<'_>| {
        let allowed = attempt.previous().len() <= most && attempt.url().scheme() == scheme;
        if allowed {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}
