//! A table of tokens, each with its refusal; the cache; and what a reload changes.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};

use super::super::test_keys::{
    ED25519, OTHER_ED25519, OTHER_P256, P256, P384, Pair, RSA, SECRET, by, claims, hs256, now, set,
    signed,
};
use super::*;
use crate::base::identity::Role;
use crate::base::metrics::OutcomeLabel;

/// Checks tokens with a secret, an RSA key and a set of two keys, for the audience `aud` and the
/// issuer `iss`.
struct World {
    tokens: Tokens,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::tuned(|_| {})
    }

    fn tuned(tune: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            jwt_hs256_secret_file: Some(dir.path().join("secret")),
            jwt_public_key: Some(dir.path().join("rsa")),
            jwt_jwks: Some(Jwks::File(dir.path().join("jwks"))),
            ..Config::default()
        };
        tune(&mut config);
        std::fs::write(dir.path().join("secret"), SECRET).unwrap();
        std::fs::write(dir.path().join("rsa"), &RSA.public).unwrap();
        let keys = [
            P256.jwk(Algorithm::ES256, "ec"),
            ED25519.jwk(Algorithm::EdDSA, "ed"),
        ];
        std::fs::write(dir.path().join("jwks"), set(&keys)).unwrap();
        let (tokens, _) = Tokens::open(&config, Arc::default()).unwrap();
        Self { tokens, dir }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.dir.path().join(name), content).unwrap();
    }

    async fn refusal(&self, token: &str) -> Option<TokenError> {
        self.tokens.verify(token).await.err()
    }

    fn checked(&self, result: &'static str) -> u64 {
        self.tokens
            .metrics
            .token_checks
            .get_or_create(&OutcomeLabel { result })
            .get()
    }
}

/// A token with this header, signed by nobody.
fn unsigned(header: &Value, signature: &str) -> String {
    let part = |json: &Value| BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(&claims(&json!({}))))
}

#[tokio::test]
async fn every_kind_of_key_verifies_its_tokens() {
    let world = World::new();
    let named = |pair: &Pair, algorithm| {
        signed(&Header::new(algorithm), &json!({}), &pair.signs(algorithm))
    };
    for token in [
        hs256(&json!({})),
        named(&RSA, Algorithm::RS256),
        named(&P256, Algorithm::ES256),
        by(&P256, Algorithm::ES256, "ec"),
        by(&ED25519, Algorithm::EdDSA, "ed"),
        // The key in the PEM file has no name, so any name may be its own.
        by(&RSA, Algorithm::RS256, "whatever"),
    ] {
        let claims = world.tokens.verify(&token).await.unwrap();
        assert_eq!(
            (claims.user.as_str(), claims.role, claims.counted),
            ("u1", Role::Viewer, true)
        );
    }
}

/// A token whose algorithm has the name of RFC 9864.
fn renamed(more: &Value, pair: &Pair) -> String {
    let token = unsigned(&json!({"alg": "Ed25519", "kid": "ed"}), "");
    let (header, _) = token.split_once('.').unwrap();
    let payload = BASE64URL_NOPAD.encode(claims(more).to_string().as_bytes());
    let message = format!("{header}.{payload}");
    let key = pair.signs(Algorithm::EdDSA);
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::EdDSA).unwrap();
    format!("{message}.{signature}")
}

#[tokio::test]
async fn a_token_may_call_its_algorithm_ed25519() {
    let world = World::tuned(|config| config.jwt_audience = Some("shop".to_owned()));
    let good = json!({"aud": "shop"});
    let claims = world.tokens.verify(&renamed(&good, &ED25519)).await;
    assert_eq!(claims.unwrap().user.as_str(), "u1");
    let tampered = renamed(&good, &ED25519).replacen('.', ".e30x", 1);
    for (token, why) in [
        (renamed(&good, &OTHER_ED25519), TokenError::Signature),
        (tampered, TokenError::Signature),
        (
            renamed(&json!({"aud": "x"}), &ED25519),
            TokenError::Audience,
        ),
        (
            renamed(&json!({"aud": "shop", "exp": 1}), &ED25519),
            TokenError::Expired,
        ),
        (
            renamed(&json!({"aud": "shop", "sub": ""}), &ED25519),
            TokenError::Claims,
        ),
        (
            format!("{}.x", renamed(&good, &ED25519)),
            TokenError::Signature,
        ),
        (
            unsigned(&json!({"alg": "Ed25519"}), ""),
            TokenError::Signature,
        ),
    ] {
        assert_eq!(world.refusal(&token).await, Some(why), "{token}");
    }
}

