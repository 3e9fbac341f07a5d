//! Owns what an issuer of tokens has: a secret in a file, keys that openssl makes, tokens signed
//! with them, and a small HTTP server that shows the public keys.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::service::Service;
use super::tokens::{self, in_seconds};

/// A secret as an operator makes it.
pub const SECRET: &str = "a-secret-of-more-than-32-bytes-hunter2";

/// An issuer with a secret, whose file is gone when it is dropped.
pub struct Issuer {
    dir: TempDir,
}

impl Issuer {
    /// With [`SECRET`].
    pub fn new() -> Self {
        let issuer = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        issuer.writes(SECRET);
        issuer
    }

    /// The file with the secret.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("secret")
    }

    /// Replaces the secret in the file.
    pub fn writes(&self, secret: &str) {
        std::fs::write(self.file(), format!("{secret}\n")).unwrap();
    }
}

/// Claims of a user, good for an hour; `more` adds to them.
pub fn claims(user: &str, more: &Value) -> Value {
    let mut claims = json!({ "sub": user, "exp": in_seconds(3_600) });
    let added = more.as_object().unwrap().clone();
    claims.as_object_mut().unwrap().extend(added);
    claims
}

/// A token signed with a secret.
pub fn hs256(secret: &str, claims: &Value) -> String {
    tokens::hs256(secret.as_bytes(), claims)
}

/// A P-256 key with a name.
pub struct NamedKey {
    id: String,
    key: EncodingKey,
}

impl NamedKey {
    /// A new key.
    pub fn new(id: &str) -> Self {
        let mut command = Command::new("openssl");
        command
            .args("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256".split(' '))
            .stdin(Stdio::null());
        let out = command
            .output()
            .unwrap_or_else(|e| panic!("openssl cannot be started ({e})"));
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        Self {
            id: id.to_owned(),
            key: EncodingKey::from_ec_pem(&out.stdout).unwrap(),
        }
    }

    /// A token that names the key.
    pub fn signs(&self, claims: &Value) -> String {
        let header = Header {
            kid: Some(self.id.clone()),
            ..Header::new(Algorithm::ES256)
        };
        encode(&header, claims, &self.key).unwrap()
    }

    fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }
}

/// Shows a key set over HTTP.
pub struct KeyServer {
    /// Where the set is.
    pub url: String,
    shown: Arc<Shown>,
    _service: Service,
}

#[derive(Default)]
struct Shown {
    set: Mutex<String>,
    asked: AtomicU64,
}

async fn shows_keys(State(shown): State<Arc<Shown>>) -> String {
    shown.asked.fetch_add(1, Ordering::SeqCst);
    shown.set.lock().unwrap().clone()
}

impl KeyServer {
    /// Shows these keys.
    pub async fn new(keys: &[&NamedKey]) -> Self {
        let shown = Arc::<Shown>::default();
        let router = Router::new()
            .route("/jwks.json", get(shows_keys))
            .with_state(shown.clone());
        let service = Service::start(router).await;
        let server = Self {
            url: format!("http://{}/jwks.json", service.addr),
            shown,
            _service: service,
        };
        server.shows(keys);
        server
    }

    /// Shows these keys from now on.
    pub fn shows(&self, keys: &[&NamedKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        *self.shown.set.lock().unwrap() = json!({ "keys": keys }).to_string();
    }

    /// How often it was asked.
    pub fn asked(&self) -> u64 {
        self.shown.asked.load(Ordering::SeqCst)
    }
}
