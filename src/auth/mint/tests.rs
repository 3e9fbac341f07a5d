//! What is minted here is verified by the gateway's own checks.

use std::sync::Arc;

use super::super::test_keys::{ED25519, P256, P384, RSA, SECRET};
use super::super::tokens::Tokens;
use super::*;
use crate::config::Config;

fn file(content: &str) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file.into_temp_path()
}

#[tokio::test]
async fn a_minted_token_is_good() {
    let grant = Grant {
        ttl: Duration::from_secs(60),
        lives: Some(vec![LiveId::parse("42").unwrap()]),
        fan_of: Some(vec![UserId::parse("s1").unwrap()]),
        counted: false,
        audience: Some("rollcall".to_owned()),
        issuer: Some("dev".to_owned()),
        ..Grant::new(UserId::parse("u1").unwrap(), Role::Streamer)
    };
    for pair in [&RSA, &P256, &ED25519] {
        let public = file(&pair.public);
        let config = Config {
            jwt_public_key: Some(public.to_path_buf()),
            jwt_audience: grant.audience.clone(),
            jwt_issuer: grant.issuer.clone(),
            ..Config::default()
        };
        let (tokens, _) = Tokens::open(&config, Arc::default()).unwrap();
        let token = TokenSigner::of_private_key(&file(&pair.private))
            .unwrap()
            .sign(&grant)
            .unwrap();
        let claims = tokens.verify(token.reveal()).await.unwrap();
        assert_eq!(
            (&claims.user, claims.role, claims.counted),
            (&grant.user, Role::Streamer, false)
        );
        assert_eq!(
            (claims.lives.as_deref(), claims.fan_of.as_deref()),
            (grant.lives.as_deref(), grant.fan_of.as_deref())
        );
        let lasts = claims.expires_at.abs_diff(unix_now() + 60_000);
        assert!(lasts < 10_000, "{lasts} ms off");
    }
}

#[test]
fn keys_that_cannot_sign_are_refused() {
    for bad in [&*RSA.public, &P256.public, &P384.private, "hunter2"] {
        let why = TokenSigner::of_private_key(&file(bad)).unwrap_err();
        assert!(
            why.setting == "jwt-private-key" && !why.to_string().contains("hunter2"),
            "{why}"
        );
    }
    assert_eq!(
        TokenSigner::of_secret_file(&file("short"))
            .unwrap_err()
            .setting,
        "jwt-hs256-secret-file"
    );
}

#[test]
fn a_signer_and_what_it_makes_print_no_secret() {
    let signer = TokenSigner::of_secret_file(&file(SECRET)).unwrap();
    assert_eq!(format!("{signer:?}"), "Signer(HS256)");
    let token = signer
        .sign(&Grant::new(UserId::parse("u1").unwrap(), Role::Viewer))
        .unwrap();
    assert_eq!(
        format!("{:?} {:?}", token, api_key().0),
        "(secret) (secret)"
    );
}

#[test]
fn an_api_key_has_256_random_bits_and_the_digest_of_what_is_sent() {
    let ((one, digest), (other, _)) = (api_key(), api_key());
    assert_ne!(one.reveal(), other.reveal());
    assert_eq!(
        BASE64URL_NOPAD
            .decode(one.reveal().as_bytes())
            .unwrap()
            .len(),
        32
    );
    assert_eq!(
        digest,
        HEXLOWER.encode(&Sha256::digest(one.reveal().as_bytes()))
    );
}
