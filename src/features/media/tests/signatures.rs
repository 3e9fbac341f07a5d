//! Who is believed to be the media server.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use data_encoding::BASE64;
use jsonwebtoken::{EncodingKey, Header, encode};
use sha2::{Digest, Sha256};

use crate::base::clock::unix_now;
use crate::base::media_server::MediaKind;
use crate::base::secret::Secret;
use crate::features::media::signature::{Callback, Forged, check};

const BODY: &[u8] = br#"{"a":1}"#;
const NOW: Duration = Duration::from_secs(1_700_000_000);

fn with(
    kind: MediaKind,
    name: &'static str,
    value: &str,
    body: &[u8],
    now: Duration,
) -> Result<(), Forged> {
    let name = HeaderName::from_static(name);
    let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
    let callback = Callback {
        headers: &headers,
        query_secret: None,
        body,
    };
    check(kind, &Secret::new("0123456789abcdef"), callback, now)
}

#[test]
fn oven_media_engine_signs_the_body() {
    // printf '{"a":1}' | openssl dgst -sha1 -hmac 0123456789abcdef -binary | basenc --base64url
    const RIGHT: &str = "HzdwRTQ0Z-z5g8cBKUJmdLj4jmk=";
    let kind = MediaKind::OvenMediaEngine;
    let is = |value: &str, body: &[u8]| with(kind, "x-ome-signature", value, body, NOW);
    assert_eq!(is(RIGHT, BODY), Ok(()));
    assert_eq!(is(RIGHT.trim_end_matches('='), BODY), Ok(()));
    assert_eq!(is(RIGHT, br#"{"a":2}"#), Err(Forged::Wrong));
    assert_eq!(is("AAAA", BODY), Err(Forged::Wrong));
    assert_eq!(is("%%%", BODY), Err(Forged::Wrong));
    assert_eq!(
        with(kind, "x-other", RIGHT, BODY, NOW),
        Err(Forged::Missing)
    );
    let body = br#"{"request":{"time":"2023-11-14T22:13:20.000Z"}}"#;
    let timed = |now| {
        with(
            kind,
            "x-ome-signature",
            "UT1WQ9eDiZAtxEVeWUs1D8QJ7TA=",
            body,
            now,
        )
    };
    assert_eq!(timed(NOW + Duration::from_secs(300)), Ok(()));
    for now in [
        NOW + Duration::from_secs(301),
        NOW - Duration::from_secs(301),
    ] {
        assert_eq!(timed(now), Err(Forged::Replayed));
    }
}

#[test]
fn mux_signs_the_time_too() {
    // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
    const RIGHT: &str = "9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23";
    let is = |value: &str, now| with(MediaKind::Mux, "mux-signature", value, BODY, now);
    let right = format!("t=1700000000,v1={RIGHT}");
    assert_eq!(is(&right, NOW), Ok(()));
    assert_eq!(is(&format!("t=1700000000,v1=00,v1={RIGHT}"), NOW), Ok(()));
    assert_eq!(is(&right, NOW + Duration::from_secs(300)), Ok(()));
    assert_eq!(
        is(&right, NOW + Duration::from_secs(301)),
        Err(Forged::Replayed)
    );
    assert_eq!(
        is(&right, NOW - Duration::from_secs(301)),
        Err(Forged::Replayed)
    );
    // Another time than the one that was signed.
    assert_eq!(
        is(&format!("t=1700000100,v1={RIGHT}"), NOW),
        Err(Forged::Wrong)
    );
    for value in [
        "",
        "t=",
        "t=x,v1=y",
        "v1=00",
        "t=1700000000",
        "t=1700000000,v1=",
        ",,,=,=",
    ] {
        assert_eq!(is(value, NOW), Err(Forged::Wrong), "{value}");
    }
}

fn livekit_token(body: &[u8], expires_in: i64, secret: &[u8]) -> String {
    let now = i64::try_from(unix_now() / 1000).unwrap();
    let sha256 = BASE64.encode(&Sha256::digest(body));
    let claims = serde_json::json!({"iss": "key", "exp": now + expires_in, "sha256": sha256});
    encode(
        &Header::default(),
        &claims,
        &EncodingKey::from_secret(secret),
    )
    .unwrap()
}

#[test]
fn livekit_signs_the_digest_of_the_body() {
    let is = |token: &str, body| with(MediaKind::LiveKit, "authorization", token, body, NOW);
    let right = livekit_token(BODY, 300, b"0123456789abcdef");
    assert_eq!(is(&right, BODY), Ok(()));
    assert_eq!(is(&format!("Bearer {right}"), BODY), Ok(()));
    assert_eq!(is(&right, br#"{"a":2}"#), Err(Forged::Wrong));
    assert_eq!(
        is(&livekit_token(BODY, 300, b"another"), BODY),
        Err(Forged::Wrong)
    );
    assert_eq!(
        is(&livekit_token(BODY, -300, b"0123456789abcdef"), BODY),
        Err(Forged::Replayed)
    );
    // {"alg":"none"}
    let payload = right.split('.').nth(1).unwrap();
    assert_eq!(
        is(&format!("eyJhbGciOiJub25lIn0.{payload}."), BODY),
        Err(Forged::Wrong)
    );
    assert_eq!(is("garbage", BODY), Err(Forged::Wrong));
}

#[test]
fn cloudflare_sends_the_secret() {
    let is = |value: &str| with(MediaKind::Cloudflare, "cf-webhook-auth", value, BODY, NOW);
    assert_eq!(is("0123456789abcdef"), Ok(()));
    assert_eq!(is("0123456789abcdeF"), Err(Forged::Wrong));
    assert_eq!(is(""), Err(Forged::Wrong));
}

#[test]
fn servers_without_signatures_have_a_secret_in_the_query() {
    for kind in MediaKind::ALL {
        assert_eq!(in_query(kind, None), Err(Forged::Missing), "{kind:?}");
        let right = in_query(kind, Some("0123456789abcdef"));
        let wrong = in_query(kind, Some("0123456789abcde"));
        if kind.signs() {
            // A secret in the query is no way around a signature.
            assert_eq!(right, Err(Forged::Missing), "{kind:?}");
            assert_eq!(wrong, Err(Forged::Missing), "{kind:?}");
        } else {
            assert_eq!(right, Ok(()), "{kind:?}");
            assert_eq!(wrong, Err(Forged::Wrong), "{kind:?}");
        }
    }
}

fn in_query(kind: MediaKind, query_secret: Option<&str>) -> Result<(), Forged> {
    let callback = Callback {
        headers: &HeaderMap::new(),
        query_secret,
        body: BODY,
    };
    check(kind, &Secret::new("0123456789abcdef"), callback, NOW)
}
