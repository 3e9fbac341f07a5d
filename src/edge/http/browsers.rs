//! What concerns browsers only: which web origins may ask, which hosts they may ask for, and the
//! headers that tell a browser what it may do with an answer. Apps and back ends send no `Origin`,
//! and are never refused here for that. [`super::sharing`] and the upgrade ask.

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};

use super::problem::{Kind, Problem};
use crate::base::web_origin::{Authority, NO_ORIGIN, Scheme, WebOrigin};
use crate::config::{AuthMode, Config};

/// How long a browser remembers to use TLS.
const TLS_FOR: &str = "max-age=31536000";

/// For answers that are no page: nothing in them may run, and no page may frame them.
const NO_CONTENT: &str = "default-src 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub(crate) struct Browsers {
    /// As configured; `*` allows every origin, and `null` pages without one.
    origins: Vec<String>,
    hosts: Hosts,
}

/// Which names of this gateway are served.
#[derive(Debug, Clone, Copy)]
enum Hosts {
    All,
    /// A page whose name leads to a loopback address by a trick of DNS has an origin like this
    /// gateway's. Where nobody proves who they are, its requests must not be served.
    Loopback,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// No browser, or a page that navigates.
    None,
    /// A page of this gateway.
    Same,
    Allowed(&'a HeaderValue),
    Forbidden,
}

impl Browsers {
    pub(crate) fn new(config: &Config) -> Self {
        let hosts = if config.auth == AuthMode::Off {
            Hosts::Loopback
        } else {
            Hosts::All
        };
        Self {
            origins: config.origins.clone(),
            hosts,
        }
    }

    pub(super) fn origin<'a>(&self, headers: &'a HeaderMap, scheme: Scheme) -> Origin<'a> {
        let mut lines = headers.get_all(header::ORIGIN).iter();
        let (Some(sent), None) = (lines.next(), lines.next()) else {
            return if headers.contains_key(header::ORIGIN) {
                Origin::Forbidden
            } else {
                Origin::None
            };
        };
        let origin = sent.to_str().ok().and_then(WebOrigin::parse);
        let is = |allowed: &str| match allowed {
            "*" => true,
            NO_ORIGIN => sent == NO_ORIGIN,
            _ => both(origin, WebOrigin::parse(allowed), |a, b| a.is(b)),
        };
        if both(origin, host(headers), |origin, host| {
            origin.is_of(host, scheme)
        }) {
            Origin::Same
        } else if self.origins.iter().any(|allowed| is(allowed)) {
            Origin::Allowed(sent)
        } else {
            Origin::Forbidden
        }
    }

    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(host) = host(headers) else {
            return Err(Problem::new(
                Kind::BadHost,
                "send one Host header: a name or an address, and maybe a port",
            ));
        };
        match self.hosts {
            Hosts::Loopback if !host.is_loopback() => Err(Problem::new(
                Kind::BadHost,
                "with auth off the host must be localhost or a loopback address",
            )),
            _ => Ok(()),
        }
    }
}

fn both<A, B>(a: Option<A>, b: Option<B>, fit: impl FnOnce(&A, &B) -> bool) -> bool {
    a.zip(b).is_some_and(|(a, b)| fit(&a, &b))
}

fn host(headers: &HeaderMap) -> Option<Authority<'_>> {
    let mut lines = headers.get_all(header::HOST).iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    Authority::parse(only.to_str().ok()?)
}

/// The scheme of a request's connection; the listener notes it.
pub(super) fn scheme(extensions: &Extensions) -> Scheme {
    extensions.get().copied().unwrap_or(Scheme::Http)
}

/// Adds to an answer what a browser may do with it.
pub(super) fn harden(headers: &mut HeaderMap, scheme: Scheme) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(NO_CONTENT));
    if scheme == Scheme::Https {
        headers.insert(
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static(TLS_FOR),
        );
    }
}

pub(super) fn forbidden() -> Problem {
    Problem::new(
        Kind::ForbiddenOrigin,
        "pages of this origin may not connect: the setting origins does not name it",
    )
}

#[cfg(test)]
mod tests;
