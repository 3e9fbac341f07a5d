//! Sets with keys of every kind.

use serde_json::json;

use super::super::test_keys::{ED25519, P256, P384, RSA, set};
use super::*;

fn algorithms(text: &[u8], origin: KeysFrom) -> Result<Vec<Algorithm>, SetError> {
    parse(text, origin).map(|keys| keys.iter().map(|key| key.algorithm).collect())
}

fn with(mut jwk: Value, name: &str, value: Value) -> Value {
    jwk[name] = value;
    jwk
}

fn rsa() -> Value {
    RSA.jwk(Algorithm::RS256, "r")
}

#[test]
fn the_algorithm_follows_from_the_kind_of_the_key() {
    let mut keys = [
        rsa(),
        P256.jwk(Algorithm::ES256, "e"),
        ED25519.jwk(Algorithm::EdDSA, "d"),
    ];
    let right = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
    assert_eq!(algorithms(&set(&keys), KeysFrom::Url).unwrap(), right);
    keys[2]["alg"] = json!("Ed25519");
    assert_eq!(
        algorithms(&set(&keys[2..]), KeysFrom::Url),
        Ok(vec![Algorithm::EdDSA])
    );
    keys.iter_mut()
        .for_each(|key| drop(key.as_object_mut().unwrap().remove("alg")));
    let keys = parse(&set(&keys), KeysFrom::Url).unwrap();
    assert_eq!(
        keys.iter().map(|key| key.algorithm).collect::<Vec<_>>(),
        right
    );
    assert_eq!(keys[0].id.as_deref(), Some("r"));
}

#[test]
fn keys_that_are_not_for_tokens_are_left_out() {
    for odd in [
        with(rsa(), "use", json!("enc")),
        with(rsa(), "use", json!("tls")),
        with(rsa(), "use", json!(7)),
        with(rsa(), "key_ops", json!(["encrypt"])),
        with(rsa(), "alg", json!("RSA-OAEP")),
        with(rsa(), "alg", json!("PS256")),
        with(rsa(), "alg", json!("HS256")),
        with(rsa(), "alg", json!("Ed25519")),
        with(rsa(), "alg", json!("none")),
        with(rsa(), "n", json!("AQAB")),
        with(rsa(), "n", json!("")),
        with(rsa(), "e", json!("!")),
        with(P256.jwk(Algorithm::ES256, "e"), "x", json!("AAAA")),
        with(P256.jwk(Algorithm::ES256, "e"), "crv", json!("secp256k1")),
        with(ED25519.jwk(Algorithm::EdDSA, "d"), "x", json!("AAAA")),
        P384.jwk(Algorithm::ES384, "e"),
        with(rsa(), "n", json!("u".repeat(1024 / 8 * 4 / 3))),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"}),
        json!({}),
        json!(null),
        json!("key"),
    ] {
        assert_eq!(
            algorithms(&set(std::slice::from_ref(&odd)), KeysFrom::Url),
            Err(SetError::NoKey),
            "{odd}"
        );
        assert_eq!(
            algorithms(&set(&[odd, rsa()]), KeysFrom::Url),
            Ok(vec![Algorithm::RS256])
        );
    }
    for usage in [("use", json!("sig")), ("key_ops", json!(["verify"]))] {
        assert!(algorithms(&set(&[with(rsa(), usage.0, usage.1)]), KeysFrom::Url).is_ok());
    }
}

#[test]
fn a_secret_is_taken_from_a_file_only() {
    let secret = |bytes: usize| {
        let k = data_encoding::BASE64URL_NOPAD.encode(&vec![7; bytes]);
        set(&[json!({"kty": "oct", "k": k, "kid": "s"})])
    };
    assert_eq!(
        algorithms(&secret(32), KeysFrom::File),
        Ok(vec![Algorithm::HS256])
    );
    assert_eq!(
        algorithms(&secret(31), KeysFrom::File),
        Err(SetError::NoKey)
    );
    assert_eq!(algorithms(&secret(32), KeysFrom::Url), Err(SetError::NoKey));
}

#[test]
fn what_is_no_set_is_refused_and_so_is_one_with_too_many_keys() {
    for bad in ["", "[]", "{}", "{\"keys\":{}}", "<html>"] {
        assert_eq!(
            algorithms(bad.as_bytes(), KeysFrom::Url),
            Err(SetError::Malformed),
            "{bad}"
        );
    }
    assert_eq!(algorithms(&set(&[]), KeysFrom::Url), Err(SetError::NoKey));
    for (keys, right) in [
        (MOST_KEYS, Ok(MOST_KEYS)),
        (MOST_KEYS + 1, Err(SetError::TooMany)),
    ] {
        let read = algorithms(&set(&vec![rsa(); keys]), KeysFrom::Url);
        assert_eq!(read.map(|keys| keys.len()), right);
    }
}
