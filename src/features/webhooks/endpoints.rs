//! The webhooks of the settings: where each event is sent, and with which secrets it is signed.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Url;

use crate::base::clock::{AtomicMoment, Millis, Moment};
use crate::base::event_kind::EventKind;
use crate::base::from_files::FromFiles;
use crate::base::webhook_name::WebhookName;
use crate::config::{Config, WebhookEndpoint};
use crate::features::webhooks::receiver::{Reach, WebhookReceiver};
use crate::features::webhooks::signature::WebhookSigner;

/// A webhook.
pub struct Endpoint {
    pub name: WebhookName,
    /// The scheme, the host and the port of its URL, whose rest may be secret.
    pub origin: String,
    /// Which events are sent.
    pub kinds: Vec<EventKind>,
    receiver: WebhookReceiver,
    /// Until when no event is sent, by the clock of this gateway.
    paused_until: AtomicMoment,
    complaint: Mutex<Complaint>,
}

/// What the log says of a webhook that fails.
#[derive(Debug, Default)]
struct Complaint {
    /// Whether the log said that it fails, and not yet that it takes events again.
    stands: bool,
    /// When the log said so last.
    last: Option<Moment>,
}

/// The least time between two complaints about a webhook, in ms. One that takes some events and
/// refuses others would fill the log.
const COMPLAIN_EVERY: Millis = 60_000;

impl Endpoint {
    /// # Errors
    /// An entry or its files are wrong; the text says which and how.
    fn open(config: &Config, entry: &WebhookEndpoint) -> Result<Self, String> {
        let of_secret = setting(&entry.name, "secret-file");
        let signer = WebhookSigner::open(of_secret, entry.secret_file.clone())?;
        let of_url = setting(&entry.name, "url");
        let url = Url::parse(entry.url.reveal()).map_err(|why| format!("{of_url}: {why}"))?;
        let reach = if config.webhook_allow_private {
            Reach::Any
        } else {
            Reach::Public
        };
        let receiver = WebhookReceiver::new(url, signer, config.webhook_timeout, reach)
            .map_err(|why| format!("{of_url} {why}"))?;
        let kinds = EventKind::ALL.into_iter().filter(|kind| entry.wants(*kind));
        Ok(Self {
            name: entry.name.clone(),
            origin: entry.origin(),
            kinds: kinds.collect(),
            receiver,
            paused_until: AtomicMoment::default(),
            complaint: Mutex::default(),
        })
    }

    /// The receiver asked for no event at all during `wait`, in ms.
    pub(crate) fn pause(&self, now: Moment, wait: Millis) {
        self.paused_until.advance(now + wait);
    }

    /// Until when no event is sent, from no queue.
    pub(crate) fn paused_until(&self) -> Moment {
        self.paused_until.load()
    }

    /// The webhook did not take an event. True if the log is to say so.
    pub(crate) fn note_failure(&self, now: Moment) -> bool {
        let mut complaint = self.complaint.lock();
        let is_early = complaint
            .last
            .is_some_and(|last| now < last + COMPLAIN_EVERY);
        if complaint.stands || is_early {
            return false;
        }
        *complaint = Complaint {
            stands: true,
            last: Some(now),
        };
        true
    }

    /// The webhook took an event. True if the log said before that it fails.
    pub(crate) fn note_arrival(&self) -> bool {
        std::mem::take(&mut self.complaint.lock().stands)
    }

    pub(crate) fn receiver(&self) -> &WebhookReceiver {
        &self.receiver
    }

    /// How many secrets sign its events.
    pub fn secrets(&self) -> usize {
        self.receiver.signer().count()
    }
}

/// How the settings name a key of a webhook.
fn setting(name: &WebhookName, key: &str) -> String {
    if name.is_default() {
        format!("webhook-{key}")
    } else {
        format!("webhooks.{name}.{key}")
    }
}

impl FromFiles for Endpoint {
    fn name(&self) -> &'static str {
        "the secrets of a webhook"
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.receiver.signer().path().to_owned()]
    }

    fn read_again(&self) -> Result<(), String> {
        self.receiver.signer().reload()
    }
}

/// Every webhook; the default has none.
#[derive(Clone, Default)]
pub struct Endpoints(Vec<Arc<Endpoint>>);

impl Endpoints {
    /// The webhooks of the settings.
    ///
    /// # Errors
    /// Settings or their files are wrong; each text says which and how.
    pub fn open(config: &Config) -> Result<Self, Vec<String>> {
        let mut endpoints = Vec::new();
        let mut wrong = Vec::new();
        for entry in config.webhook_endpoints() {
            match Endpoint::open(config, &entry) {
                Ok(endpoint) => endpoints.push(Arc::new(endpoint)),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() {
            Ok(Self(endpoints))
        } else {
            Err(wrong)
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.0.iter()
    }

    /// The webhook of this name.
    pub fn find(&self, name: &WebhookName) -> Option<&Arc<Endpoint>> {
        self.iter().find(|endpoint| endpoint.name == *name)
    }
}