#[tokio::test]
async fn claims_are_read() {
    let world = World::new();
    let exp = now() + 60;
    let more = json!({
        "role": "streamer", "exp": exp as f64 + 0.5, "count": false, "invisible": true, "lives": ["42"],
        "fan_of": ["s1", "s2"], "nbf": now() + 25, "aud": ["x"], "iss": "y", "more": {"deep": []},
    });
    let claims = world.tokens.verify(&hs256(&more)).await.unwrap();
    assert_eq!((claims.role, claims.counted), (Role::Streamer, false));
    assert_eq!(claims.expires_at, exp * 1_000 + 500);
    assert_eq!(
        (
            claims.lives.as_ref().unwrap().len(),
            claims.fan_of.as_ref().unwrap().len()
        ),
        (1, 2)
    );
    let for_ever = world
        .tokens
        .verify(&hs256(&json!({"exp": 1e18})))
        .await
        .unwrap();
    assert_eq!(for_ever.expires_at, 253_402_300_799_000);
    let late = world
        .tokens
        .verify(&hs256(&json!({"exp": now() - 20})))
        .await;
    assert!(late.is_ok(), "within the leeway");
}

#[tokio::test]
async fn bad_claims_are_refused() {
    let world = World::new();
    for (more, why) in [
        (json!({"exp": now() - 40}), TokenError::Expired),
        (json!({"exp": 0}), TokenError::Expired),
        (json!({"nbf": now() + 40}), TokenError::NotYet),
        (json!({"exp": null}), TokenError::Claims),
        (json!({"exp": "tomorrow"}), TokenError::Claims),
        (json!({"exp": -1}), TokenError::Claims),
        (json!({"nbf": "yesterday"}), TokenError::Claims),
        (json!({"sub": null}), TokenError::Claims),
        (json!({"sub": 7}), TokenError::Claims),
        (json!({"sub": ""}), TokenError::Claims),
        (json!({"sub": "u{1}"}), TokenError::Claims),
        (json!({"sub": "u".repeat(65)}), TokenError::Claims),
        (json!({"role": "emperor"}), TokenError::Claims),
        (json!({"role": ["service"]}), TokenError::Claims),
        (json!({"lives": "42"}), TokenError::Claims),
        (json!({"iss": ["me"]}), TokenError::Claims),
        (json!({"lives": ["42", "*"]}), TokenError::Claims),
        (json!({"fan_of": ["s 1"]}), TokenError::Claims),
        (json!({"count": "no"}), TokenError::Claims),
        (json!({"aud": 5}), TokenError::Claims),
        (json!({"aud": {"rollcall": true}}), TokenError::Claims),
        (json!({"aud": ["rollcall", 5]}), TokenError::Claims),
        (json!({"sub": "."}), TokenError::Claims),
        (json!({"sub": ".."}), TokenError::Claims),
        (json!({"lives": ["42", ".."]}), TokenError::Claims),
        (json!({"fan_of": ["."]}), TokenError::Claims),
    ] {
        assert_eq!(world.refusal(&hs256(&more)).await, Some(why), "{more}");
    }
    for claim in [
        "role",
        "lives",
        "fan_of",
        "count",
        "invisible",
        "iss",
        "aud",
        "nbf",
    ] {
        let claims = json!({"sub": "u1", "exp": now() + 60, claim: null});
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap();
        assert_eq!(
            world.refusal(&token).await,
            Some(TokenError::Claims),
            "{claim}"
        );
    }
}

