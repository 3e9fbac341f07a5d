//! The checks for browsers: which web origins may send requests, which hosts they may name, and
//! which headers tell a browser what it may do with an answer. Apps and back ends send no `Origin`,
//! and the checks never refuse them for that. [`super::sharing`] and the upgrade use the checks.

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};

use super::problem::{Problem, ProblemKind};
use crate::base::web_origin::{Authority, NO_ORIGIN, Scheme, WebOrigin};
use crate::config::{AuthMode, Config};

/// How long a browser remembers to use TLS.
const TLS_FOR: &str = "max-age=31536000";

/// The content security policy of answers that are not a page: nothing in them may run, and no page
/// may frame them.
const NO_CONTENT: &str = "default-src 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub(crate) struct Browsers {
    /// The setting `origins`. `*` allows every origin, and `null` allows pages without one.
    origins: Vec<String>,
    hosts: Hosts,
}

/// The host names for which the gateway serves requests.
#[derive(Debug, Clone, Copy)]
enum Hosts {
    All,
    /// DNS can make the name of a foreign page lead to a loopback address (DNS rebinding). Such a
    /// page seems to be of this gateway's own origin. Without authentication the gateway must not
    /// serve its requests.
    Loopback,
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin<'a> {
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

    pub(crate) fn origin<'a>(&self, headers: &'a HeaderMap, scheme: Scheme) -> RequestOrigin<'a> {
        let mut lines = headers.get_all(header::ORIGIN).iter();
        let Some(sent) = lines.next() else {
            return RequestOrigin::None;
        };
        if lines.next().is_some() {
            return RequestOrigin::Forbidden;
        }
        if let Some(origin) = parse_origin(sent)
            && let Some(host) = host(headers)
            && origin.is_of(&host, scheme)
        {
            return RequestOrigin::Same;
        }
        if self.origins.iter().any(|allowed| allows(allowed, sent)) {
            RequestOrigin::Allowed(sent)
        } else {
            RequestOrigin::Forbidden
        }
    }

    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(host) = host(headers) else {
            return Err(Problem::new(
                ProblemKind::BadHost,
                "send one Host header: a name or an address, and maybe a port",
            ));
        };
        match self.hosts {
            Hosts::Loopback if !host.is_loopback() => Err(Problem::new(
                ProblemKind::BadHost,
                "with auth off the host must be localhost or a loopback address",
            )),
            _ => Ok(()),
        }
    }
}

fn parse_origin(sent: &HeaderValue) -> Option<WebOrigin<'_>> {
    WebOrigin::parse(sent.to_str().ok()?)
}

/// Whether one item of the setting `origins` allows the origin that a browser sent.
fn allows(allowed: &str, sent: &HeaderValue) -> bool {
    match allowed {
        "*" => true,
        NO_ORIGIN => sent == NO_ORIGIN,
        _ => match (parse_origin(sent), WebOrigin::parse(allowed)) {
            (Some(sent), Some(allowed)) => sent.is(&allowed),
            _ => false,
        },
    }
}

/// The host that a request names; `None` unless it has exactly one well-formed `Host` header.
fn host(headers: &HeaderMap) -> Option<Authority<'_>> {
    let mut lines = headers.get_all(header::HOST).iter();
    let first = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    Authority::parse(first.to_str().ok()?)
}

/// The scheme of a request's connection, which the listener put into the request's extensions.
pub(crate) fn scheme(extensions: &Extensions) -> Scheme {
    extensions.get().copied().unwrap_or(Scheme::Http)
}

/// Adds the headers to an answer that tell a browser what it may do with it.
pub(crate) fn harden(headers: &mut HeaderMap, scheme: Scheme) {
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

pub(crate) fn forbidden() -> Problem {
    Problem::new(
        ProblemKind::ForbiddenOrigin,
        "pages of this origin may not connect: the setting origins does not name it",
    )
}

#[cfg(test)]
mod tests;
