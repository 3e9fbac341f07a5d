//! What a sender counts as lost, and when it sends nothing.

use crate::base::event_kind::EventKind;
use crate::base::ids::LiveId;
use crate::base::secret::Secret;
use crate::base::webhook_name::WebhookName;
use crate::config::{Config, WebhookEndpoint};
use crate::features::webhooks::endpoints::Endpoints;
use crate::features::webhooks::sender::*;
use crate::store::About;
use crate::testing::{FaultyStore, app_on};

/// The senders of a webhook: one for each of its queues.
fn senders() -> [WebhookSender; 2] {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "0123456789abcdef").unwrap();
    let config = Config {
        webhooks: vec![WebhookEndpoint {
            name: WebhookName::parse("crm").unwrap(),
            url: Secret::new("https://receiver.invalid"),
            secret_file: secret.path().to_owned(),
            events: Vec::new(),
        }],
        ..Config::default()
    };
    let endpoints = Endpoints::open(&config).unwrap();
    let endpoint = endpoints.iter().next().unwrap();
    let store = Arc::new(FaultyStore::new());
    let app = app_on(&config, store.clone());
    QueueKind::ALL.map(|kind| WebhookSender {
        core: app.core.clone(),
        store: store.clone(),
        endpoint: endpoint.clone(),
        kind,
    })
}

#[test]
fn only_what_the_stream_lost_is_counted() {
    for (sender, counted) in senders().into_iter().zip([3, 0]) {
        sender.note_lost(3);
        let lost = sender
            .core
            .metrics
            .events_trimmed
            .get_or_create(&sender.labels());
        assert_eq!(lost.get(), counted, "{:?}", sender.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_overloaded_is_sent_nothing_whoever_learned_it_and_whatever_comes_between()
 {
    let senders = senders();
    let mut states = [Sending::new(), Sending::new()];
    let pause = 5_000;
    let [stream, _] = &senders;
    stream.endpoint.pause(stream.core.clock.now(), pause);
    for wait in [0, pause] {
        stream
            .core
            .clock
            .sleep_until(stream.core.clock.now() + wait)
            .await;
        for (sender, state) in senders.iter().zip(&mut states) {
            state.start_over();
            state.until = sender.core.clock.now() + 1;
            let event = Event {
                id: "42:1:live.opened:7".to_owned(),
                kind: EventKind::LiveOpened,
                about: About::Live(LiveId::parse("42").unwrap()),
                data: "{}".to_owned(),
            };
            state.backlog.push(EntryId(7, 0), event);
            sender.send_what_is_due(state);
            assert_eq!(
                state.attempts.len(),
                usize::from(wait > 0),
                "after {wait} ms"
            );
        }
    }
}