#[tokio::test]
async fn forged_and_broken_tokens_are_refused() {
    let world = World::new();
    let good = hs256(&json!({}));
    let (rest, _) = good.rsplit_once('.').unwrap();
    let other = |algorithm, key| signed(&Header::new(algorithm), &json!({}), &key);
    let hs_by = |text: &[u8]| other(Algorithm::HS256, EncodingKey::from_secret(text));
    let critical = Header {
        crit: Some(vec!["b64".to_owned()]),
        ..Header::new(Algorithm::HS256)
    };
    let own_key = json!({"alg": "ES256", "jwk": OTHER_P256.jwk(Algorithm::ES256, "x")});
    for (what, token, why) in [
        ("another secret", hs_by(&[b'x'; 40]), TokenError::Signature),
        (
            "the RSA key as a secret",
            hs_by(RSA.public.as_bytes()),
            TokenError::Signature,
        ),
        (
            "the trimmed RSA key as a secret",
            hs_by(RSA.public.trim().as_bytes()),
            TokenError::Signature,
        ),
        ("no secret", hs_by(b""), TokenError::Signature),
        (
            "HS384",
            other(
                Algorithm::HS384,
                EncodingKey::from_secret(SECRET.as_bytes()),
            ),
            TokenError::Signature,
        ),
        (
            "PS256",
            other(Algorithm::PS256, RSA.signs(Algorithm::PS256)),
            TokenError::Signature,
        ),
        (
            "RS384",
            other(Algorithm::RS384, RSA.signs(Algorithm::RS384)),
            TokenError::Signature,
        ),
        (
            "ES384",
            other(Algorithm::ES384, P384.signs(Algorithm::ES384)),
            TokenError::Signature,
        ),
        (
            "another key",
            other(Algorithm::ES256, OTHER_P256.signs(Algorithm::ES256)),
            TokenError::Signature,
        ),
        (
            "another key, named",
            by(&OTHER_P256, Algorithm::ES256, "ec"),
            TokenError::Signature,
        ),
        (
            "an unknown key",
            by(&OTHER_P256, Algorithm::ES256, "new"),
            TokenError::UnknownKey,
        ),
        (
            "a key of its own",
            unsigned(&own_key, "AAAA"),
            TokenError::Signature,
        ),
        (
            "none",
            unsigned(&json!({"alg": "none"}), ""),
            TokenError::Malformed,
        ),
        (
            "None",
            unsigned(&json!({"alg": "None", "typ": "JWT"}), "AAAA"),
            TokenError::Malformed,
        ),
        ("no alg", unsigned(&json!({}), ""), TokenError::Malformed),
        ("no signature", format!("{rest}."), TokenError::Signature),
        (
            "a cut signature",
            good[..good.len() - 4].to_owned(),
            TokenError::Signature,
        ),
        (
            "a critical extension",
            signed(
                &critical,
                &json!({}),
                &EncodingKey::from_secret(SECRET.as_bytes()),
            ),
            TokenError::Malformed,
        ),
        ("empty", String::new(), TokenError::Malformed),
        ("dots", "..".to_owned(), TokenError::Malformed),
        ("four parts", format!("{good}.x"), TokenError::Malformed),
        (
            "garbage",
            "\u{0}é{\"alg\":1}.\u{7f}.%".to_owned(),
            TokenError::Malformed,
        ),
        (
            "huge",
            format!("{good}{}", "A".repeat(LONGEST)),
            TokenError::Malformed,
        ),
        (
            "deep",
            unsigned(&json!({"alg": "HS256"}), "A").replacen(
                '.',
                &format!(".{}", "W1tb".repeat(999)),
                1,
            ),
            TokenError::Signature,
        ),
    ] {
        assert_eq!(world.refusal(&token).await, Some(why), "{what}");
    }
    assert_eq!(world.checked("verified"), 0);
    assert_eq!(world.checked("unknown_key"), 1);
}

