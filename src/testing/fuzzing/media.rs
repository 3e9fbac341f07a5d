//! What the fuzzer runs of the callbacks: the adapters and the signatures, for every kind of server.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::base::media_event::StreamSession;
use crate::base::media_server::MediaKind;
use crate::base::secret::Secret;
use crate::config::Mapping;
use crate::features::media::fields::LONGEST;
use crate::features::media::read;
use crate::features::media::signature::{Callback, check};

/// The headers in which servers send their signatures.
const SIGNATURES: [&str; 4] = [
    "x-ome-signature",
    "authorization",
    "mux-signature",
    "cf-webhook-auth",
];

/// The first byte chooses the kind of server. The rest is the body, and once more the signature.
pub(crate) fn callback(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    let kind = MediaKind::ALL[usize::from(choice) % MediaKind::ALL.len()];
    let mapping = Mapping::of(kind);
    if let Ok(Some(event)) = read(kind, &mapping, None, body) {
        let is_named = event.session != StreamSession::Any;
        assert!((usize::from(is_named)..=LONGEST).contains(&event.session.as_str().len()));
        assert!((1..=LONGEST).contains(&event.stream.reveal().len()));
        assert_eq!(read(kind, &mapping, None, body), Ok(Some(event)));
    }
    is_never_believed(kind, body);
}

/// Nobody who does not know the secret finds a signature.
fn is_never_believed(kind: MediaKind, body: &[u8]) {
    let signature = match HeaderValue::from_bytes(body) {
        Ok(value) => value,
        Err(_) => HeaderValue::from_static("t=1700000000,v1=00"),
    };
    let mut headers = HeaderMap::new();
    for name in SIGNATURES {
        headers.insert(HeaderName::from_static(name), signature.clone());
    }
    let callback = Callback {
        headers: &headers,
        query_secret: std::str::from_utf8(body).ok(),
        body,
    };
    let secret = Secret::new("Qm9vLCBhIHNlY3JldCBvZiB0aGUgZnV6emVy");
    let believed = check(kind, &secret, callback, Duration::from_secs(1_700_000_000));
    assert!(believed.is_err(), "{kind:?} believed a forged callback");
}
