//! Webhooks: the events of the stream, sent to services over HTTP.
//!
//! It reads the stream that the core writes ([`crate::store::Events`]), as consumers of it.

use std::sync::Arc;

use self::endpoints::Endpoints;
use self::sender::WebhookSender;
use self::store::WebhookStore;
use super::wired::{SetupError, Wired};
use crate::config::Config;
use crate::store::QueueKind;

pub(crate) mod backlog;
pub(crate) mod command;
pub(crate) mod deliveries;
pub(crate) mod endpoints;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod receiver;
pub(crate) mod redis;
pub(crate) mod replay;
pub(crate) mod scripts;
pub(crate) mod sender;
pub(crate) mod signature;
pub mod store;
pub(crate) mod test_event;

/// The webhooks of the settings.
///
/// # Errors
/// Settings or their files are wrong.
pub(crate) fn open(config: &Config) -> Result<Endpoints, SetupError> {
    Endpoints::open(config).map_err(|wrong| SetupError::Wrong(wrong.join("\n")))
}

/// The mistakes in the files of webhooks.
pub(crate) fn wrong_files(config: &Config) -> Vec<String> {
    Endpoints::open(config).err().unwrap_or_default()
}

pub(crate) fn feature(
    store: Arc<dyn WebhookStore>,
    clients: Arc<dyn WebhookStore>,
    endpoints: Endpoints,
) -> Wired {
    Wired::joins(move |host, added| {
        for endpoint in endpoints.iter() {
            for kind in QueueKind::ALL {
                let sender = WebhookSender {
                    core: host.core.clone(),
                    store: store.clone(),
                    endpoint: endpoint.clone(),
                    kind,
                };
                added.task("webhooks", |stop| sender.run(stop));
            }
            added.files.push(endpoint.clone());
        }
        added.part(Arc::new(endpoints));
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
