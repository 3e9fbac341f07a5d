//! The receiver of webhooks: one signed POST an event, with a deadline, to a public address,
//! following no redirect and reading little of the answer. No error names the URL, whose query may
//! hold a password.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Url};

use crate::base::clock::unix_now;
use crate::base::http_answer;
use crate::base::http_client;
use crate::base::http_client::Proxy;
use crate::base::public_address::is_public;
use crate::features::webhooks::signature::WebhookSigner;

const SIGNATURE: &str = "rollcall-signature";
const EVENT_ID: &str = "rollcall-event-id";

/// Maximum bytes of an answer that are read so that its connection can be used again.
const MOST_READ: usize = 16 * 1024;

/// The most connections that are kept for the next event.
const MOST_IDLE: usize = 32;

/// The longest time for which a receiver is left alone because it asked for it.
const LONGEST_REST: Duration = Duration::from_secs(3_600);

/// The statuses by which a receiver says that it is overloaded or down, and not that it dislikes an
/// event.
const TOO_MANY_REQUESTS: u16 = 429;
const UNAVAILABLE: u16 = 503;

/// Which addresses a request may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// Private and loopback addresses, too.
    Any,
}

/// Why an event did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeliveryFailure {
    #[error("it answered {status}")]
    Status {
        status: u16,
        /// How long it wants to be left alone; an hour at most.
        retry_after: Option<Duration>,
    },
    #[error("it did not answer in time")]
    Timeout,
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
}

impl DeliveryFailure {
    /// How long the receiver wants to be left alone; an hour at most.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Timeout | Self::Unreachable(_) => None,
        }
    }

    /// The status of the answer, if there was one.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Timeout | Self::Unreachable(_) => None,
        }
    }

    /// Whether the receiver takes no event at all for now, whatever it is about.
    pub(crate) fn is_about_all(&self) -> bool {
        matches!(self.status(), Some(TOO_MANY_REQUESTS | UNAVAILABLE))
    }

    /// The label in the metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Timeout => "timeout",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl From<reqwest::Error> for DeliveryFailure {
    fn from(why: reqwest::Error) -> Self {
        if why.is_timeout() {
            return Self::Timeout;
        }
        Self::Unreachable(http_answer::reason(why))
    }
}

pub struct WebhookReceiver {
    client: Client,
    url: Url,
    signer: WebhookSigner,
}

impl WebhookReceiver {
    /// A receiver at a URL of http or https, which has this long to answer.
    ///
    /// # Errors
    /// If there are no certificate authorities to trust, or the URL names an address out of reach.
    pub fn new(
        url: Url,
        signer: WebhookSigner,
        timeout: Duration,
        reach: Reach,
    ) -> Result<Self, String> {
        // A client asks no resolver about an address, so it is judged here.
        if reach == Reach::Public
            && let Some(host) = url.host_str()
            && let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>()
            && !is_public(address)
        {
            return Err(
                "names a private or loopback address; allow it with webhook-allow-private"
                    .to_owned(),
            );
        }
        let client = http_client::builder(timeout, Proxy::Never)
            .dns_resolver(Resolver(reach))
            .pool_max_idle_per_host(MOST_IDLE)
            .build()
            .map_err(http_answer::reason)?;
        Ok(Self {
            client,
            url,
            signer,
        })
    }

    pub(crate) fn signer(&self) -> &WebhookSigner {
        &self.signer
    }

    /// Sends an event once. Returns the status, which says success.
    pub(crate) async fn send(&self, id: &str, body: &str) -> Result<u16, DeliveryFailure> {
        let signature = self.signer.sign(unix_now() / 1_000, body);
        let mut answer = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(EVENT_ID, id)
            .header(SIGNATURE, signature)
            .body(body.to_owned())
            .send()
            .await?;
        let status = answer.status();
        let retry_after = retry_after(answer.headers(), SystemTime::now());
        let mut left = MOST_READ;
        // Only the status of the answer matters, not its body, nor whether the body ends.
        while let Ok(Some(chunk)) = answer.chunk().await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => break,
            }
        }
        if status.is_success() {
            Ok(status.as_u16())
        } else {
            Err(DeliveryFailure::Status {
                status: status.as_u16(),
                retry_after,
            })
        }
    }
}

/// Reads `Retry-After`: a number of seconds or a date. Any other text counts as absent.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wait = if is_number {
        // A number that does not fit is a long time, too.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        until.duration_since(now).ok()?
    };
    Some(wait.min(LONGEST_REST))
}

/// Resolves names for the connection itself, so that a name cannot be judged by one address and
/// connected to at another.
struct Resolver(Reach);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| reach == Reach::Any || is_public(address.ip()))
                .collect();
            if allowed.is_empty() {
                return Err("its name has private or loopback addresses only".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