#[tokio::test]
async fn audience_and_issuer_are_checked_when_configured() {
    let world = World::tuned(|config| {
        config.jwt_audience = Some("rollcall".to_owned());
        config.jwt_issuer = Some("https://id".to_owned());
    });
    let refusal = async |aud: Value, iss: Value| {
        world
            .refusal(&hs256(&json!({"aud": aud, "iss": iss})))
            .await
    };
    let right = || json!("https://id");
    assert_eq!(refusal(json!("rollcall"), right()).await, None);
    assert_eq!(refusal(json!(["x", "rollcall"]), right()).await, None);
    for wrong in [json!("x"), json!(["x"]), json!([]), json!(null), json!(7)] {
        assert_eq!(
            refusal(wrong.clone(), right()).await,
            Some(TokenError::Audience),
            "{wrong}"
        );
    }
    for wrong in [
        json!("https://evil"),
        json!("https://id/"),
        json!(null),
        json!({}),
    ] {
        assert_eq!(
            refusal(json!("rollcall"), wrong.clone()).await,
            Some(TokenError::Issuer),
            "{wrong}"
        );
    }
    assert_eq!(
        refusal(json!("rollcall"), json!(["https://evil", "https://id"])).await,
        Some(TokenError::Claims)
    );
}

#[tokio::test]
async fn a_token_that_was_verified_is_known_until_it_expires() {
    let world = World::new();
    // The leeway has almost passed.
    let (short, long) = (hs256(&json!({"exp": now() - 29})), hs256(&json!({})));
    let first = world.tokens.verify(&long).await.unwrap();
    assert!(Arc::ptr_eq(
        &first,
        &world.tokens.verify(&long).await.unwrap()
    ));
    assert_eq!((world.checked("verified"), world.checked("known")), (1, 1));
    assert!(world.tokens.verify(&short).await.is_ok());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while world.refusal(&short).await.is_none() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the token never expires"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.refusal(&short).await, Some(TokenError::Expired));
    let bad = by(&OTHER_P256, Algorithm::ES256, "ec");
    for _ in 0..2 {
        assert_eq!(world.refusal(&bad).await, Some(TokenError::Signature));
    }
    assert_eq!(world.checked("signature"), 2, "a refusal is not kept");
}

#[tokio::test]
async fn a_reload_takes_new_keys_and_forgets_what_old_keys_verified() {
    let world = World::new();
    let old = hs256(&json!({}));
    assert_eq!(world.refusal(&old).await, None);
    let secret = "another-secret-of-more-than-32-bytes";
    world.write("secret", secret);
    assert_eq!(
        world.refusal(&old).await,
        None,
        "files are read when told to"
    );
    world.tokens.read_again().unwrap();
    assert_eq!(world.refusal(&old).await, Some(TokenError::Signature));
    let new = signed(
        &Header::new(Algorithm::HS256),
        &json!({}),
        &EncodingKey::from_secret(secret.as_bytes()),
    );
    assert_eq!(world.refusal(&new).await, None);
    world.write("jwks", set(&[OTHER_P256.jwk(Algorithm::ES256, "ec")]));
    world.write("rsa", &P256.public);
    world.tokens.read_again().unwrap();
    assert_eq!(
        world
            .refusal(&by(&OTHER_P256, Algorithm::ES256, "ec"))
            .await,
        None
    );
    assert_eq!(
        world.refusal(&by(&ED25519, Algorithm::EdDSA, "ed")).await,
        Some(TokenError::UnknownKey)
    );
}

#[tokio::test]
async fn a_bad_file_keeps_all_old_keys() {
    for (name, content) in [
        ("secret", "short"),
        ("rsa", "no key"),
        ("jwks", "{\"keys\":[]}"),
    ] {
        let world = World::new();
        world.write(name, content);
        let why = world.tokens.read_again().unwrap_err();
        assert!(why.starts_with("jwt-"), "it names the setting: {why}");
        assert_eq!(world.refusal(&hs256(&json!({}))).await, None, "{name}");
        assert_eq!(
            world.refusal(&by(&ED25519, Algorithm::EdDSA, "ed")).await,
            None,
            "{name}"
        );
        assert_eq!(
            world.refusal(&by(&RSA, Algorithm::RS256, "r")).await,
            None,
            "{name}"
        );
    }
}
